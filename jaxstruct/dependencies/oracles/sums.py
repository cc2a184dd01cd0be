"""Sums over all trees: the log partition function log Z, whose derivative are the marginals.

Of projective trees by inside and outside sums over spans. Of all trees by the matrix-tree theorem
with one word on the root (T. Koo, A. Globerson, X. Carreras and M. Collins, EMNLP 2007), whose
determinant is found without a subtraction: words are eliminated one after the other,

    d = sum_h a(h, k),    a(h, m) += a(h, k) a(k, m) / d,    root(m) += root(k) a(k, m) / d

over the words h and m that remain, and Z is the product of all d and of root(m) of the last word.
That is Gaussian elimination of the theorem's matrix, where every diagonal is the sum of its column.
Sums of positive numbers lose no digits, and as logarithms they neither overflow nor vanish.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.batch_last import in_column_blocks, of_one_example
from jaxstruct.core.types import Array
from jaxstruct.dependencies.oracles.spans import (
    Charts,
    fill,
    of_arcs,
    put,
    row,
    to_arcs,
    whole_sentences,
)
from jaxstruct.dependencies.potentials import checked_potentials

COLUMNS = 8
"""Sentences of a block of the loops over spans, so that its charts stay in the caches."""
STEPS = 8
"""Eliminations that the way back computes again, in place of keeping a table of each."""


def log_sum(values: Array, axis: int) -> Array:
    """log sum exp along an axis; -inf, with a derivative of 0, where all are -inf."""
    most = jax.lax.stop_gradient(jnp.max(values, axis=axis, keepdims=True))
    shift = jnp.where(most > -jnp.inf, most, 0)
    total = jnp.sum(jnp.exp(values - shift), axis=axis)
    some = total > 0
    found = jnp.log(jnp.where(some, total, 1)) + jnp.squeeze(shift, axis)
    return jnp.where(some, found, -jnp.inf)


def _log_added(value: Callable, begin: int, turns: Array) -> tuple[Array, tuple]:
    shape = jax.eval_shape(value, turns)
    least = jnp.full(shape.shape, -jnp.inf, shape.dtype)
    most = jax.lax.fori_loop(
        0, turns, lambda step, most: jnp.maximum(most, value(step + begin)), least
    )
    shift = jnp.where(most > -jnp.inf, most, 0)
    total = jax.lax.fori_loop(
        0, turns, lambda step, total: total + jnp.exp(value(step + begin) - shift),
        jnp.zeros(shape.shape, shape.dtype),
    )  # fmt: skip
    found = jnp.log(total) + shift
    return found, (found,)


def inside(right_arcs: Array, left_arcs: Array) -> Charts:
    """The charts of log sums over the trees below spans, by arcs of `of_arcs`."""
    return fill(right_arcs, left_arcs, _log_added, (jnp.zeros_like(right_arcs),) * 3)


def _outside(charts: Charts, seeds: tuple[Array, Array]) -> tuple[Array, Array]:
    """[T, T B] the probabilities of arcs between words, as `of_arcs` lays them out.

    Args:
      charts: inside sums.
      seeds: probabilities of the spans L by first word and R by last word that reach the root.
    """
    T, size = charts.right_first.shape
    by_first, by_last = jnp.zeros_like(charts.right_first), jnp.zeros_like(charts.right_last)

    def narrow(step: Array, found: Charts) -> Charts:
        w = T - 1 - step
        after = w * size // T

        def shared(
            left: tuple[Array, Array], right: tuple[Array, Array], begin: int, reach: Array,
            total: Array, probability: Array,
        ) -> tuple[Array, Array]:  # fmt: skip
            """Probabilities (of left, of right) with those of the places q of a sum added."""

            def turn(step: Array, both: tuple[Array, Array]) -> tuple[Array, Array]:
                q = step + begin
                value = row(left[0], q, 0, size) + row(right[0], reach - q, after, size)
                share = jnp.where(probability > 0, probability * jnp.exp(value - total), 0)
                of_left, of_right = both
                return (
                    put(of_left, q, 0, row(of_left, q, 0, size) + share),
                    put(of_right, reach - q, after, row(of_right, reach - q, after, size) + share),
                )

            return jax.lax.fori_loop(0, w, turn, (left[1], right[1]))

        def of_item(first: Array, last: Array) -> Array:
            return row(first, w, 0, size) + row(last, w, after, size)

        right_first, right_last, left_first, left_last, joined_right, joined_left, _ = found
        joined_right, right_last = shared(
            (charts.joined_right, joined_right), (charts.right_last, right_last), 1, w,
            row(charts.kept[1], w, 0, size), of_item(right_first, right_last),
        )  # fmt: skip
        left_first, joined_left = shared(
            (charts.left_first, left_first), (charts.joined_left, joined_left), 0, w,
            row(charts.kept[2], w, 0, size), of_item(left_first, left_last),
        )  # fmt: skip
        both = row(joined_right, w, 0, size) + row(joined_left, w, after, size)
        right_first, left_last = shared(
            (charts.right_first, right_first), (charts.left_last, left_last), 0, w - 1,
            row(charts.kept[0], w, 0, size), both,
        )  # fmt: skip
        return Charts(right_first, right_last, left_first, left_last, joined_right, joined_left, ())

    start = Charts(by_first, seeds[1], seeds[0], by_last, by_first, by_last, ())
    found = jax.lax.fori_loop(0, T - 1, narrow, start)
    w = jnp.arange(T)[:, None] * (size // T)
    left = found.joined_left[jnp.arange(T)[:, None], w + jnp.arange(size)[None]]
    return found.joined_right, left


def _seeds(root: Array, length: Array) -> tuple[Array, Array]:
    """The spans that meet at the word on the root, whose probabilities are root [T, B]."""
    T, B = root.shape
    left = jnp.zeros((T, T, B), root.dtype).at[:, 0].set(root)
    width, last = jnp.arange(T)[:, None], length[None] - 1
    probability = root[jnp.maximum(last - width, 0), jnp.arange(B)[None]]
    ends = jnp.arange(2 * T)[None, :, None] == last[None]
    right = jnp.where(ends & (width <= last)[:, None], probability[:, None], 0)
    return left.reshape(T, -1), right.reshape(T, -1)


def _blocks(kernel: Callable) -> Callable:
    """The batch-last kernel of (arcs, length) block by block."""

    def blocked(arcs: Array, length: Array) -> tuple:
        B = max(arcs.shape[-1], length.shape[-1])
        arcs = jnp.broadcast_to(arcs, (*arcs.shape[:-1], B))
        return in_column_blocks(kernel, COLUMNS)(arcs, jnp.broadcast_to(length, (B,)))

    return blocked


def _projective_sum(arcs: Array, length: Array) -> Array:
    whole = whole_sentences(inside(*of_arcs(arcs)), arcs[0], length)
    return log_sum(whole, 0)


def _projective_marginals(arcs: Array, length: Array) -> tuple[Array, Array]:
    charts = inside(*of_arcs(arcs))
    whole = whole_sentences(charts, arcs[0], length)
    total = log_sum(whole, 0)
    root = jnp.where(whole > -jnp.inf, jnp.exp(whole - total[None]), 0)
    right, left = _outside(charts, _seeds(root, length))
    return total, to_arcs(right, left, root)


_sum_of_one = of_one_example(_blocks(_projective_sum))
_marginals_of_one = of_one_example(_blocks(_projective_marginals))


@jax.custom_jvp
def _log_projective(arcs: Array, length: Array) -> Array:
    """log Z of the projective trees of one sentence; arcs [T + 1, T]."""
    return _sum_of_one(arcs, length)


@_log_projective.defjvp
def _(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    total, marginals = _marginals_of_one(*primals)
    return total, jnp.sum(jnp.where(marginals > 0, marginals * tangents[0], 0))


def _log_added_pair(a: Array, b: Array) -> Array:
    return log_sum(jnp.stack([a, b]), 0)


class Eliminated(NamedTuple):
    """What a word leaves that was taken out, for the way back.

    Fields:
      word: k. goes: False where nothing was taken out. into: [T + 1] log a(h, k) / d, of the root
        log root(k) / d. out: [T] log a(k, m). All of when it was taken out.
    """

    word: Array
    goes: Array
    into: Array
    out: Array


def _eliminate(state: tuple, _: None) -> tuple[tuple, Eliminated]:
    """One word taken out: of those that remain the one with the largest d, the last one stays."""
    arcs, root, remaining, total = state
    into = jnp.where(remaining, log_sum(arcs, 0), -jnp.inf)
    k = jnp.argmax(into)
    d, found = into[k], into[k] > -jnp.inf
    goes = found & (jnp.sum(remaining) > 1)
    shift = jnp.where(found, d, 0)
    column, out = arcs[:, k] - shift, arcs[k]
    own = jnp.arange(arcs.shape[0]) == k
    kept = ~(own[:, None] | own[None] | jnp.eye(arcs.shape[0], dtype=bool))
    through = column[:, None] + out[None]
    new = jnp.where(kept, _log_added_pair(arcs, through), -jnp.inf)
    from_root = root[k] - shift
    at_root = jnp.where(own, -jnp.inf, _log_added_pair(root, from_root + out))
    new = new, at_root, remaining & ~own, total + shift
    left = Eliminated(k, goes, jnp.concatenate([from_root[None], column]), out)
    return jax.tree.map(lambda new, old: jnp.where(goes, new, old), new, state), left


def _start(arcs: Array, length: Array) -> tuple:
    remaining = jnp.arange(arcs.shape[1]) < length
    return arcs[1:], arcs[0], remaining, jnp.zeros((), arcs.dtype)


def _last(root: Array, remaining: Array) -> tuple[Array, Array]:
    """([T] log of the root's arc to the word that remains, whether there is a tree)."""
    last = jnp.where(remaining, root, -jnp.inf)
    return last, (jnp.sum(remaining) == 1) & jnp.any(last > -jnp.inf)


def eliminated(arcs: Array, length: Array) -> tuple[Array, Array, Eliminated]:
    """(the word that is not taken out, whether there is a tree, [T - 1] the words taken out).

    Args:
      arcs: [T + 1, T] of one sentence, -inf where there is none.
    """
    state, left = jax.lax.scan(_eliminate, _start(arcs, length), None, length=arcs.shape[1] - 1)
    last, some = _last(state[1], state[2])
    return jnp.argmax(last).astype(jnp.int32), some, left


def _log_arborescences(arcs: Array, length: Array) -> Array:
    """log Z of all trees of one sentence; arcs [T + 1, T], -inf where there is none."""

    @jax.checkpoint
    def several(state: tuple, _: None) -> tuple[tuple, None]:
        return jax.lax.scan(lambda state, _: (_eliminate(state, None)[0], None), state, None, STEPS)

    count = -(-(arcs.shape[1] - 1) // STEPS)
    (_, root, remaining, total), _ = jax.lax.scan(several, _start(arcs, length), None, count)
    last, some = _last(root, remaining)
    return jnp.where(some, total + log_sum(last, 0), -jnp.inf)


def log_partition(potentials: Array, length: Array, *, projective: bool) -> Array:
    """log Z = log sum_y exp F(y) over all trees of one sentence with one word on the root.

    Args:
      potentials: [T + 1, T, R], finite or -inf; arcs of a word to itself, and those from or to what
        is beyond the length, are never read. length: int32 scalar, 1 <= length <= T.
      projective: whether crossing arcs are none.

    Returns:
      A scalar, differentiable in the potentials: the derivative are the marginals. -inf, with a
      derivative of 0, where all trees are forbidden.

    Raises:
      ValueError: shapes do not fit together, or a dtype is not what it should be.
    """
    potentials, length = checked_potentials(potentials, length)
    arcs = log_sum(potentials, 2)
    return (_log_projective if projective else _log_arborescences)(arcs, length)


def marginals(potentials: Array, length: Array, *, projective: bool) -> tuple[Array, Array]:
    """(P(y_m = h, r_m = r) [T + 1, T, R], log Z) of one sentence; arguments as `log_partition`."""
    value = partial(log_partition, projective=projective)
    total, found = jax.value_and_grad(value)(potentials, length)
    return jnp.maximum(found, 0), total
