"""CKY: the best tree, the k best, and the best at every number of counted nodes.

A node is a symbol over a span. The caller chooses what it adds to the level of its tree:

- 1 for each node of the true tree: the level is the number of matched nodes, as 1 - F1 needs it.
- 1 for each node that the true tree lacks: the level is the number of misses. With two levels it
  separates the true tree from all others, as the zero-one loss does.

For a loss that is a function of the level, slack and margin re-scaling are exact maxima over the
levels (thesis 4.5).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import jax
import jax.numpy as jnp

from jaxstruct.core.batch_last import in_column_blocks, of_one_example
from jaxstruct.core.checks import checked_size
from jaxstruct.core.scores import k_largest
from jaxstruct.core.spec import array
from jaxstruct.core.types import Array
from jaxstruct.trees.oracles.forest_trees import chart_of, forest_level_trees, of_rows
from jaxstruct.trees.oracles.recursion import FEW, charts, largest, rank_pairs, row, sentences
from jaxstruct.trees.oracles.rule_runs import BLOCK, GROUP
from jaxstruct.trees.oracles.traceback import OfValue, lift, pick, trees_below
from jaxstruct.trees.potentials import (
    GrammarRules,
    Parsed,
    TreePotentials,
    checked_sentence,
    score_tree,
)

MOST_BYTES = 2**28
"""Sentences that take more than this together are parsed one block after the other."""


def sentence_bytes(k: int, tokens: int, symbols: int, rules: int, dtype: jnp.dtype) -> int:
    """Bytes of the charts and merges of one sentence; merges as compiled programs hold them."""
    blocks, groups = ((rules + (size - 1) * symbols) // size for size in (BLOCK, BLOCK * GROUP))
    rows, terms = tokens * (tokens + 1) // 2, (tokens - 1) * len(rank_pairs(k))
    held = rows * (symbols + groups) + 5 * blocks + 3 * terms
    return k * jnp.dtype(dtype).itemsize * held


def _kernel(k: int, rules: GrammarRules, potentials: TreePotentials, length: Array) -> Parsed:
    T, S = potentials.lexical.shape[:2]
    call = partial(_k_best, k)
    if k > FEW:
        one = sentence_bytes(k, T, S, rules.parents.shape[0], potentials.lexical.dtype)
        call = in_column_blocks(call, max(1, MOST_BYTES // one), of_memory=True)
    return call(rules, potentials, length)


def _k_best(k: int, rules: GrammarRules, potentials: TreePotentials, length: Array) -> Parsed:
    given = sentences(rules, potentials, length)
    found = charts(largest(k), given)
    places = jnp.arange(potentials.lexical.shape[1] * k, dtype=jnp.int32)
    symbols, ranks = jnp.divmod(lift(places, given.length), k)
    tops = pick(found.cells, row(given.length, 0)[None], ranks, symbols)
    tops = tops + pick(given.potentials.root, symbols)
    where = tuple(jnp.broadcast_to(leaf, tops.shape) for leaf in (symbols, ranks))
    score, (symbol, rank) = k_largest(k, tops, where)
    tree = trees_below(given, found, symbol, rank, score > -jnp.inf, OfValue())
    return Parsed(jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), tree), score)


def _scores(found: Parsed, rules: GrammarRules, potentials: TreePotentials, length: Array) -> Array:
    return jax.vmap(score_tree, (None, None, 0, None))(rules, potentials, found.tree, length)


@cache
def _of_one(k: int) -> Callable:
    return of_one_example(partial(_kernel, k), _scores)


def cky(rules: GrammarRules, potentials: TreePotentials, length: Array) -> Parsed:
    """The tree of the largest score: argmax_y F(y) of one sentence, F of `tree_potentials`.

    Bottom up it finds the best score of every symbol over every span. Top down, from the best top
    node, it finds the best rule and split of each node again (thesis 4.5, algorithm 5).

    Args:
      rules: the grammar; all sentences of a batch share it, so that its axis under `vmap` is None.
      potentials: of one sentence of at most T tokens, S symbols and R rules.
      length: int32 scalar, 1 <= length <= T.

    Returns:
      Parsed: a BinaryTree, and its F. Ties go to the lowest symbol of the top node, then, node by
      node in preorder, to the lowest number of a rule, then to the lowest split. A sentence
      without a parse has the score -inf and a tree of PADDING throughout. Under `vmap`, nested or
      not, one batched program runs for all sentences. The derivative of the score counts what the
      returned tree uses, 0 without a parse; the tree has none.

    Raises:
      ValueError: shapes do not fit together, a dtype is not what it should be, or rules
        that are known before compiling are not sorted or hold unknown symbols.

    Source: Cocke, Kasami, Younger.
    """
    found = _of_one(1)(*checked_sentence(rules, potentials, length))
    return jax.tree.map(lambda leaf: leaf[0], found)


def k_best_trees(rules: GrammarRules, potentials: TreePotentials, length: Array, k: int) -> Parsed:
    """The k trees of the largest scores, the best first.

    CKY with the k best trees of every symbol over a span instead of one. Of more than `FEW` a
    sentence takes what `sentence_bytes` says, and a batch no more than `MOST_BYTES` where one
    sentence does not.

    Args:
      rules, potentials, length: as in `cky`.
      k: how many, at least 1, a Python integer.

    Returns:
      Parsed: trees with a leading axis [k], all distinct, and their F [k] in falling order. The
      first tree is that of `cky`. The first k - 1 trees are those of a call with k - 1. Equal
      scores are ordered by the top node: by its symbol, its rule, its split, the rank of its left
      part, the rank of its right part. Beyond the last tree the score is -inf and the tree PADDING.
      The derivative of a score counts the uses of its tree.

    Raises:
      ValueError: k < 1, or as `cky`.
    """
    k = checked_size("k", k)
    return _of_one(k)(*checked_sentence(rules, potentials, length))


def tree_levels(
    rules: GrammarRules, potentials: TreePotentials, counts: Array, length: Array, levels: int
) -> Parsed:
    """The best tree of every level: argmax F(y) over trees whose nodes count m in all.

    CKY with a cell for every level of a symbol over a span, filled from all pairs of levels of its
    two parts (`oracles.forest_trees`).

    Args:
      rules, potentials, length: as in `cky`.
      counts: [T, T, S] integers >= 0, or bool, what a node adds: (first token, last token, symbol),
        single tokens included. Two counts are one: p L + m, where every m is less than L.
      levels: L, a Python integer: m is one of 0..L - 1, and L - 1 stands for all larger ones.

    Returns:
      Parsed whose leaves have a leading axis [L]; PADDING and -inf where no tree has the level.
      Ties within a level go to the lowest top symbol, below that, node by node in preorder, to the
      lowest rule, then split, then level of the left part. Within the last level any of the best
      may be returned. The derivative of a score counts what its tree uses.

    Raises:
      ValueError: as `cky`; levels < 1; counts do not fit.
    """
    rules, potentials, length = checked_sentence(rules, potentials, length)
    levels, (T, S) = checked_size("levels", levels), potentials.lexical.shape
    counts = jnp.asarray(counts)
    counts = counts.astype(jnp.int32) if counts.dtype == bool else counts
    array("counts", counts, "T T S", sizes={"T": T, "S": S}, advice="; use jax.vmap for a batch")
    chart, scores = chart_of(rules, potentials, length)
    tree = forest_level_trees(chart, scores, T, of_rows(counts).astype(jnp.int32), levels)
    return Parsed(tree, jax.vmap(partial(score_tree, rules, potentials, length=length))(tree))
