"""One recursion for all oracles over charts: upwards over spans, what a symbol has being reduced.

    cells[begin, end, A] = reduce over rules A -> B C and splits of
                           cells[begin, split, B] + cells[split, end, C] + rules[A -> B C]
                           + spans[begin, end - 1, A]

`Best` reduces to the maximum, `Ranked` to the k largest, `Sums` to log sum exp: the terms of each
block of rules, then blocks to groups, groups to symbols. What a group has is kept for the way back
(`traceback`), which finds the group first and then tries its few rules.
"""

from __future__ import annotations

from functools import partial, reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.scores import finite_or_zero, k_largest
from jaxstruct.core.semiring import merged
from jaxstruct.core.types import AnyArray, Array
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
from jaxstruct.trees.potentials import GrammarRules, TreePotentials, shared_rules

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


class Charts(NamedTuple):
    """What the recursion leaves, batch last; a row is a span (`row`), k is 1 but for the k best.

    Fields:
      cells: [rows, k, S, B] of symbols.
      groups: [rows, k, groups, B] of groups of rules, or None where no way back is needed.
    """

    cells: Array
    groups: Array | None


def row(width: Any, begin: Any) -> Any:
    """The row of a span: by its end, then its width; short sentences have the first rows."""
    end = begin + width
    return (end * (end - 1) >> 1) + width - 1


def every_span(tokens: int) -> tuple[AnyArray, AnyArray]:
    """([rows], [rows]) first and last token of each row."""
    lasts, wider = np.tril_indices(tokens)
    return lasts - wider, lasts


def sentences(rules: GrammarRules, potentials: TreePotentials, length: Array) -> Sentences:
    """The batch of a kernel."""
    batch = max(leaf.shape[-1] for leaf in jax.tree.leaves((potentials, length)))
    table = rule_table(shared_rules(rules), potentials.lexical.shape[1])
    return Sentences(table, potentials, jnp.broadcast_to(length, batch), batch)


def row_of(cells: Array, at: Array) -> Array:
    """[k, S, B] of one row."""
    return jax.lax.dynamic_index_in_dim(cells, at, keepdims=False)


def part_rows(width: Array, begin: Array, split: Array) -> tuple[Array, Array]:
    """The rows of the left part, of `split` tokens, and of the right part of a span."""
    return row(split, begin), row(width - split, begin + split)


class Span(NamedTuple):
    """What is reduced over one span.

    Fields:
      given: the batch. cells: of the chart so far.
      width, begin: of the span. scores: [BLOCK, N, b] of the rules in the blocks.
    """

    given: Sentences
    cells: Array
    width: Array
    begin: Array
    scores: Array

    def parts(self, split: Array) -> tuple[Array, Array]:
        """[k, S, B] cells of the left and of the right part."""
        left, right = part_rows(self.width, self.begin, split)
        return row_of(self.cells, left), row_of(self.cells, right)

    def values(self, split: Array) -> list[Array]:
        """BLOCK arrays [N, B], left + right + rule of the members of every block."""
        (left, right), table = self.parts(split), self.given.table
        return [
            rows(left[0], table.lefts[j]) + rows(right[0], table.rights[j]) + self.scores[j]
            for j in range(BLOCK)
        ]

    def nothing(self, fill: float = -jnp.inf) -> Array:
        """[N, B] of blocks without a term."""
        shape = self.given.table.blocks.keys.shape[0], self.given.batch
        return jnp.full(shape, fill, self.cells.dtype)

    def best_blocks(self) -> Array:
        """[N, B] the best of each block over all splits."""

        def body(split: Array, best: Array) -> Array:
            return reduce(larger, self.values(split), best)

        return jax.lax.fori_loop(1, self.width, body, self.nothing())


class Best:
    """The maximum."""

    k = 1

    def reduce(self, span: Span) -> tuple[Array, Array]:
        """([k, groups, B], [k, S, B]) of the groups of rules and of the symbols over a span."""
        pieces = span.given.table.groups
        groups = by_piece(span.best_blocks(), pieces, larger, -jnp.inf)
        return groups[None], by_key(groups, pieces, larger, -jnp.inf)[None]


class Sums(Best):
    """log sum exp; the largest term is taken out first."""

    def reduce(self, span: Span) -> tuple[Array, Array]:
        """As in `Best`."""
        table, (_, best) = span.given.table, super().reduce(span)
        top = best[0]
        shifts = finite_or_zero(top)
        of_blocks, of_groups = (
            rows(shifts, jnp.minimum(pieces.keys, top.shape[0] - 1))
            for pieces in (table.blocks, table.groups)
        )

        def body(split: Array, total: Array) -> Array:
            return total + sum(jnp.exp(values - of_blocks) for values in span.values(split))

        total = jax.lax.fori_loop(1, span.width, body, span.nothing(0))
        groups = by_piece(total, table.groups, jnp.add, 0)
        symbols = by_key(groups, table.groups, jnp.add, 0)
        return (of_groups + jnp.log(groups))[None], (top + jnp.log(symbols))[None]


def rank_pairs(k: int) -> list[tuple[int, int]]:
    """Pairs of ranks, in order, whose sums can be among the k best of two falling lists."""
    return [(a, b) for a in range(k) for b in range(k // (a + 1))]


class Ranked(Best):
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
        """As in `Best`; block by block of rules in a loop, which stays one under XLA."""
        table, nothing = span.given.table, span.nothing()

        def of_rules(n: Array, best: Any) -> Any:
            j, (left, right) = n % BLOCK, span.parts(1 + n // BLOCK)
            own = left[:, table.lefts[j]], right[:, table.rights[j]]
            return self.add(best, *own, span.scores[j])

        def of_blocks(j: Array, best: Any) -> Any:
            own = partial(members_of, members=table.groups.members[j], nothing=-jnp.inf)
            return self.merge(best, jax.tree.map(own, blocks))

        count = (span.width - 1) * BLOCK
        blocks = jax.lax.fori_loop(0, count, of_rules, self.start(nothing))
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
            sums = members_of(left, a, -jnp.inf) + members_of(right, b, -jnp.inf) + score[None]
            return self.merge(best, jnp.swapaxes(sums, 0, 1))

        return jax.lax.fori_loop(0, chunks, of_chunk, best)


def largest(k: int) -> Best:
    """What reduces to the k largest."""
    if k == 1:
        return Best()
    return (Ranked if k <= FEW else Sorted)(k)


def charts(rule: Best, given: Sentences, keep: bool = True) -> Charts:
    """Fill the charts of a batch.

    Args:
      rule: how terms are reduced. given: the batch.
      keep: whether to keep the groups for a way back.
    """
    table, potentials = given.table, given.potentials
    (T, S, _), dtype = potentials.lexical.shape, potentials.lexical.dtype
    keys = jnp.minimum(table.groups.keys, S - 1)

    def fill(end: Array, width: Array, found: Charts) -> Charts:
        begin, last = end - width, end - 1
        scores = members_of(potentials.rules, table.blocks.members, -jnp.inf)
        groups, symbols = rule.reduce(Span(given, found.cells, width, begin, scores))
        if potentials.spans is not None:
            own = potentials.spans[begin, last][None]
            groups, symbols = groups + own[:, keys], symbols + own
        new = Charts(symbols, groups if keep else None)
        return jax.tree.map(
            lambda leaf, value: jax.lax.dynamic_update_index_in_dim(
                leaf, value, row(width, begin), 0
            ), found, new,
        )  # fmt: skip

    def of_end(end: Array, found: Charts) -> Charts:
        return jax.lax.fori_loop(2, end + 1, partial(fill, end), found)

    shape, batch = (T * (T + 1) // 2, rule.k), given.batch
    cells = jnp.full((*shape, S, batch), -jnp.inf, dtype)
    tokens = jnp.broadcast_to(potentials.lexical, (T, S, batch))
    cells = cells.at[row(1, np.arange(T)), 0].set(tokens)
    groups = jnp.full((*shape, keys.shape[0], batch), -jnp.inf, dtype) if keep else None
    return jax.lax.fori_loop(2, jnp.max(given.length) + 1, of_end, Charts(cells, groups))
