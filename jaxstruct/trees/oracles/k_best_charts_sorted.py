"""Charts of the k best scores over every span by sorting, and what made each; batch last.

`ranked_charts` writes its merges out, k^2 operations each: a program that the compiler takes hours
and gigabytes for where k is in the hundreds. This one has a size that does not depend on k. A merge
sorts, so that it is slower for a few trees, and each entry keeps its rule, split and ranks: finding
them again for a rank would take as many passes as the rank says.

Of one sentence the charts take 12 k S bytes (T^2 + T) / 2 in float32. A merge takes the pairs of
ranks, some k ln k, at most k at a time: it holds 2 k entries of each block of rules, and as many
sorted ones.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.largest import k_largest
from jaxstruct.core.types import Array
from jaxstruct.trees.oracles.best_charts import (
    Sentences,
    block_scores,
    row_of,
    scores_over,
    term_rows,
)
from jaxstruct.trees.oracles.charts import Layout
from jaxstruct.trees.oracles.k_best_charts import rank_pairs
from jaxstruct.trees.oracles.rule_runs import BLOCK
from jaxstruct.trees.oracles.traceback import Choice, Node, pick


class SortedCharts(NamedTuple):
    """The k best of every cell. Equal scores stand in the order of rule, split and ranks.

    Fields:
      cells: [rows, k, S, B] scores.
      rules: [rows, k, S, B] int32, of the top node. sources: its split and the ranks of its parts,
        (number of the split) x (number of pairs) + (number of the pair in `_pairs`).
    """

    cells: Array
    rules: Array
    sources: Array


def _pairs(k: int) -> np.ndarray:
    """[chunks, <= k, 2] `rank_pairs`, and (k, k), which is none, where the last chunk has fewer."""
    pairs = np.array(rank_pairs(k), np.int32)
    width = min(k, len(pairs))
    chunks = -(-len(pairs) // width)
    padded = np.full((chunks * width, 2), k, np.int32)
    padded[: len(pairs)] = pairs
    return padded.reshape(chunks, width, 2)


def _best_of_blocks(
    k: int, layout: Layout, given: Sentences, scores: Array, cells: Array, span: tuple
) -> SortedCharts:
    """Leaves [k, N, B]: the k best of each block over the terms of a span."""
    width, begin = span
    table, pairs = given.table, jnp.asarray(_pairs(k))
    chunks, size, _ = pairs.shape
    first, last = (jnp.asarray(layout.first_terms)[width, j] for j in (0, 1))
    terms = last - first

    def body(n: Array, best: SortedCharts) -> SortedCharts:
        # Of equal scores the first rule comes first, then the first split, then the first ranks.
        (j, term), chunk = jnp.divmod(n // chunks, terms), n % chunks
        left, right = (row_of(cells, row) for row in term_rows(layout, width, begin, first + term))
        ranks = pairs[chunk]
        real, ranks = (ranks[:, 0] < k)[:, None, None], jnp.minimum(ranks, k - 1)
        ahead = left[ranks[:, 0][:, None], table.lefts[j][None]]
        behind = right[ranks[:, 1][:, None], table.rights[j][None]]
        sums = jnp.where(real, ahead + behind + scores[j][None], -jnp.inf)
        rules = jnp.broadcast_to(table.blocks.members[j][None, :, None], sums.shape)
        source = (term * chunks + chunk) * size + jnp.arange(size, dtype=jnp.int32)
        source = jnp.broadcast_to(source[:, None, None], sums.shape)
        return _merged(k, best, SortedCharts(sums, rules, source))

    blocks = table.blocks.keys.shape[0]
    start = _empty((k, blocks, given.batch), cells.dtype)
    return jax.lax.fori_loop(0, terms * BLOCK * chunks, body, start)


def _merged(k: int, best: SortedCharts, new: SortedCharts) -> SortedCharts:
    """The k largest of both; of equal ones those of `best`."""
    cells, *others = (jnp.concatenate(leaves) for leaves in zip(best, new, strict=True))
    cells, others = k_largest(k, cells, others)
    return SortedCharts(cells, *others)


def _empty(shape: tuple[int, ...], dtype: jnp.dtype) -> SortedCharts:
    nothing = jnp.zeros(shape, jnp.int32)
    return SortedCharts(jnp.full(shape, -jnp.inf, dtype), nothing, nothing)


def _best_of_symbols(k: int, blocks: SortedCharts, given: Sentences) -> SortedCharts:
    """Leaves [k, S, B]: the k best of each symbol's blocks."""
    pieces = given.table.blocks
    most = pieces.keys.shape[0] - 1

    def body(j: Array, best: SortedCharts) -> SortedCharts:
        index = jnp.minimum(pieces.starts + j, most)
        new = SortedCharts(*(leaf[:, index] for leaf in blocks))
        real = (j < pieces.counts)[None, :, None]
        return _merged(k, best, new._replace(cells=jnp.where(real, new.cells, -jnp.inf)))

    start = _empty((k, pieces.counts.shape[0], given.batch), blocks.cells.dtype)
    return jax.lax.fori_loop(0, jnp.max(pieces.counts), body, start)


def sorted_charts(k: int, layout: Layout, given: Sentences) -> SortedCharts:
    """Fill the charts of a batch; the layout has one level."""
    lexical, constant = given.potentials.lexical, block_scores(given)
    T, S, _ = lexical.shape

    def fill(n: Array, charts: SortedCharts) -> SortedCharts:
        span = width, begin = jnp.asarray(layout.widths)[n], jnp.asarray(layout.begins)[n]
        scores = scores_over(given, constant, begin, width)
        blocks = _best_of_blocks(k, layout, given, scores, charts.cells, span)
        new = _best_of_symbols(k, blocks, given)
        if given.potentials.spans is not None:
            new = new._replace(
                cells=new.cells + given.potentials.spans[begin, begin + width - 1][None]
            )
        row = layout.row(width, begin)
        return SortedCharts(*(old.at[row].set(leaf) for old, leaf in zip(charts, new, strict=True)))

    charts = _empty((layout.size, k, S, given.batch), lexical.dtype)
    first = jnp.broadcast_to(lexical, (T, S, given.batch))
    charts = charts._replace(cells=charts.cells.at[:T, 0].set(first))
    return jax.lax.fori_loop(0, given.spans, fill, charts)


def sentence_bytes(k: int, tokens: int, symbols: int, rules: int, dtype: jnp.dtype) -> int:
    """Bytes of the charts and merges of one sentence; merges as compiled programs hold them."""
    cells, blocks = tokens * (tokens + 1) // 2 * symbols, (rules + 3 * symbols) // BLOCK
    return k * (jnp.dtype(dtype).itemsize + 8) * (cells + 4 * blocks)


def choice_of(k: int, layout: Layout, charts: SortedCharts, node: Node) -> Choice:
    """(rule, split, ranks of both parts) of the tree with the rank of a node."""
    width, pairs = node.end - node.begin, jnp.asarray(_pairs(k).reshape(-1, 2))
    place = layout.row(width, node.begin), node.state, node.symbol
    rule, source = (pick(leaf, *place) for leaf in (charts.rules, charts.sources))
    term, pair = jnp.divmod(source, len(pairs))
    term = jnp.asarray(layout.first_terms)[width, 0] + term
    split = jnp.asarray(layout.terms)[jnp.minimum(term, len(layout.terms) - 1), 0]
    return Choice(rule, split, *jnp.moveaxis(pairs[pair], -1, 0))
