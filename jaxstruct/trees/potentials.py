"""Potentials of the trees of a weighted grammar in Chomsky normal form, and the score of one tree.

F(y) = sum_{t<l} lexical[t, A_t] + root[A of the top node]
       + sum over inner nodes A -> B C of rules[A -> B C] + spans[begin, end - 1, A]

(thesis 4.5, JMLR 4.5). The top node of a sentence of one token is the symbol over that token.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.checks import checked_length, known
from jaxstruct.core.spec import one_example
from jaxstruct.core.types import Array, BinaryTree

PADDING = -1
"""What a tree holds beyond its length, and everywhere where there is no parse."""


class GrammarRules(NamedTuple):
    """The binary rules A -> B C of a grammar of S symbols, sorted by parent, then left, then right.

    The number of a rule is its place. Rules are arguments of a compiled program. All sentences of a
    batch share them.

    Fields:
      parents, lefts, rights: [R] int32 in 0..S - 1; A, B and C.
    """

    parents: Array
    lefts: Array
    rights: Array


class TreePotentials(NamedTuple):
    """Potentials of ONE sentence of at most T >= 2 tokens for S symbols and R rules.

    A potential is finite, or -inf, which forbids. What belongs to tokens beyond the length is never
    read, nor what belongs to spans that hold such tokens.

    Fields:
      lexical: [T, S] of the symbol right above each token.
      rules: [R].
      root: [S] of the symbol of the top node.
      spans: None, or [T, T, S] of a symbol over the tokens from the first to the last, of at least
        two tokens: (first token, last token, symbol).
    """

    lexical: Array
    rules: Array
    root: Array
    spans: Array | None = None


class Parsed(NamedTuple):
    """Trees and their scores F.

    Fields:
      tree: BinaryTree; or with a leading axis [k].
      score: a scalar; or [k].
    """

    tree: BinaryTree
    score: Array


def score_tree(
    rules: GrammarRules, potentials: TreePotentials, tree: BinaryTree, length: Array
) -> Array:
    """F(y) of one tree, differentiable in the potentials: the gradients count what it uses.

    Args:
      rules: the grammar.
      potentials: of one sentence; see the module's equation.
      tree: one tree over its first `length` tokens; what is beyond is ignored.
      length: int32 scalar, 1 <= length <= T.

    Returns:
      The score, a scalar; -inf for the tree of PADDING that stands for no parse.
    """
    rules, potentials = jax.tree.map(jnp.asarray, (rules, potentials))
    T, S = potentials.lexical.shape
    tokens, nodes = jnp.arange(T), jnp.arange(T - 1) < length - 1
    symbols = jnp.clip(tree.symbols, 0, S - 1)
    numbers = jnp.clip(tree.rules, 0, rules.parents.shape[0] - 1)
    begins, ends = jnp.clip(tree.begins, 0, T - 1), jnp.clip(tree.ends, 1, T)
    total = jnp.sum(jnp.where(tokens < length, potentials.lexical[tokens, symbols], 0))
    total += jnp.sum(jnp.where(nodes, potentials.rules[numbers], 0))
    parents = rules.parents[numbers]
    if potentials.spans is not None:
        scores = potentials.spans[begins, ends - 1, parents]
        total += jnp.sum(jnp.where(nodes, scores, 0))
    total += potentials.root[jnp.where(length > 1, parents[0], symbols[0])]
    return jnp.where(tree.symbols[0] == PADDING, -jnp.inf, total)


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
