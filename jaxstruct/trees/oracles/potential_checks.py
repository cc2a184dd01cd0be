"""What the oracles of trees check before they compile: shapes, dtypes, and rules if known."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from jaxstruct.core.lengths import checked_length, known
from jaxstruct.core.spec import one_example
from jaxstruct.core.types import Array
from jaxstruct.trees.potentials import GrammarRules, TreePotentials


def _check_values(rules: GrammarRules, symbols: int) -> None:
    table = np.stack([np.asarray(leaf) for leaf in rules])
    if table.min() < 0 or table.max() >= symbols:
        raise ValueError(
            f"rules must hold symbols in 0..{symbols - 1} (lexical has {symbols}), got "
            f"{table.min()}..{table.max()}"
        )
    order = np.lexsort(table[::-1])
    wrong = np.flatnonzero(np.any(table[:, order] != table, axis=0))
    if wrong.size:
        raise ValueError(
            f"rules must be sorted by parent, left, right; rule {wrong[0]} is not in its place; "
            "reorder rules and potentials by numpy.lexsort((rights, lefts, parents))"
        )


def checked_sentence(
    rules: GrammarRules, potentials: TreePotentials, length: Array
) -> tuple[GrammarRules, TreePotentials, Array]:
    """The arguments that all oracles of trees share. A traced length is clipped to 1..T.

    The values of rules are checked where they are known: not while tracing.

    Raises:
      ValueError: rules are not three integer arrays [R], R >= 1, hold other symbols than 0..S - 1,
        or are not sorted; a potential is not of one sentence, does not fit the others or the rules,
        or is no floating-point number; length is no integer scalar, or is known and not in 1..T.
    """
    sizes = {"R": jnp.shape(rules[0])[-1]}
    potentials = one_example(
        "potentials", potentials, sizes, lexical="T S", rules="R", root="S", spans="T T S"
    )
    T, S = sizes["T"], sizes["S"]
    if T < 2:
        raise ValueError("potentials.lexical must be [T, S], T >= 2 (pad one token), got T = 1")
    rules = one_example(
        "rules", GrammarRules(*rules), {}, GrammarRules._fields, parents="R", lefts="R", rights="R"
    )
    if all(map(known, rules)):
        _check_values(rules, S)
    return rules, potentials, jnp.clip(checked_length(length, T, least=1), 1, T)


def shared_rules(rules: GrammarRules) -> GrammarRules:
    """Rules [R] of a kernel that got them as [R, 1].

    Raises:
      ValueError: the sentences of a batch have rules of their own.
    """
    if rules.parents.shape[-1] != 1 or rules.lefts.shape[-1] != 1 or rules.rights.shape[-1] != 1:
        raise ValueError(
            "rules must be shared by all sentences of a batch: use jax.vmap with None for them; "
            "a rule that a sentence does not have gets the potential -inf"
        )
    return GrammarRules(*(leaf[..., 0] for leaf in rules))
