"""Charts of the best scores over every span and level.

    best(begin, end, A) = max over rules A -> B C and splits of
                          best(begin, split, B) + best(split, end, C) + rules[A -> B C]
                          + spans[begin, end - 1, A]

The maximum is taken over the terms of each block of rules, then over blocks, then over groups. The
best of each group is kept. On the way back (`best_search`) the group is found first, then its few
rules are tried. Where a chart has levels, a term is left out if one of its parts has no tree in the
whole batch.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.types import Array, PyTree
from jaxstruct.trees.oracles.chart_levels import NodeCounts, with_node
from jaxstruct.trees.oracles.charts import Layout
from jaxstruct.trees.oracles.potential_checks import shared_rules
from jaxstruct.trees.oracles.rule_runs import (
    BLOCK,
    RuleTable,
    by_key,
    by_piece,
    larger,
    members_of,
    rows,
    rule_table,
)
from jaxstruct.trees.potentials import GrammarRules, TreePotentials


class Sentences(NamedTuple):
    """A batch of sentences, batch last, as the kernels read them.

    Fields:
      table: the rules.
      potentials: leaves [.., B] or [.., 1].
      length: [B].
      batch: B.
    """

    table: RuleTable
    potentials: TreePotentials
    length: Array
    batch: int

    @property
    def spans(self) -> Array:
        """How many spans of at least two tokens the longest sentence has."""
        longest = jnp.max(self.length)
        return longest * (longest - 1) // 2


class BestCharts(NamedTuple):
    """Best scores, batch last.

    Fields:
      cells: [rows, S, B].
      groups: [rows, groups, B] the best of each group of rules before the node is counted and its
        span scored, or None where no way back is needed.
    """

    cells: Array
    groups: Array | None


def sentences(
    rules: GrammarRules, potentials: TreePotentials, length: Array, others: PyTree = None
) -> Sentences:
    """The batch of a kernel. `others` are further arguments, which may hold the batch axis."""
    S = potentials.lexical.shape[1]
    batch = max(leaf.shape[-1] for leaf in jax.tree.leaves((potentials, length, others)))
    table = rule_table(shared_rules(rules), S)
    return Sentences(table, potentials, jnp.broadcast_to(length, batch), batch)


def block_scores(given: Sentences) -> Array | None:
    """[BLOCK, N, b] potentials of the rules in blocks, or None where they depend on the span."""
    scores = given.potentials.rules
    return members_of(scores, given.table.blocks, -jnp.inf) if scores.ndim == 2 else None


def scores_over(given: Sentences, constant: Array | None, begin: Array, width: Array) -> Array:
    """[BLOCK, N, b] potentials of the rules in the blocks over a span."""
    if constant is not None:
        return constant
    scores = given.potentials.rules[begin, begin + width - 1]
    return members_of(scores, given.table.blocks, -jnp.inf)


def term_rows(layout: Layout, width: Array, begin: Array, term: Array) -> tuple[Array, Array]:
    """The rows of the left and of the right part of a term."""
    split, left, right = jnp.moveaxis(jnp.asarray(layout.terms)[term], -1, 0)
    return layout.row(split, begin, left), layout.row(width - split, begin + split, right)


def row_of(cells: Array, row: Array) -> Array:
    """[S, B] of one row."""
    return jax.lax.dynamic_index_in_dim(cells, row, keepdims=False)


def block_values(given: Sentences, scores: Array, left: Array, right: Array) -> list[Array]:
    """BLOCK arrays [N, B], left + right + rule of the members of every block."""
    lefts, rights = given.table.lefts, given.table.rights
    return [rows(left, lefts[j]) + rows(right, rights[j]) + scores[j] for j in range(BLOCK)]


class Live(NamedTuple):
    """The terms of a span whose two parts have trees, for some symbol of some sentence.

    Fields:
      terms: [X] their numbers, in order.
      firsts: [L + 1] where those of each level begin, and the last one's end.
    """

    terms: Array
    firsts: Array


def _reach(cells: Array) -> Array:
    """[rows] whether any symbol of any sentence has a tree."""
    return jnp.any(cells > -jnp.inf, axis=(1, 2))


def _live_terms(layout: Layout, reached: Array, span: tuple) -> Live:
    width, begin = span
    bounds = jnp.asarray(layout.first_terms)[width]
    most = int((layout.first_terms[:, -1] - layout.first_terms[:, 0]).max())
    terms = bounds[0] + jnp.arange(most, dtype=jnp.int32)
    left, right = term_rows(layout, width, begin, jnp.minimum(terms, len(layout.terms) - 1))
    real = terms < bounds[-1]
    live = real & reached[jnp.where(real, left, 0)] & reached[jnp.where(real, right, 0)]
    count = jnp.concatenate([jnp.zeros(1, jnp.int32), jnp.cumsum(live, dtype=jnp.int32)])
    places = jnp.where(live, count[:-1], most)
    kept = jnp.zeros(most, jnp.int32).at[places].set(terms, mode="drop")
    return Live(kept, count[bounds - bounds[0]])


def best_blocks(
    layout: Layout,
    given: Sentences,
    scores: Array,
    cells: Array,
    span: tuple,
    level: Array | int,
    live: Live | None = None,
) -> Array:
    """[N, B] the best of each block over the terms of a cell, or over the live ones alone."""
    width, begin = span
    firsts = jnp.asarray(layout.first_terms)[width] if live is None else live.firsts
    first, last = firsts[level], firsts[level + 1]

    def body(place: Array, best: Array) -> Array:
        term = place if live is None else live.terms[place]
        left, right = (row_of(cells, row) for row in term_rows(layout, width, begin, term))
        for values in block_values(given, scores, left, right):
            best = larger(best, values)
        return best

    blocks = given.table.blocks.keys.shape[0]
    start = jnp.full((blocks, given.batch), -jnp.inf, cells.dtype)
    return jax.lax.fori_loop(first, last, body, start)


def _write(rows_: Array, start: Array, value: Array) -> Array:
    return jax.lax.dynamic_update_slice_in_dim(rows_, value, start, axis=0)


def _count(layout: Layout, counts: NodeCounts | None, span: tuple, raw: Array) -> Array:
    """Cells [L, S, B] of a span with its own node counted."""
    if counts is None:
        return raw
    width, begin = span
    matched = counts.matched[begin, begin + width - 1]
    return with_node(layout, width, raw, matched, counts.predicted)


def _first_cells(
    layout: Layout, given: Sentences, counts: NodeCounts | None, empty: Array
) -> Array:
    """The chart with the cells of single tokens in it."""
    lexical = given.potentials.lexical
    T, S, _ = lexical.shape
    lexical = jnp.broadcast_to(lexical, (T, S, given.batch))

    def write(t: Array, cells: Array) -> Array:
        raw = jnp.full((layout.most, S, given.batch), -jnp.inf, cells.dtype).at[0].set(lexical[t])
        return _write(cells, layout.row(1, t), _count(layout, counts, (1, t), raw))

    return jax.lax.fori_loop(0, T, write, empty)


def best_charts(
    layout: Layout, given: Sentences, counts: NodeCounts | None = None, keep: bool = True
) -> BestCharts:
    """Fill the charts of a batch.

    Args:
      layout: of the cells. given: the batch.
      counts: what nodes add to levels, batch last but for predicted [S]; None for one level.
      keep: whether to keep the groups for a way back.
    """
    table, dtype, S = given.table, given.potentials.lexical.dtype, given.potentials.lexical.shape[1]
    constant, L, batch = block_scores(given), layout.most, given.batch
    empty = jnp.full((layout.size, S, batch), -jnp.inf, dtype)
    count = table.groups.keys.shape[0]
    no_groups = jnp.full((layout.size, count, batch), -jnp.inf, dtype) if keep else None

    def fill(n: Array, filled: tuple[BestCharts, Array | None]) -> tuple:
        charts, reached = filled
        width, begin = jnp.asarray(layout.widths)[n], jnp.asarray(layout.begins)[n]
        scores = scores_over(given, constant, begin, width)

        span = width, begin
        live = None if reached is None else _live_terms(layout, reached, span)

        def level_of(level: Array | int, groups: Array) -> Array:
            blocks = best_blocks(layout, given, scores, charts.cells, span, level, live)
            new = by_piece(blocks, table.groups, larger, -jnp.inf)
            return groups.at[level].set(new)

        groups = jnp.full((L, count, batch), -jnp.inf, dtype)
        groups = jax.lax.fori_loop(0, jnp.asarray(layout.levels)[width], level_of, groups)
        by_group = jnp.swapaxes(groups, 0, 1)
        raw = jnp.swapaxes(by_key(by_group, table.groups, larger, -jnp.inf), 0, 1)
        if given.potentials.spans is not None:
            raw = raw + given.potentials.spans[begin, begin + width - 1][None]
        start = layout.row(width, begin)
        cells = _count(layout, counts, (width, begin), raw)
        kept = None if charts.groups is None else _write(charts.groups, start, groups)
        if reached is not None:
            reached = _write(reached, start, _reach(cells))
        return BestCharts(_write(charts.cells, start, cells), kept), reached

    first = BestCharts(_first_cells(layout, given, counts, empty), no_groups)
    reached = _reach(first.cells) if L > 1 else None
    return jax.lax.fori_loop(0, given.spans, fill, (first, reached))[0]
