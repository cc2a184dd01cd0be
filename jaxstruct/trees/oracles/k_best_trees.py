"""The k best trees of a sentence."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.batch_last import in_column_blocks, of_one_example
from jaxstruct.core.checks import checked_size
from jaxstruct.core.largest import k_largest
from jaxstruct.core.types import Array
from jaxstruct.trees.oracles.best_charts import Sentences, sentences, term_rows
from jaxstruct.trees.oracles.best_search import group_rules, rule_scores
from jaxstruct.trees.oracles.charts import Layout, plain
from jaxstruct.trees.oracles.k_best_charts import RankedCharts, rank_pairs, ranked_charts
from jaxstruct.trees.oracles.k_best_charts_sorted import choice_of, sentence_bytes, sorted_charts
from jaxstruct.trees.oracles.potential_checks import checked_sentence
from jaxstruct.trees.oracles.rule_runs import BLOCK, GROUP
from jaxstruct.trees.oracles.traceback import Choice, Node, pick, trace_back
from jaxstruct.trees.potentials import GrammarRules, Parsed, TreePotentials, score_tree

_NO_INDEX = np.iinfo(np.int32).max
FEW = 8
"""Up to so many trees merges are written out, a program that grows with k^2; more are sorted. At
k = 5 sorting takes 4 times as long; at k = 40 the written program did not compile within 200 s,
the sorted one takes 1.8."""
MOST_BYTES = 2**28
"""Sentences that take more than this together are parsed one block after the other."""


def _best_after(values: Array, index: Array, before: tuple[Array, Array]) -> tuple[Array, Array]:
    """The next entry: values fall, and among equal ones the indices rise.

    Args:
      values, index: [X, .., B]; entries of -inf are none.
      before: value and index [.., B].
    """
    value, place = (leaf[None] for leaf in before)
    after = (values < value) | ((values == value) & (index > place))
    left = jnp.where(after, values, -jnp.inf)
    top = jnp.max(left, axis=0)
    hit = after & (left == top[None]) & (top > -jnp.inf)[None]
    return top, jnp.min(jnp.where(hit, index, _NO_INDEX), axis=0)


def _entry_of_rank(
    rank: Array, rounds: Array | int, entries: Callable, dtype: jnp.dtype
) -> tuple[Array, Array]:
    """(value, index) of the entry of a rank, from 0, among all entries.

    Args:
      rank: [.., B].
      rounds: how many lots of entries there are.
      entries: lot -> values and indices [X, .., B]; falling values, then rising indices, rank them.
    """

    def best_of_lots(before: tuple[Array, Array]) -> tuple[Array, Array]:
        def body(lot: Array, best: tuple[Array, Array]) -> tuple[Array, Array]:
            values, index = entries(lot)
            new = _best_after(values, index, before)
            better = (new[0] > best[0]) | ((new[0] == best[0]) & (new[1] < best[1]))
            return jnp.where(better, new[0], best[0]), jnp.where(better, new[1], best[1])

        none = jnp.full(rank.shape, -jnp.inf, dtype), jnp.full(rank.shape, _NO_INDEX, jnp.int32)
        return jax.lax.fori_loop(0, rounds, body, none)

    # One pass over all entries a rank: for few ranks that is less than to hold and sort them.
    def step(r: Array, found: tuple[Array, Array]) -> tuple[Array, Array]:
        new = best_of_lots(found)
        below = r <= rank
        return jnp.where(below, new[0], found[0]), jnp.where(below, new[1], found[1])

    first = jnp.full(rank.shape, jnp.inf, dtype), jnp.full(rank.shape, -1, jnp.int32)
    return jax.lax.fori_loop(0, jnp.max(rank) + 1, step, first)


def _lift(index: Array, like: Array) -> Array:
    """[X] as [X, 1, .., 1] beside an array [.., B]."""
    return index.reshape(-1, *(1,) * like.ndim)


def _group(k: int, given: Sentences, charts: RankedCharts, node: Node, row: Array) -> Array:
    """k group + rank: the place of a node's rank among the lists of its groups."""
    starts, counts = (
        leaf[node.symbol] for leaf in (given.table.groups.starts, given.table.groups.counts)
    )
    ranks = _lift(jnp.arange(k, dtype=jnp.int32), node.state)

    def entries(j: Array) -> tuple[Array, Array]:
        real = j < counts
        place = jnp.where(real, starts + j, 0)
        values = pick(charts.groups, row[None], ranks, place[None])
        index = jnp.broadcast_to(j * k + ranks, values.shape)
        return jnp.where(real[None], values, -jnp.inf), index

    return _entry_of_rank(node.state, jnp.max(counts), entries, charts.groups.dtype)[1]


def _search(k: int, layout: Layout, given: Sentences, charts: RankedCharts, node: Node) -> Choice:
    """(rule, split, ranks of both parts) of the tree with the rank of a node."""
    width = node.end - node.begin
    at = _group(k, given, charts, node, layout.row(width, node.begin))
    group, rank = jnp.divmod(jnp.where(at == _NO_INDEX, 0, at), k)
    rules, real = group_rules(given, node.symbol, group)
    scores = rule_scores(given, node, rules, real)
    lefts, rights = given.table.rules.lefts[rules], given.table.rules.rights[rules]
    pairs = np.array(rank_pairs(k), np.int32)
    first, last = (jnp.asarray(layout.first_terms)[width, j] for j in (0, 1))
    places = _lift(jnp.arange(BLOCK * GROUP, dtype=jnp.int32), rank)

    def entries(j: Array) -> tuple[Array, Array]:
        term = jnp.where(first + j < last, first + j, first)
        left, right = term_rows(layout, width, node.begin, term)
        parts = [
            pick(charts.cells, left[None], jnp.full_like(lefts, a), lefts)
            + pick(charts.cells, right[None], jnp.full_like(lefts, b), rights) + scores
            for a, b in pairs
        ]  # fmt: skip
        index = [(places * layout.tokens + j) * len(pairs) + p for p in range(len(pairs))]
        values = jnp.where((first + j < last)[None], jnp.concatenate(parts), -jnp.inf)
        return values, jnp.broadcast_to(jnp.concatenate(index), values.shape)

    dtype = charts.cells.dtype
    found = _entry_of_rank(rank, jnp.max(last - first), entries, dtype)[1]
    which, pair = jnp.divmod(jnp.where(found == _NO_INDEX, 0, found), len(pairs))
    place, term = jnp.divmod(which, layout.tokens)
    rule = jnp.take_along_axis(rules, place[None], axis=0)[0]
    split = jnp.asarray(layout.terms)[jnp.minimum(first + term, last - 1), 0]
    return Choice(rule, split, *jnp.moveaxis(jnp.asarray(pairs)[pair], -1, 0))


def _kernel(k: int, rules: GrammarRules, potentials: TreePotentials, length: Array) -> Parsed:
    T, S = potentials.lexical.shape[:2]
    if k <= FEW:
        return _k_best(k, True, rules, potentials, length)
    one = sentence_bytes(k, T, S, rules.parents.shape[0], potentials.lexical.dtype)
    blocked = in_column_blocks(
        partial(_k_best, k, False), max(1, MOST_BYTES // one), of_memory=True
    )
    return blocked(rules, potentials, length)


def _k_best(
    k: int, few: bool, rules: GrammarRules, potentials: TreePotentials, length: Array
) -> Parsed:
    given, layout = sentences(rules, potentials, length), plain(potentials.lexical.shape[0])
    S, shape = potentials.lexical.shape[1], (k, given.batch)
    length = jnp.broadcast_to(given.length[None], shape)
    if few:
        charts = ranked_charts(k, layout, given)
        search = partial(_search, k, layout, given, charts)
    else:
        charts = sorted_charts(k, layout, given)
        search = partial(choice_of, k, layout, charts)
    symbols, ranks = jnp.divmod(jnp.arange(S * k, dtype=jnp.int32)[:, None], k)
    row = layout.row(given.length, 0)[None]
    tops = pick(charts.cells, row, ranks, symbols) + pick(given.potentials.root, symbols)
    places = (jnp.broadcast_to(leaf, tops.shape) for leaf in (symbols, ranks))
    score, (symbol, state) = k_largest(k, tops, tuple(places))
    top = Node(symbol, jnp.zeros(shape, jnp.int32), length, state)
    children = (given.table.rules.lefts, given.table.rules.rights)
    tree = trace_back(layout.tokens, length, top, score > -jnp.inf, children, search)
    return Parsed(jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), tree), score)


def _scores(found: Parsed, rules: GrammarRules, potentials: TreePotentials, length: Array) -> Array:
    return jax.vmap(score_tree, (None, None, 0, None))(rules, potentials, found.tree, length)


@cache
def _of_one(k: int) -> Callable:
    return of_one_example(partial(_kernel, k), _scores)


def k_best_trees(rules: GrammarRules, potentials: TreePotentials, length: Array, k: int) -> Parsed:
    """The k trees of the largest scores, the best first.

    CKY with the k best trees of every symbol over a span instead of one. Of more than `FEW` a
    sentence takes 6 k (S T (T + 1) + 2 R) bytes in float32, R rules, and a batch no more than
    `MOST_BYTES` where one sentence does not.

    Args:
      rules, potentials, length: as in `cky`.
      k: how many, at least 1, a Python integer.

    Returns:
      Parsed: trees with a leading axis [k], all distinct, and their F [k] in falling order. The
      first tree is that of `cky`. The first k - 1 trees are those of a call with k - 1. Equal
      scores are ordered by the top node: by its symbol, the group of its rule, its rule, its
      split, the rank of its left part, the rank of its right part. Beyond the last tree the score
      is -inf and the tree PADDING. The derivative of a score counts
      the uses of its tree.

    Raises:
      ValueError: k < 1, or as `cky`.
    """
    k = checked_size("k", k)
    return _of_one(k)(*checked_sentence(rules, potentials, length))
