"""The recursion of projective trees, forward and back, batch last, over any `core.semiring`.

R and L are spans whose head is their first or their last word; in RI and LI an arc joins the two
ends, both of whose words have the rest of the span below them in B (J. Eisner, COLING 1996). With
spans i .. i + w and places q,

    B = (+)_q R(i, q) L(q + 1, i + w)
    RI = B arc(i, i + w)                    R = (+)_q RI(i, q) R(q, i + w)
    LI = B arc(i + w, i)                    L = (+)_q L(i, q) LI(q, i + w)

where a product is one of values: a sum of scores. All spans of a width lie side by side. They are
stored by their first and by their last word, so that what a turn of a loop over q reads is one
piece of memory; what a row holds beyond the last word is never read by another. Each of the three
sums takes its left parts from one table by first words and its right parts from one by last words,
so that they are one program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.batch_last import in_column_blocks
from jaxstruct.core.semiring import Best, best_of_first, lift
from jaxstruct.core.types import Array, PyTree

SUMS = ((0, 1, 3, 1, 2), (1, 0, 0, 0, 1), (0, 0, 2, 2, 0))
"""Of the sums B, R and L: see `Sum`."""
LOW, HIGH = (2, 2, 0, 3), (3, 3, 2, 1)
"""Of spans RI, LI, R, L the kinds of their left and of their right part."""


COLUMNS = 8
"""Sentences of a block of the loops over spans, so that its charts stay in the caches."""


class Sum(NamedTuple):
    """One of the three sums over spans, which are one but for these integers.

    Fields:
      begin: q - i of the first term. short: by how much both parts are shorter than w.
      held: which table by first word holds the sum. by_first, by_last: the tables that are filled,
        of B with an arc.
    """

    begin: Array
    short: Array
    held: Array
    by_first: Array
    by_last: Array


def nth(n: Any) -> Sum:
    """The n-th of the sums B, R and L, or some of them."""
    return Sum(*jnp.asarray(SUMS, jnp.int32).T[:, n])


class Arcs(NamedTuple):
    """Values of arcs: [.., 2, T, T B] of i -> i + w and of i + w -> i, [.., T, B] of the root's."""

    over: PyTree
    root: PyTree


class Charts(NamedTuple):
    """Spans at [w, B i + b], by first word [.., 4, T, T B], or at [w, B (i + w) + b], by last word
    [.., 3, T, 2 T B].

    Fields:
      first: R, RI, L and B. last: L, R and LI.
      places: [3, T, T B] by first word: of the sums B, R and L the first term that is the maximum.
        None: the way back finds it again. The best tree of 40 words takes 43 us with, 55 without.
    """

    first: PyTree
    last: PyTree
    places: Array | None = None


def _places(*at: Any) -> tuple[Array, ...]:
    """Of one dtype, whatever the mode of 64 bits."""
    return tuple(jnp.asarray(one, jnp.int32) for one in at)


def row(table: PyTree, n: Any, width: Array, first: Array | int, size: int) -> PyTree:
    """[.., size] values of row `width` of the n-th table."""

    def of_leaf(leaf: Array) -> Array:
        lead = leaf.shape[:-3]
        start = _places(*(0,) * len(lead), n, width, first)
        return jax.lax.dynamic_slice(leaf, start, (*lead, 1, 1, size)).reshape(*lead, size)

    return jax.tree.map(of_leaf, table)


def put(table: PyTree, n: Any, width: Array, first: Array | int, values: PyTree) -> PyTree:
    """The tables with these values in row `width` of the n-th."""

    def of_leaf(leaf: Array, new: Array) -> Array:
        start = _places(*(0,) * (leaf.ndim - 3), n, width, first)
        return jax.lax.dynamic_update_slice(leaf, new[..., None, None, :], start)

    return jax.tree.map(of_leaf, table, values)


def of_arcs(arcs: PyTree) -> Arcs:
    """Arcs of values [.., T + 1, T, B] by widths; 0 beyond the words."""
    T, B = jax.tree.leaves(arcs)[0].shape[-2:]
    w, i = jnp.arange(T)[:, None], jnp.arange(T)[None]
    last, inside = jnp.minimum(i + w, T - 1), (i + w < T)[..., None]
    heads, children = jnp.stack([i + 1 + 0 * w, last + 1]), jnp.stack([last, i + 0 * w])

    def of_leaf(leaf: Array) -> Array:
        over = jnp.where(inside, leaf[..., heads, children, :], 0)
        return over.reshape(*leaf.shape[:-3], 2, T, T * B)

    root = jax.tree.map(lambda leaf: leaf[..., 0, :, :], arcs)
    return Arcs(jax.tree.map(of_leaf, arcs), root)


def to_arcs(right: Array, left: Array, root: Array) -> Array:
    """[T + 1, T, B] of tables [T, T B] as of `of_arcs`, and of the root's arcs [T, B]."""
    T, B = root.shape
    right, left = (table.reshape(T, T, B) for table in (right, left))
    head, child = jnp.arange(T)[:, None], jnp.arange(T)[None]
    width, first = jnp.abs(head - child), jnp.minimum(head, child)
    words = jnp.where((head < child)[:, :, None], right[width, first], left[width, first])
    return jnp.concatenate([root[None], jnp.where((width == 0)[:, :, None], 0, words)])


def part(charts: Charts, n: Any, w: Array, turn: Array, size: int) -> tuple[PyTree, PyTree]:
    """The two parts of term `turn` of the n-th sum over spans of width w."""
    T, q = jax.tree.leaves(charts)[0].shape[-2], turn + nth(n).begin
    right = row(charts.last, n, w - nth(n).short - q, w * (size // T), size)
    return row(charts.first, n, q, 0, size), right


def fill(rule: Best, arcs: Arcs, *, places: bool = False) -> Charts:
    """The charts of all spans; places: of `Best` alone, whether to keep them."""
    T, size = jax.tree.leaves(arcs.over)[0].shape[-2:]

    def add(i: Array, charts: Charts) -> Charts:
        w, n, (first, last, kept) = 1 + i // 3, i % 3, charts

        def term(turn: Array) -> PyTree:
            return rule.product(*part(charts, n, w, turn, size), turn + nth(n).begin + 1)

        if kept is None:
            value = rule.total(w, T, term)
        else:
            value, place = best_of_first(w, T, term)
            kept = put(kept, n, w, 0, place)

        def with_arc(side: int) -> PyTree:
            joined = rule.product(row(arcs.over, side, w, 0, size), value)
            return jax.tree.map(lambda a, b: jnp.where(n == 0, a, b), joined, value)

        first = put(first, nth(n).held, w, 0, value)
        first = put(first, nth(n).by_first, w, 0, with_arc(0))
        return Charts(first, put(last, nth(n).by_last, w, w * (size // T), with_arc(1)), kept)

    dtype = jax.tree.leaves(arcs.over)[0].dtype
    first, last = (rule.of(jnp.zeros(shape, dtype)) for shape in ((4, T, size), (3, T, 2 * size)))
    kept = jnp.zeros((3, T, size), jnp.int32) if places else None
    return jax.lax.fori_loop(0, 3 * (T - 1), add, Charts(first, last, kept))


class Whole(NamedTuple):
    """Values [.., T, B] by the word on the root, -inf beyond the length.

    Fields:
      before, after: of the words to its left and to its right. below: their product.
      root: of its arc.
    """

    before: PyTree
    after: PyTree
    below: PyTree
    root: PyTree


def whole_sentences(rule: Best, charts: Charts, arcs: Arcs, length: Array) -> tuple[PyTree, Whole]:
    """(the values [.., B] of all trees, of which parts they are made). length: [B]."""
    T, B = jax.tree.leaves(arcs.root)[0].shape[-2:]
    word, last = jnp.arange(T)[:, None], length[None] - 1

    def before(leaf: Array) -> Array:
        return leaf.reshape(*leaf.shape[:-1], T, B)[..., 2, :, 0, :]

    def after(leaf: Array) -> Array:
        spans = leaf.reshape(*leaf.shape[:-1], 2 * T, B)
        own = spans[..., 1, jnp.maximum(last - word, 0), last, jnp.arange(B)[None]]
        return jnp.where(word <= last, own, -jnp.inf)

    parts = jax.tree.map(before, charts.first), jax.tree.map(after, charts.last)
    below = rule.product(*parts)
    return rule.reduce(rule.product(arcs.root, below)), Whole(*parts, below, arcs.root)


class Span(NamedTuple):
    """Spans to be opened, [N] each. kind: 0 RI, 1 LI, 2 R, 3 L. at: the place of the value."""

    first: Array
    width: Array
    kind: Array
    at: Array


class Way(NamedTuple):
    """The way back of one batch.

    Fields:
      rule, charts, arcs: as in `fill`. columns: [N] which of the batch.
    """

    rule: Best
    charts: Charts
    arcs: Arcs
    columns: Array

    @property
    def words(self) -> int:
        """T."""
        return jax.tree.leaves(self.arcs.root)[0].shape[-2]

    def values(self, tables: PyTree, n: Any, width: Array, word: Array) -> PyTree:
        """[.., *, N] of the n-th of some tables."""
        T, B = jax.tree.leaves(self.arcs.root)[0].shape[-2:]

        def of_leaf(leaf: Array) -> Array:
            place = (n * T + width) * leaf.shape[-1] + word * B
            place = place + lift(self.columns, place)
            flat = leaf.reshape(*leaf.shape[:-3], -1)
            return flat.at[..., place].get(mode="promise_in_bounds")

        return jax.tree.map(of_leaf, tables)

    def split(self, span: Span, at: Array, noise: Array | None) -> tuple[Array, Array, Array]:
        """(turn, place in the left part, place in the right part) of the term that made `at`."""
        first, width, kind, _ = (leaf[None] for leaf in span)
        n = jnp.maximum(kind - 1, 0)
        if self.charts.places is not None:
            return self.values(self.charts.places, n, width, first)[0], at, at
        words, (begin, short, *_) = jnp.arange(self.words)[:, None], nth(n)
        left = self.values(self.charts.first, n, words, first)
        right = jnp.maximum(width - short - words, 0)
        right = self.values(self.charts.last, n, right, first + width)
        inside = (words >= begin) & (words < width + begin)
        left = jax.tree.map(lambda leaf: jnp.where(inside, leaf, -jnp.inf), left)
        q, low, high = self.rule.split(left, right, at, noise)
        return jnp.maximum(q - begin[0], 0), low, high

    def opened(self, span: Span, noise: Array | None) -> tuple[Span, Span, Array]:
        """What a span falls into: two parts, and the place of the value of an arc over it."""
        first, width, kind, at = span
        over = self.values(self.arcs.over, jnp.minimum(kind, 1), width, first)
        both = self.values(self.charts.first, 3, width, first)
        over, both = jax.tree.map(
            lambda leaf: jnp.expand_dims(leaf, self.rule.leading), (over, both)
        )
        _, arc, below = self.rule.split(over, both, at, noise)
        turn, low, high = self.split(span, jnp.where(kind < 2, below, at), noise)
        q = jnp.where(width > 0, turn + (kind == 2), 0)
        after = first + q + (kind < 2)
        of_low, of_high = (jnp.asarray(kinds)[kind] for kinds in (LOW, HIGH))
        rest = jnp.where(width > 0, first + width - after, 0)
        return Span(first, q, of_low, low), Span(after, rest, of_high, high), arc


def trace_back(
    way: Way, whole: Whole, length: Array, at: Array, noise: Array | None = None
) -> tuple[Array, Array]:
    """Trees of N columns: heads, and the places of the values of the arcs into words.

    Args:
      whole: of `whole_sentences`. length: [N]. at: [N] the places of the trees in the reduced
        values of whole sentences. noise: [2 T, T, N] of `Sums`.

    Returns:
      [T, N] int32 both, -1 beyond the length.
    """
    T, N, rule = way.words, len(at), way.rule
    own = jnp.arange(N)

    def put_behind(queue: Array, end: Array, *spans: Span) -> tuple[Array, Array]:
        real = jnp.stack([span.width > 0 for span in spans])
        where = jnp.where(real, end[None] + jnp.cumsum(real, axis=0) - 1, 2 * T)
        new = jnp.stack([jnp.stack(span, axis=-1) for span in spans]).astype(queue.dtype)
        return queue.at[where, own[None]].set(new, mode="drop"), end + jnp.sum(real, axis=0)

    def turn(state: tuple) -> tuple:
        turn, queue, end, arcs = state
        row = jax.lax.dynamic_index_in_dim(queue, turn, keepdims=False)
        span = Span(*row.T)
        low, high, arc = way.opened(span, None if noise is None else noise[turn])
        arcs = jax.lax.dynamic_update_index_in_dim(arcs, arc, turn, 0)
        return turn + 1, *put_behind(queue, end, low, high), arcs

    whole = jax.tree.map(lambda leaf: leaf[..., way.columns], whole)
    own_noise = None if noise is None else noise[-1]
    root, arc, below = rule.split(whole.root, whole.below, at, own_noise)
    root = root.astype(jnp.int32)

    def at_root(leaf: Array) -> Array:
        return jnp.take_along_axis(leaf, lift(root, leaf), leaf.ndim - 2)

    before, after = (jax.tree.map(at_root, side) for side in whole[:2])
    _, low, high = rule.split(before, after, below, own_noise)
    none, empty = jnp.zeros_like(root), jnp.zeros((2 * T, N, 4), jnp.int32)
    low, high = Span(none, root, none + 3, low), Span(root, length - 1 - root, none + 2, high)
    state = jnp.int32(0), *put_behind(empty, none, low, high), empty[..., 0]
    _, queue, _, arcs = jax.lax.while_loop(lambda s: jnp.any(s[0] < s[2]), turn, state)
    first, width, kind, _ = jnp.moveaxis(queue, -1, 0)
    child, head = jnp.where(kind == 0, width, 0) + first, jnp.where(kind == 0, 0, width) + first
    child = jnp.where((width > 0) & (kind < 2), child, T)

    def by_word(of_arcs: Array, of_root: Array) -> Array:
        start = jnp.where(jnp.arange(T)[:, None] == root[None], of_root, -1).astype(jnp.int32)
        return start.at[child, own[None]].set(of_arcs, mode="drop")

    return by_word(head + 1, none), by_word(arcs, arc)


def in_blocks(
    kernel: Callable,
    width: Callable[[int], int] = lambda words: COLUMNS,
    *,
    of_memory: bool = False,
) -> Callable:
    """The batch-last kernel of (arcs [.., T, B or 1], length [B or 1], ..), block by block.

    Args:
      width: T -> columns of a block. of_memory: as in `in_column_blocks`.
    """

    def blocked(*given: Array) -> PyTree:
        B = max(leaf.shape[-1] for leaf in given)
        wide = (jnp.broadcast_to(leaf, (*leaf.shape[:-1], B)) for leaf in given)
        columns = width(given[0].shape[-2])
        return in_column_blocks(kernel, columns, of_memory=of_memory)(*wide)

    return blocked
