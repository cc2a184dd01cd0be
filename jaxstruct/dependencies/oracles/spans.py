"""The spans of projective trees, in Eisner's order: what maxima and sums over trees share.

R and L are spans whose head is their first or their last word; in RI and LI an arc joins the two
ends (J. Eisner, COLING 1996). With spans i .. i + w and places q,

    RI = (+)_q R(i, q) + L(q + 1, i + w) + arc(i, i + w)     R = (+)_q RI(i, q) + R(q, i + w)
    LI = the same sum                    + arc(i + w, i)     L = (+)_q L(i, q) + LI(q, i + w)

where (+) is the maximum, or the logarithm of a sum. All spans of a width lie side by side, and (+)
is a loop over q. Spans are stored by their first and by their last word, so that what a turn of the
loop reads is one piece of memory; what a row holds beyond the last word is never read by another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.types import Array


class Charts(NamedTuple):
    """Spans at [w, B i + b], by first word [T, T B], or at [w, B (i + w) + b], by last [T, 2 T B].

    Fields:
      right_first, right_last: R. left_first, left_last: L. joined_right: RI. joined_left: LI.
      kept: three tables by first word of what (+) keeps of RI and LI, of R and of L; or none.
    """

    right_first: Array
    right_last: Array
    left_first: Array
    left_last: Array
    joined_right: Array
    joined_left: Array
    kept: tuple[Array, ...]


def row(table: Array, width: Array, first: Array | int, size: int) -> Array:
    """[size] numbers of row `width`."""
    return jax.lax.dynamic_slice(table, (width, first), (1, size))[0]


def put(table: Array, width: Array, first: Array | int, numbers: Array) -> Array:
    """The table with these numbers in row `width`."""
    return jax.lax.dynamic_update_slice(table, numbers[None], (width, first))


def of_arcs(arcs: Array) -> tuple[Array, Array]:
    """[T, T B] of the arcs i -> i + w and i + w -> i of words; 0 beyond the words.

    Args:
      arcs: [T + 1, T, B].
    """
    T, B = arcs.shape[1:]
    w, i = jnp.arange(T)[:, None], jnp.arange(T)[None]
    last = jnp.minimum(i + w, T - 1)
    inside = (i + w < T)[:, :, None]
    both = arcs[i + 1, last], arcs[last + 1, i]
    right, left = (jnp.where(inside, each, 0).reshape(T, T * B) for each in both)
    return right, left


def to_arcs(right: Array, left: Array, root: Array) -> Array:
    """[T + 1, T, B] of tables as `of_arcs` makes them, and of the arcs [T, B] from the root."""
    T = right.shape[0]
    right, left = right.reshape(T, T, -1), left.reshape(T, T, -1)
    head, child = jnp.arange(T)[:, None], jnp.arange(T)[None]
    width, first = jnp.abs(head - child), jnp.minimum(head, child)
    words = jnp.where((head < child)[:, :, None], right[width, first], left[width, first])
    words = jnp.where((head == child)[:, :, None], 0, words)
    return jnp.concatenate([root[None], words])


def fill(right_arcs: Array, left_arcs: Array, combine: Callable, kept: tuple = ()) -> Charts:
    """The charts of all spans.

    Args:
      right_arcs, left_arcs: of `of_arcs`.
      combine: (value, begin, turns) -> (sum, what is kept of it, a tuple), where value(q) is [T B]
        of the places q = begin .. begin + turns - 1.
      kept: the three tables of what is kept, to be filled.
    """
    T, size = right_arcs.shape

    def widen(w: Array, charts: Charts) -> Charts:
        def total(left: Array, right: Array, begin: int, reach: Array) -> tuple[Array, tuple]:
            def value(q: Array) -> Array:
                return row(left, q, 0, size) + row(right, reach - q, w * size // T, size)

            return combine(value, begin, w)

        both, of_both = total(charts.right_first, charts.left_last, 0, w - 1)
        joined_right = put(charts.joined_right, w, 0, both + row(right_arcs, w, 0, size))
        after = w * size // T
        joined_left = put(charts.joined_left, w, after, both + row(left_arcs, w, 0, size))
        right, of_right = total(joined_right, charts.right_last, 1, w)
        left, of_left = total(charts.left_first, joined_left, 0, w)
        new = (*of_both, *of_right, *of_left)
        return Charts(
            put(charts.right_first, w, 0, right), put(charts.right_last, w, after, right),
            put(charts.left_first, w, 0, left), put(charts.left_last, w, after, left),
            joined_right, joined_left,
            tuple(put(table, w, 0, one) for table, one in zip(charts.kept, new, strict=True)),
        )  # fmt: skip

    by_first = jnp.zeros((T, size), right_arcs.dtype)
    by_last = jnp.zeros((T, 2 * size), right_arcs.dtype)
    start = Charts(by_first, by_last, by_first, by_last, by_first, by_last, kept)
    return jax.lax.fori_loop(1, T, widen, start)


def whole_sentences(charts: Charts, root_arcs: Array, length: Array) -> Array:
    """[T, B] the sum over all trees whose one word on the root is m, -inf beyond the length.

    Args:
      root_arcs: [T, B]. length: [B].
    """
    T, B = root_arcs.shape
    word, last = jnp.arange(T)[:, None], length[None] - 1
    before = charts.left_first.reshape(T, T, B)[:, 0]
    right = charts.right_last.reshape(T, 2 * T, B)
    after = right[jnp.maximum(last - word, 0), last, jnp.arange(B)[None]]
    return jnp.where(word <= last, root_arcs + before + after, -jnp.inf)
