"""What the oracles of trees check before they compile: shapes, dtypes, and rules if known."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.lengths import checked_length, known
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


def checked_rules(rules: GrammarRules, symbols: int) -> GrammarRules:
    """Rules as int32 arrays. Their values are checked where they are known: not while tracing.

    Raises:
      ValueError: they are not three arrays [R], R >= 1, hold other symbols than 0..S - 1, or are
        not sorted, or they are no integers.
    """
    rules = GrammarRules(*map(jnp.asarray, rules))
    shapes = [leaf.shape for leaf in rules]
    if len(set(shapes)) > 1 or len(shapes[0]) != 1 or shapes[0] == (0,):
        raise ValueError(
            f"rules.parents, lefts and rights must all be [R], R >= 1, got shapes {shapes}; all "
            "sentences of a batch share them: use jax.vmap with None for them"
        )
    for name, leaf in zip(GrammarRules._fields, rules, strict=True):
        if not jnp.issubdtype(leaf.dtype, jnp.integer):
            raise ValueError(f"rules.{name} must be integers, got {leaf.dtype}")
    if all(map(known, rules)):
        _check_values(rules, symbols)
    return GrammarRules(*(leaf.astype(jnp.int32) for leaf in rules))


def checked_tree_potentials(potentials: TreePotentials, rules: int) -> TreePotentials:
    """Potentials of one sentence as arrays of one floating dtype.

    Raises:
      ValueError: a shape is not that of one sentence, or does not fit the others or the rules, or
        they are no floating-point numbers.
    """
    potentials = jax.tree.map(jnp.asarray, potentials)
    lexical = potentials.lexical
    if lexical.ndim != 2 or lexical.shape[0] < 2 or lexical.shape[1] < 1:
        raise ValueError(
            "potentials.lexical must be [T, S] of one sentence, T >= 2 (pad one token) and S >= 1, "
            f"got shape {lexical.shape}; use jax.vmap for a batch"
        )
    T, S = lexical.shape
    expected = {
        "rules": {"[R]": (rules,), "[T, T, R]": (T, T, rules)},
        "root": {"[S]": (S,)},
        "spans": {"[T, T, S]": (T, T, S)},
    }
    for name, shapes in expected.items():
        leaf = getattr(potentials, name)
        if leaf is not None and leaf.shape not in shapes.values():
            wanted = " or ".join(f"{letters} = {list(shape)}" for letters, shape in shapes.items())
            raise ValueError(f"potentials.{name} must be {wanted}, got shape {leaf.shape}")
    dtype = jnp.result_type(*jax.tree.leaves(potentials))
    if not jnp.issubdtype(dtype, jnp.floating):
        raise ValueError(f"potentials must be floating-point numbers, got {dtype}")
    return jax.tree.map(lambda leaf: leaf.astype(dtype), potentials)


def checked_sentence(
    rules: GrammarRules, potentials: TreePotentials, length: Array
) -> tuple[GrammarRules, TreePotentials, Array]:
    """The arguments that all oracles of trees share. A traced length is clipped to 1..T.

    Raises:
      ValueError: as `checked_rules` and `checked_tree_potentials`; length is no integer
        scalar, or is known and not in 1..T.
    """
    potentials = checked_tree_potentials(potentials, jnp.shape(rules[0])[-1])
    T, S = potentials.lexical.shape
    rules, length = checked_rules(rules, S), checked_length(length, T, least=1)
    return rules, potentials, jnp.clip(length, 1, T)


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
