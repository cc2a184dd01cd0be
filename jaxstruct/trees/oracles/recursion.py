"""One recursion for all oracles over charts, upwards over spans, whatever plus and times are.

    cells[begin, end, A] = plus over rules A -> B C and splits of
                           cells[begin, split, B] times cells[split, end, C] times rules[A -> B C]
                           times spans[begin, end - 1, A]

A rule of `core.semiring` says what plus is: the maximum at every level (`Best`), the k largest
(`Ranked`, `Sorted`) or log sum exp (`Sums`). It takes the terms of each block of rules, then blocks
to groups, groups to symbols. What a group has is kept for the way back (`traceback`), which finds
the group first and then tries its few rules.

A chart is one array [rows, places, S, B]: places are levels or ranks, and there is a row for each
span. Rows stand in the order in which they are filled, by the ends of spans, the shorter first: a
batch of short sentences needs the front rows only.
"""

from __future__ import annotations

from functools import reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core import semiring
from jaxstruct.core.draws import drawn
from jaxstruct.core.finite import finite_or_zero
from jaxstruct.core.in_turn import entry
from jaxstruct.core.largest import k_largest
from jaxstruct.core.types import Array, PyTree
from jaxstruct.trees.oracles.chart_levels import NodeCounts, counted, joined, levels_of_right
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
      counts: what nodes add to levels, or None.
    """

    table: RuleTable
    potentials: TreePotentials
    length: Array
    counts: NodeCounts | None

    @property
    def tokens(self) -> int:
        """T."""
        return self.potentials.lexical.shape[0]

    @property
    def spans(self) -> Array:
        """How many spans of at least two tokens the longest sentence has."""
        longest = jnp.max(self.length)
        return longest * (longest - 1) // 2


class Charts(NamedTuple):
    """What the recursion leaves, batch last.

    Fields:
      cells: [rows, places, S, B] of symbols.
      groups: [rows, places, groups, B] of groups of rules, or None where no way back is needed.
      reached: [rows, places] whether any symbol of any sentence has a tree, or None without levels.
    """

    cells: Array
    groups: Array | None
    reached: Array | None


def sentences(
    rules: GrammarRules, potentials: TreePotentials, length: Array,
    counts: NodeCounts | None = None, others: PyTree = None,
) -> Sentences:  # fmt: skip
    """The batch of a kernel. `others` are further arguments, which may hold the batch axis.

    Raises:
      ValueError: the sentences of a batch have rules or predicted counts of their own.
    """
    if counts is not None and counts.predicted is not None and counts.predicted.shape[-1] != 1:
        raise ValueError(
            "counts.predicted must be shared by all sentences of a batch: use jax.vmap with "
            "None for it"
        )
    leaves = jax.tree.leaves((potentials, length, counts, others))
    batch = max(leaf.shape[-1] for leaf in leaves)
    table = rule_table(shared_rules(rules), potentials.lexical.shape[1])
    return Sentences(table, potentials, jnp.broadcast_to(length, batch), counts)


def row(width: Any, begin: Any) -> Any:
    """The row of a span."""
    end = begin + width
    return end * (end - 1) // 2 + width - 1


def longer_spans(tokens: int) -> tuple[np.ndarray, np.ndarray]:
    """(widths, begins) of the spans of two tokens and more, in the order of their rows."""
    lasts, before = np.tril_indices(tokens)
    longer = before > 0
    return before[longer] + 1, (lasts - before)[longer]


def whole_rows(tokens: int) -> np.ndarray:
    """[T] the rows of the spans of 1..T tokens that begin at 0."""
    return row(np.arange(1, tokens + 1), 0)


def top_scores(given: Sentences, cells: Array) -> Array:
    """[places, S, B] of whole trees by their top symbols."""
    at = given.length[None, None, None] - 1
    whole = jnp.take_along_axis(cells[whole_rows(given.tokens)], at, axis=0)[0]
    return whole + given.potentials.root[None]


def lift(index: Array, like: Array) -> Array:
    """[X] as [X, 1, .., 1] beside an array [.., B]."""
    return index.reshape(-1, *(1,) * like.ndim)


def first_best(values: Array) -> tuple[Array, Array]:
    """(max, lowest index of it) along axis 0."""
    top = jnp.max(values, axis=0)
    count = values.shape[0]
    index = lift(jnp.arange(count, dtype=jnp.int32), top)
    return top, jnp.min(jnp.where(values == top[None], index, count - 1), axis=0)


class Span(NamedTuple):
    """A span whose cells are to be found.

    Fields:
      given: the batch. charts: so far. width, begin: of the span.
      scores: [BLOCK, N, b] of the rules in the blocks.
    """

    given: Sentences
    charts: Charts
    width: Array
    begin: Array
    scores: Array

    def parts(self, split: Array) -> tuple[Array, Array]:
        """The rows of the left part, of so many tokens, and of the right one."""
        return row(split, self.begin), row(self.width - split, self.begin + split)

    def values(self, split: Array, a: Array | int = 0, b: Array | int = 0) -> list[Array]:
        """BLOCK arrays [N, B], left + right + rule of the members of every block, at places."""
        (left, right), table, cells = self.parts(split), self.given.table, self.charts.cells
        left, right = entry(cells, left, a), entry(cells, right, b)
        return [
            rows(left, table.lefts[j]) + rows(right, table.rights[j]) + self.scores[j]
            for j in range(BLOCK)
        ]

    def nothing(self, fill: float = -jnp.inf) -> Array:
        """[N, B] of blocks without a term."""
        cells = self.charts.cells
        return jnp.full((self.scores.shape[1], cells.shape[-1]), fill, cells.dtype)


class Best:
    """The maximum, at each of P M levels; what else is asked of the rules of charts.

    Fields:
      shape: (P, M). places: of a cell. pairs: of places of two parts that are looked at.
      spread: how many right places a pair has at most. ranks: places that are reduced together.
    """

    ranks = 1

    def __init__(self, predicted: int = 1, matched: int = 1) -> None:
        """Of so many p and m."""
        self.shape, self.spread = (predicted, matched), matched
        self.places = self.pairs = predicted * matched

    def of(self, scores: Array) -> Array:
        """[places, ..] of single tokens."""
        nothing = jnp.full((self.places - 1, *scores.shape), -jnp.inf, scores.dtype)
        return jnp.concatenate([scores[None], nothing])

    def live(self, span: Span) -> tuple[Array, Array]:
        """Terms both of whose parts have trees, by level, and where those of each level begin.

        Term t is the split t % (T - 1) + 1 with pair t // (T - 1) of `joined`.
        """
        (pairs, starts), reached = joined(self.shape), span.charts.reached
        splits = jnp.arange(1, span.given.tokens)
        there = splits < span.width
        left, right = (reached[jnp.where(there, each, 0)] for each in span.parts(splits))
        flags = (left & there[:, None])[:, pairs[:, 0]] & right[:, pairs[:, 1]]
        flags = flags.T.reshape(-1)
        count = jnp.concatenate([jnp.zeros(1, jnp.int32), jnp.cumsum(flags, dtype=jnp.int32)])
        places = jnp.where(flags, count[:-1], len(flags))
        terms = jnp.arange(len(flags), dtype=jnp.int32)
        kept = jnp.zeros_like(terms).at[places].set(terms, mode="drop")
        return kept, count[starts * len(splits)]

    def blocks(self, span: Span, kept: Array | None = None, bounds: tuple = ()) -> Array:
        """[N, B] the best of each block over terms, before nodes are counted; None for all."""

        def of_split(split: Array, best: Array) -> Array:
            return reduce(larger, span.values(split), best)

        def of_term(n: Array, best: Array) -> Array:
            pair, split = jnp.divmod(kept[n], span.given.tokens - 1)
            a, b = jnp.asarray(joined(self.shape)[0])[pair]
            return reduce(larger, span.values(split + 1, a, b), best)

        if kept is None:
            return jax.lax.fori_loop(1, span.width, of_split, span.nothing())
        return jax.lax.fori_loop(*bounds, of_term, span.nothing())

    def reduce(self, span: Span) -> tuple[Array, Array]:
        """([places, groups, B], [places, S, B]) of groups of rules and of symbols over a span."""
        pieces, counts = span.given.table.groups, span.given.counts

        if self.places == 1:
            groups = by_piece(self.blocks(span), pieces, larger, -jnp.inf)[None]
        else:
            kept, bounds = self.live(span)

            def of_level(level: Array, groups: Array) -> Array:
                best = self.blocks(span, kept, (bounds[level], bounds[level + 1]))
                return groups.at[level].set(by_piece(best, pieces, larger, -jnp.inf))

            groups = (self.places, pieces.keys.shape[0], span.charts.cells.shape[-1])
            groups = jnp.full(groups, -jnp.inf, span.charts.cells.dtype)
            most = jnp.sum(bounds < bounds[-1], dtype=jnp.int32)  # levels up to the last with terms
            groups = jax.lax.fori_loop(0, most, of_level, groups)
        if counts is not None:
            keys = jnp.minimum(pieces.keys, pieces.counts.shape[0] - 1)
            matched = rows(counts.matched[span.begin, span.begin + span.width - 1], keys)
            predicted = None if counts.predicted is None else rows(counts.predicted, keys)
            groups = counted(groups, self.shape, matched, predicted)
        symbols = by_key(jnp.swapaxes(groups, 0, 1), pieces, larger, -jnp.inf)
        return groups, jnp.swapaxes(symbols, 0, 1)

    def parts(self, pair: Array, state: Array, own: tuple) -> tuple[Array, Array, Array]:
        """(left place, first and end of the right ones) of a pair, for a node at a place.

        Args:
          own: what the node adds to p and to m.
        """
        if self.places == 1:
            return pair, jnp.zeros_like(state), jnp.ones_like(state)
        return pair, *levels_of_right(self.shape, state, pair, *own)

    def weigh(self, values: Array, goal: Array) -> Array:
        """How much each of some values counts for the node's own one: 1 where it is that one."""
        return (values == goal).astype(jnp.int32)

    def pick(self, weights: Array, turn: Array, n: Array, stage: int) -> tuple[Array, Array]:
        """(place [.., B] among weights [X, .., B], the turn within it) of node n in preorder.

        Args:
          turn: how many of what counts come before. stage: 0 of groups, 1 of rules, 2 of splits,
            3 of pairs of places.
        """
        del n, stage
        return first_best(weights > 0)[1], turn


class Sums(Best):
    """log sum exp; the largest term is taken out first. On the way back the terms are drawn."""

    def __init__(self, noise: tuple[Array, ...] = ()) -> None:
        """Noise [T - 1, X, B] of each stage, X at least as many as there are to choose from."""
        super().__init__()
        self.noise = noise

    def reduce(self, span: Span) -> tuple[Array, Array]:
        """As in `Best`."""
        table = span.given.table
        best = by_piece(self.blocks(span), table.groups, larger, -jnp.inf)
        top = by_key(best, table.groups, larger, -jnp.inf)
        shifts = finite_or_zero(top)
        of_blocks, of_groups = (
            rows(shifts, jnp.minimum(pieces.keys, top.shape[0] - 1))
            for pieces in (table.blocks, table.groups)
        )

        def more(split: Array, total: Array) -> Array:
            return total + sum(jnp.exp(values - of_blocks) for values in span.values(split))

        total = jax.lax.fori_loop(1, span.width, more, span.nothing(0))
        groups = by_piece(total, table.groups, jnp.add, 0)
        symbols = by_key(groups, table.groups, jnp.add, 0)
        return (of_groups + jnp.log(groups))[None], (top + jnp.log(symbols))[None]

    def weigh(self, values: Array, goal: Array) -> Array:
        """Shares of the node: their exp cannot overflow."""
        return jnp.exp(values - finite_or_zero(goal))

    def pick(self, weights: Array, turn: Array, n: Array, stage: int) -> tuple[Array, Array]:
        """A draw."""
        return drawn(jnp.log(weights), self.noise[stage][n, : len(weights)]), turn


def rank_pairs(k: int) -> list[tuple[int, int]]:
    """Pairs of ranks, in order, whose sums can be among the k best of two falling lists."""
    return [(a, b) for a in range(k) for b in range(k // (a + 1))]


class Ranked(Best):
    """The k largest, as k arrays; merges are written out."""

    def __init__(self, k: int) -> None:
        """Keep k."""
        super().__init__()
        self.places = self.ranks = k
        self.every = np.array(rank_pairs(k), np.int32)
        self.pairs = len(self.every)

    def start(self, nothing: Array) -> Any:
        """No values, from [N, B] of -inf."""
        return (nothing,) * self.places

    def stacked(self, best: Any) -> Array:
        """[k, N, B]."""
        return jnp.stack(best)

    def plus(self, a: Any, b: Any) -> Any:
        """The largest of two falling lists, as many as a has."""
        return semiring.merged(a, b)

    def add(self, best: Any, left: Array, right: Array, score: Array) -> Any:
        """With the sums of left [k, N, B] and right; one with rank a in the left part is no larger
        than a other sums of the same term, so that best[:a] stay."""
        for a in range(self.places):
            sums = tuple(left[a] + right[b] + score for b in range(self.places // (a + 1)))
            best = best[:a] + self.plus(best[a:], sums)
        return best

    def reduce(self, span: Span) -> tuple[Array, Array]:
        """As in `Best`; block by block of rules in a loop, which stays one under XLA."""
        table, cells = span.given.table, span.charts.cells

        def of_rules(n: Array, best: Any) -> Any:
            j = n % BLOCK
            left, right = span.parts(1 + n // BLOCK)
            left = entry(cells, left)[:, table.lefts[j]]
            right = entry(cells, right)[:, table.rights[j]]
            return self.add(best, left, right, span.scores[j])

        def of_blocks(j: Array, best: Any) -> Any:
            member = table.groups.members[j]

            def taken(leaf: Array) -> Array:
                real = (member < count).reshape(-1, *(1,) * (leaf.ndim - 1))
                return jnp.where(real, rows(leaf, jnp.minimum(member, count - 1)), -jnp.inf)

            return self.plus(best, jax.tree.map(taken, blocks))

        nothing = span.nothing()
        count, (width, groups) = len(nothing), table.groups.members.shape
        blocks = self.start(nothing)
        blocks = jax.lax.fori_loop(0, (span.width - 1) * BLOCK, of_rules, blocks)
        empty = self.start(jnp.full((groups, nothing.shape[1]), -jnp.inf, nothing.dtype))
        groups = jax.lax.fori_loop(0, width, of_blocks, empty)
        symbols = by_key(groups, table.groups, self.plus, -jnp.inf)
        return self.stacked(groups), self.stacked(symbols)

    def parts(self, pair: Array, state: Array, own: tuple) -> tuple[Array, Array, Array]:
        """As in `Best`."""
        del state, own
        left, right = jnp.moveaxis(jnp.asarray(self.every)[pair], -1, 0)
        return left, right, right + 1

    def pick(self, weights: Array, turn: Array, n: Array, stage: int) -> tuple[Array, Array]:
        """Of several with the node's value the one whose turn it is."""
        del n, stage
        total = jnp.cumsum(weights, axis=0, dtype=jnp.int32)
        at = jnp.minimum(jnp.sum(total <= turn[None], axis=0, dtype=jnp.int32), len(weights) - 1)
        return at, turn - jnp.take_along_axis(total - weights, at[None], axis=0)[0]


class Sorted(Ranked):
    """The k largest, as one array [N, k, B]: a program whose size does not depend on k."""

    def start(self, nothing: Array) -> Array:
        """As in `Ranked`."""
        return jnp.repeat(nothing[:, None], self.places, axis=1)

    def stacked(self, best: Array) -> Array:
        """As in `Ranked`."""
        return jnp.swapaxes(best, 0, 1)

    def plus(self, a: Array, b: Array) -> Array:
        """As in `Ranked`."""
        return k_largest(self.places, jnp.concatenate([a, b], axis=1), axis=1)[0]

    def add(self, best: Array, left: Array, right: Array, score: Array) -> Array:
        """As in `Ranked`; the pairs of ranks, some k ln k, come at most k at a time."""
        k = self.places
        chunks = -(-self.pairs // k)
        padded = np.full((chunks * k, 2), k, np.int32)
        padded[: self.pairs] = self.every
        padded = jnp.asarray(padded.reshape(chunks, k, 2))

        def of_chunk(n: Array, best: Array) -> Array:
            a, b = padded[n].T
            sums = left[jnp.minimum(a, k - 1)] + right[jnp.minimum(b, k - 1)] + score[None]
            sums = jnp.where((a < k)[:, None, None], sums, -jnp.inf)
            return self.plus(best, jnp.swapaxes(sums, 0, 1))

        return jax.lax.fori_loop(0, chunks, of_chunk, best)


def largest(k: int) -> Ranked:
    """The rule of the k largest."""
    return (Ranked if k <= FEW else Sorted)(k)


def _write(table: Array, start: Array, value: Array) -> Array:
    return jax.lax.dynamic_update_slice_in_dim(table, value[None], start, axis=0)


def _reach(cells: Array) -> Array:
    """[.., places] whether any symbol of any sentence has a tree."""
    return jnp.any(cells > -jnp.inf, axis=(-2, -1))


def _of_tokens(rule: Best, given: Sentences, batch: int) -> Array:
    """[rows, places, S, B], the cells of single tokens in it."""
    lexical, counts = given.potentials.lexical, given.counts
    T, S, _ = lexical.shape
    cells = rule.of(jnp.broadcast_to(lexical, (T, S, batch)))
    if counts is not None:
        matched = counts.matched[jnp.arange(T), jnp.arange(T)]
        cells = counted(cells, rule.shape, matched, counts.predicted)
    empty = jnp.full((row(T, 0) + 1, rule.places, S, batch), -jnp.inf, lexical.dtype)
    return empty.at[row(1, np.arange(T))].set(jnp.swapaxes(cells, 0, 1))


def charts(rule: Best, given: Sentences, keep: bool = True) -> Charts:
    """Fill the charts of a batch.

    Args:
      rule: how terms are reduced. given: the batch.
      keep: whether to keep the groups for a way back.
    """
    table, potentials, in_span = given.table, given.potentials, given.potentials.spans
    keys = jnp.minimum(table.groups.keys, potentials.lexical.shape[1] - 1)
    widths, begins = map(jnp.asarray, longer_spans(given.tokens))

    def fill(n: Array, found: Charts) -> Charts:
        width, begin = widths[n], begins[n]
        place, last = row(width, begin), begin + width - 1
        scores = potentials.rules if potentials.rules.ndim == 2 else potentials.rules[begin, last]
        span = Span(given, found, width, begin, members_of(scores, table.blocks, -jnp.inf))
        groups, new = rule.reduce(span)
        if in_span is not None:
            new = new + in_span[begin, last][None]
            groups = groups + rows(in_span[begin, last], keys)[None]
        kept = None if found.groups is None else _write(found.groups, place, groups)
        reached = None if found.reached is None else _write(found.reached, place, _reach(new))
        return Charts(_write(found.cells, place, new), kept, reached)

    cells = _of_tokens(rule, given, given.length.shape[0])
    shape = *cells.shape[:2], table.groups.keys.shape[0], cells.shape[-1]
    groups = jnp.full(shape, -jnp.inf, cells.dtype) if keep else None
    reached = _reach(cells) if rule.places > rule.ranks else None
    return jax.lax.fori_loop(0, given.spans, fill, Charts(cells, groups, reached))
