"""One recursion for all oracles over charts: upwards over spans, what a symbol has being reduced.

    cells[begin, end, A] = reduce over rules A -> B C and splits of
                           cells[begin, split, B] + cells[split, end, C] + rules[A -> B C]
                           + spans[begin, end - 1, A]

A `Rule` says what reduce is: `Best` the maximum of every level, `Ranked` the k largest, whose ranks
are the levels, `Sums` log sum exp. It reduces the terms of each block of rules, then blocks to
groups, groups to symbols. What a group has is kept for the way back (`traceback`), which finds the
group first and then tries its few rules. Where a chart has levels, a term is left out if one of its
parts has no tree in the whole batch.
"""

from __future__ import annotations

from functools import partial, reduce
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.finite import finite_or_zero
from jaxstruct.core.largest import k_largest
from jaxstruct.core.semiring import merged
from jaxstruct.core.types import Array, PyTree
from jaxstruct.trees.oracles.chart_levels import NodeCounts, with_node
from jaxstruct.trees.oracles.charts import Layout, rank_pairs
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

FEW = 8
"""Up to so many trees merges are written out, a program that grows with k^2; more are sorted. At
k = 5 sorting takes 4 times as long; at k = 40 the written program did not compile within 200 s,
the sorted one takes 1.8."""


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


class Charts(NamedTuple):
    """What the recursion leaves, batch last.

    Fields:
      cells: [rows, S, B] of symbols.
      groups: [rows, groups, B] of groups of rules before the node is counted, or None where no way
        back is needed.
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


def row_of(cells: Array, row: Array) -> Array:
    """[S, B] of one row."""
    return jax.lax.dynamic_index_in_dim(cells, row, keepdims=False)


def term_rows(layout: Layout, width: Array, begin: Array, term: Array) -> tuple[Array, Array]:
    """The rows of the left and of the right part of a term."""
    split, left, right = jnp.moveaxis(jnp.asarray(layout.terms)[term], -1, 0)
    return layout.row(split, begin, left), layout.row(width - split, begin + split, right)


class Live(NamedTuple):
    """The terms of a span whose two parts have trees, for some symbol of some sentence.

    Fields:
      terms: [X] their numbers, in order.
      bounds: [L, 2] where those of each level begin and end.
    """

    terms: Array
    bounds: Array


class Span(NamedTuple):
    """What a rule reduces over one span.

    Fields:
      layout: of the chart. given: the batch. cells: of the chart so far.
      width, begin: of the span. scores: [BLOCK, N, b] of the rules in the blocks.
      live: the terms to look at; None for all.
    """

    layout: Layout
    given: Sentences
    cells: Array
    width: Array
    begin: Array
    scores: Array
    live: Live | None = None

    def parts(self, term: Array) -> tuple[Array, Array]:
        """[S, B] cells of the left and of the right part of a term."""
        left, right = term_rows(self.layout, self.width, self.begin, term)
        return row_of(self.cells, left), row_of(self.cells, right)

    def values(self, term: Array) -> list[Array]:
        """BLOCK arrays [N, B], left + right + rule of the members of every block."""
        (left, right), table = self.parts(term), self.given.table
        return [
            rows(left, table.lefts[j]) + rows(right, table.rights[j]) + self.scores[j]
            for j in range(BLOCK)
        ]

    def nothing(self, fill: float = -jnp.inf) -> Array:
        """[N, B] of blocks without a term."""
        shape = self.given.table.blocks.keys.shape[0], self.given.batch
        return jnp.full(shape, fill, self.cells.dtype)

    def best_blocks(self, level: Array | int) -> Array:
        """[N, B] the best of each block over the terms of a level."""
        live = self.live
        bounds = self.layout.terms_of(self.width, level) if live is None else live.bounds[level]

        def body(place: Array, best: Array) -> Array:
            return reduce(larger, self.values(place if live is None else live.terms[place]), best)

        return jax.lax.fori_loop(bounds[0], bounds[1], body, self.nothing())


class Rule(Protocol):
    """How the terms of a span are reduced."""

    def reduce(self, span: Span) -> tuple[Array, Array]:
        """([L, groups, B], [L, S, B]) of the groups of rules and of the symbols over a span."""
        ...


class Best:
    """The maximum, at each of the levels of the layout."""

    def reduce(self, span: Span) -> tuple[Array, Array]:
        """As in `Rule`."""
        pieces, layout = span.given.table.groups, span.layout

        def of_level(level: Array | int, groups: Array) -> Array:
            new = by_piece(span.best_blocks(level), pieces, larger, -jnp.inf)
            return groups.at[level].set(new)

        shape = layout.most, pieces.keys.shape[0], span.given.batch
        groups = jnp.full(shape, -jnp.inf, span.cells.dtype)
        groups = jax.lax.fori_loop(0, jnp.asarray(layout.levels)[span.width], of_level, groups)
        symbols = by_key(jnp.swapaxes(groups, 0, 1), pieces, larger, -jnp.inf)
        return groups, jnp.swapaxes(symbols, 0, 1)


class Sums:
    """log sum exp; the largest term is taken out first."""

    def reduce(self, span: Span) -> tuple[Array, Array]:
        """As in `Rule`."""
        table = span.given.table
        best = by_piece(span.best_blocks(0), table.groups, larger, -jnp.inf)
        top = by_key(best, table.groups, larger, -jnp.inf)
        shifts = finite_or_zero(top)
        of_blocks, of_groups = (
            rows(shifts, jnp.minimum(pieces.keys, top.shape[0] - 1))
            for pieces in (table.blocks, table.groups)
        )

        def body(term: Array, total: Array) -> Array:
            return total + sum(jnp.exp(values - of_blocks) for values in span.values(term))

        first, end = span.layout.terms_of(span.width, 0)
        total = jax.lax.fori_loop(first, end, body, span.nothing(0))
        groups = by_piece(total, table.groups, jnp.add, 0)
        symbols = by_key(groups, table.groups, jnp.add, 0)
        return (of_groups + jnp.log(groups))[None], (top + jnp.log(symbols))[None]


class Ranked:
    """The k largest, as k arrays; merges are written out."""

    def __init__(self, k: int) -> None:
        """Keep k."""
        self.k = k

    def start(self, nothing: Array) -> Any:
        """No values, from [N, B] of -inf."""
        return (nothing,) * self.k

    def stacked(self, best: Any) -> Array:
        """[k, N, B]."""
        return jnp.stack(best)

    def merge(self, a: Any, b: Any) -> Any:
        """The largest of two falling lists, as many as a has, len(b) <= len(a)."""
        return merged(a, b)

    def add(self, best: Any, left: Array, right: Array, score: Array) -> Any:
        """With the sums of left [k, N, B] and right; one with rank a in the left part is no larger
        than a other sums of the same term, so that best[:a] stay."""
        for a in range(self.k):
            sums = tuple(left[a] + right[b] + score for b in range(self.k // (a + 1)))
            best = best[:a] + self.merge(best[a:], sums)
        return best

    def reduce(self, span: Span) -> tuple[Array, Array]:
        """As in `Rule`; block by block of rules in a loop, which stays one under XLA."""
        table, k = span.given.table, self.k
        first, end = span.layout.terms_of(span.width, 0)
        pairs = len(rank_pairs(k))

        def of_rules(n: Array, best: Any) -> Any:
            term, j = first + n // BLOCK * pairs, n % BLOCK  # its ranks are 0 and 0
            left, right = (
                jax.lax.dynamic_slice_in_dim(span.cells, row, k)[:, children[j]]
                for row, children in zip(
                    term_rows(span.layout, span.width, span.begin, term),
                    (table.lefts, table.rights), strict=True,
                )
            )  # fmt: skip
            return self.add(best, left, right, span.scores[j])

        def of_blocks(j: Array, best: Any) -> Any:
            member = jnp.minimum(table.groups.members[j], count - 1)
            real = table.groups.members[j] < count
            return self.merge(best, jax.tree.map(partial(_rows_or_none, real, member), blocks))

        nothing = span.nothing()
        count, splits = nothing.shape[0], (end - first) // pairs
        blocks = jax.lax.fori_loop(0, splits * BLOCK, of_rules, self.start(nothing))
        width, groups = table.groups.members.shape
        empty = self.start(jnp.full((groups, span.given.batch), -jnp.inf, nothing.dtype))
        groups = jax.lax.fori_loop(0, width, of_blocks, empty)
        symbols = by_key(groups, table.groups, self.merge, -jnp.inf)
        return self.stacked(groups), self.stacked(symbols)


class Sorted(Ranked):
    """The k largest, as one array [N, k, B]: a program whose size does not depend on k."""

    def start(self, nothing: Array) -> Array:
        """As in `Ranked`."""
        return jnp.repeat(nothing[:, None], self.k, axis=1)

    def stacked(self, best: Array) -> Array:
        """As in `Ranked`."""
        return jnp.swapaxes(best, 0, 1)

    def merge(self, a: Array, b: Array) -> Array:
        """As in `Ranked`."""
        return k_largest(self.k, jnp.concatenate([a, b], axis=1), axis=1)[0]

    def add(self, best: Array, left: Array, right: Array, score: Array) -> Array:
        """As in `Ranked`; the pairs of ranks, some k ln k, come at most k at a time."""
        pairs = np.array(rank_pairs(self.k), np.int32)
        chunks = -(-len(pairs) // self.k)
        padded = np.full((chunks * self.k, 2), self.k, np.int32)
        padded[: len(pairs)] = pairs
        padded = jnp.asarray(padded.reshape(chunks, self.k, 2))

        def of_chunk(n: Array, best: Array) -> Array:
            a, b = padded[n].T
            sums = (
                left[jnp.minimum(a, self.k - 1)] + right[jnp.minimum(b, self.k - 1)] + score[None]
            )
            sums = jnp.where((a < self.k)[:, None, None], sums, -jnp.inf)
            return self.merge(best, jnp.swapaxes(sums, 0, 1))

        return jax.lax.fori_loop(0, chunks, of_chunk, best)


def largest(k: int) -> Ranked:
    """The rule of the k largest."""
    return (Ranked if k <= FEW else Sorted)(k)


def _rows_or_none(real: Array, index: Array, table: Array) -> Array:
    """table[index] where they are real, else -inf."""
    return jnp.where(real.reshape(-1, *(1,) * (table.ndim - 1)), rows(table, index), -jnp.inf)


def _live_terms(layout: Layout, reached: Array, width: Array, begin: Array) -> Live:
    bounds = jnp.asarray(layout.first_terms)[width]
    most = layout.most_terms_of_width
    terms = bounds[0, 0] + jnp.arange(most, dtype=jnp.int32)
    left, right = term_rows(layout, width, begin, jnp.minimum(terms, len(layout.terms) - 1))
    real = terms < bounds[-1, 1]
    live = real & reached[jnp.where(real, left, 0)] & reached[jnp.where(real, right, 0)]
    count = jnp.concatenate([jnp.zeros(1, jnp.int32), jnp.cumsum(live, dtype=jnp.int32)])
    places = jnp.where(live, count[:-1], most)
    kept = jnp.zeros(most, jnp.int32).at[places].set(terms, mode="drop")
    return Live(kept, count[bounds - bounds[0, 0]])


def _reach(cells: Array) -> Array:
    """[rows] whether any symbol of any sentence has a tree."""
    return jnp.any(cells > -jnp.inf, axis=(1, 2))


def _write(table: Array, start: Array, value: Array) -> Array:
    return jax.lax.dynamic_update_slice_in_dim(table, value, start, axis=0)


def _count(layout: Layout, counts: NodeCounts | None, span: tuple, raw: Array) -> Array:
    """Cells [L, S, B] of a span with its own node counted."""
    if counts is None:
        return raw
    width, begin = span
    matched = counts.matched[begin, begin + width - 1]
    return with_node(layout, width, raw, matched, counts.predicted)


def _of_tokens(layout: Layout, given: Sentences, counts: NodeCounts | None) -> Array:
    """The chart with the cells of single tokens in it."""
    lexical = given.potentials.lexical
    T, S, _ = lexical.shape
    lexical = jnp.broadcast_to(lexical, (T, S, given.batch))
    empty = jnp.full((layout.size, S, given.batch), -jnp.inf, lexical.dtype)
    if counts is None:
        return empty.at[layout.first_rows[1, :T]].set(lexical)

    def write(t: Array, cells: Array) -> Array:
        raw = jnp.full((layout.most, S, given.batch), -jnp.inf, cells.dtype).at[0].set(lexical[t])
        return _write(cells, layout.row(1, t), _count(layout, counts, (1, t), raw))

    return jax.lax.fori_loop(0, T, write, empty)


def charts(
    rule: Rule, layout: Layout, given: Sentences, counts: NodeCounts | None = None,
    keep: bool = True,
) -> Charts:  # fmt: skip
    """Fill the charts of a batch.

    Args:
      rule: how terms are reduced. layout: of the cells. given: the batch.
      counts: what nodes add to levels, batch last but for predicted [S]; None for none.
      keep: whether to keep the groups for a way back.
    """
    table, potentials = given.table, given.potentials
    of_span, in_span = potentials.rules.ndim > 2, potentials.spans
    keys = jnp.minimum(table.groups.keys, potentials.lexical.shape[1] - 1)

    def fill(n: Array, filled: tuple[Charts, Array | None]) -> tuple:
        found, reached = filled
        place = width, begin = jnp.asarray(layout.widths)[n], jnp.asarray(layout.begins)[n]
        last = begin + width - 1
        of_place = potentials.rules[begin, last] if of_span else potentials.rules
        scores = members_of(of_place, table.blocks, -jnp.inf)
        live = None if reached is None else _live_terms(layout, reached, *place)
        groups, new = rule.reduce(Span(layout, given, found.cells, *place, scores, live))
        if in_span is not None:
            new = new + in_span[begin, last][None]
            groups = groups + rows(in_span[begin, last], keys)[None]
        start = layout.row(*place)
        new = _count(layout, counts, place, new)
        kept = None if found.groups is None else _write(found.groups, start, groups)
        reached = None if reached is None else _write(reached, start, _reach(new))
        return Charts(_write(found.cells, start, new), kept), reached

    cells = _of_tokens(layout, given, counts)
    shape = layout.size, table.groups.keys.shape[0], given.batch
    groups = jnp.full(shape, -jnp.inf, cells.dtype) if keep else None
    reached = None if counts is None else _reach(cells)
    return jax.lax.fori_loop(0, given.spans, fill, (Charts(cells, groups), reached))[0]
