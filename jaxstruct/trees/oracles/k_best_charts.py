"""Charts of the k best scores over every span, batch last."""

from __future__ import annotations

from functools import partial, reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.types import Array
from jaxstruct.trees.oracles.best_charts import (
    Sentences,
    block_scores,
    row_of,
    scores_over,
    term_rows,
)
from jaxstruct.trees.oracles.charts import Layout
from jaxstruct.trees.oracles.rule_runs import BLOCK, Runs, by_key, larger, rows, smaller

Ranked = tuple[Array, ...]
"""k arrays, the best first."""


class RankedCharts(NamedTuple):
    """The k best scores.

    Fields:
      cells: [rows, k, S, B].
      groups: [rows, k, groups, B] of each group of rules, spans not scored.
    """

    cells: Array
    groups: Array


def rank_pairs(k: int) -> list[tuple[int, int]]:
    """Pairs of ranks, in order, whose sums can be among the k best of two falling lists."""
    return [(a, b) for a in range(k) for b in range(k // (a + 1))]


def _merge(a: Ranked, b: Ranked) -> Ranked:
    """The len(a) largest of two falling lists, len(b) <= len(a).

    The j-th, from 0, is max_i min(a[j - i], b[i - 1]): of the first j + 1, i are from b and
    j + 1 - i from a. No step waits for another, so XLA computes nothing twice.
    """

    def ranked(j: int) -> Array:
        inner = [smaller(a[j - i], b[i - 1]) for i in range(1, min(j, len(b)) + 1)]
        ends = [a[j], b[j]] if j < len(b) else [a[j]]
        return reduce(larger, inner, reduce(larger, ends))

    return tuple(ranked(j) for j in range(len(a)))


def _merge_blocks(blocks: Ranked, pieces: Runs) -> Ranked:
    """k arrays: the best of each group of blocks. The loop stays a loop under XLA."""
    n = blocks[0].shape[0]

    def body(j: Array, best: Ranked) -> Ranked:
        members = pieces.members[j]
        real, place = (members < n)[:, None], jnp.minimum(members, n - 1)
        return _merge(best, tuple(jnp.where(real, rows(part, place), -jnp.inf) for part in blocks))

    shape = (pieces.keys.shape[0], blocks[0].shape[1])
    none = (jnp.full(shape, -jnp.inf, blocks[0].dtype),) * len(blocks)
    return jax.lax.fori_loop(0, pieces.members.shape[0], body, none)


def _rank_blocks(
    k: int, layout: Layout, given: Sentences, scores: Array, cells: Array, span: tuple
) -> Ranked:
    """k arrays [N, B]: the k best of each block over the terms of a span, rule by rule.

    A sum with rank a in the left part is no larger than a other sums of the same term.
    """
    width, begin = span
    table = given.table
    first, last = (jnp.asarray(layout.first_terms)[width, j] for j in (0, 1))

    def body(n: Array, best: Ranked) -> Ranked:
        term, j = first + n // BLOCK, n % BLOCK
        left, right = (row_of(cells, row) for row in term_rows(layout, width, begin, term))
        lefts, rights = table.lefts[j], table.rights[j]
        ahead = [rows(left[a], lefts) for a in range(k)]
        behind = [rows(right[b], rights) for b in range(k)]
        for a in range(k):  # best[:a] stay: a sums of this term are no smaller
            sums = tuple(ahead[a] + behind[b] + scores[j] for b in range(k // (a + 1)))
            best = best[:a] + _merge(best[a:], sums)
        return best

    shape = (table.blocks.keys.shape[0], given.batch)
    none = (jnp.full(shape, -jnp.inf, cells.dtype),) * k
    return jax.lax.fori_loop(0, (last - first) * BLOCK, body, none)


def ranked_charts(k: int, layout: Layout, given: Sentences) -> RankedCharts:
    """Fill the charts of a batch; the layout has one level."""
    table, lexical = given.table, given.potentials.lexical
    T, S, _ = lexical.shape
    count, constant = table.groups.keys.shape[0], block_scores(given)
    totalled = partial(by_key, pieces=table.groups, combine=_merge, nothing=-jnp.inf)

    def fill(n: Array, charts: RankedCharts) -> RankedCharts:
        span = width, begin = jnp.asarray(layout.widths)[n], jnp.asarray(layout.begins)[n]
        scores = scores_over(given, constant, begin, width)
        blocks = _rank_blocks(k, layout, given, scores, charts.cells, span)
        groups = _merge_blocks(blocks, table.groups)
        new = jnp.stack(totalled(groups))
        if given.potentials.spans is not None:
            new = new + given.potentials.spans[begin, begin + width - 1][None]
        row = layout.row(width, begin)
        return RankedCharts(
            charts.cells.at[row].set(new), charts.groups.at[row].set(jnp.stack(groups))
        )

    cells = jnp.full((layout.size, k, S, given.batch), -jnp.inf, lexical.dtype)
    # A symbol over one token is one tree: ranks from 1 on stay -inf.
    cells = cells.at[:T, 0].set(jnp.broadcast_to(lexical, (T, S, given.batch)))
    groups = jnp.full((layout.size, k, count, given.batch), -jnp.inf, lexical.dtype)
    return jax.lax.fori_loop(0, given.spans, fill, RankedCharts(cells, groups))
