"""Sweeps of several shards at once, which meet in w a few times a sweep without losing.

Each of K shards of the examples sweeps its own blocks, as if it were alone, from one w. Their
moves sum to a direction along which the dual is a parabola, and one exact line search takes the
best step of it. The dual never falls: it is concave, and no shard's own move loses, so that a step
of 1/K does not, which is the one of Jaggi et al., Communication-efficient distributed dual
coordinate ascent, NIPS 2014. Between devices move the summed direction and a few numbers alone.
"""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.buckets import bucket_slices, rows_at
from jaxstruct.core.contract import Problem
from jaxstruct.core.types import Array, PyTree
from jaxstruct.solvers.n_slack.sweeps import Seen, make_visits
from jaxstruct.solvers.n_slack.task import TURNS
from jaxstruct.solvers.n_slack.visits import Planes, inner_product
from jaxstruct.solvers.settings import VisitOptions


class Exchange(NamedTuple):
    """How shards meet; static.

    Fields:
      axes: names of the mesh axes over which the shards lie.
      synchronisations: how often they meet in a sweep.
    """

    axes: tuple[str, ...]
    synchronisations: int


class _Part(NamedTuple):
    """One bucket of a shard between two synchronisations.

    Fields:
      seen: the bucket. grouped: [M, G] its rows by group. first, last: the groups that were visited
      since shards met. old: [N_b, A] multipliers before. change: [N_b, A] by how much they moved.
    """

    seen: Seen
    grouped: Array
    first: Array
    last: Array
    old: Array
    change: Array


def _slope_and_ridge(part: _Part) -> tuple[Array, Array]:
    """What bounds and ridge add to the slope of the dual, and the ridge to its curvature."""
    sets, ridge = part.seen.sets, part.seen.task.terms.ridge
    mass, moved = jnp.sum(part.old, axis=1), jnp.sum(part.change, axis=1)
    slope = jnp.sum(sets.bounds * part.change) - jnp.sum(ridge * mass * moved)
    return slope, jnp.sum(ridge * moved**2)


def _product_of(problem: Problem, direction: PyTree, part: _Part) -> Array:
    """<d, sum_i z_i phi_i> over the visited groups of one bucket, in any space."""

    def add(at: Array, total: Array) -> Array:
        index = part.grouped[at]
        own = rows_at(part.seen.sets, index)
        planes = Planes(part.seen.task.inputs, index, own.outputs, part.seen.differences)
        return total + inner_product(problem, direction, planes, own.scales * part.change[index])

    return jax.lax.fori_loop(part.first, part.last, add, jnp.zeros((), part.change.dtype))


def _dot(a: PyTree, b: PyTree) -> Array:
    parts = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return reduce(jnp.add, [jnp.vdot(x, y) for x, y in parts])


def _products(
    problem: Problem, exchange: Exchange, w: PyTree, move: PyTree, parts: list[_Part]
) -> tuple[Array, Array]:
    """(<w, d>, |d|^2) of the summed move d of all shards."""
    squared = problem.space.squared_norm
    inputs = parts[0].seen.task.inputs
    if squared is not None and jax.eval_shape(squared, move, inputs) is not None:
        return _dot(w, move), _dot(move, move)
    own = [[_product_of(problem, u, part) for part in parts] for u in (w, move)]
    along, of_move = jax.lax.psum([reduce(jnp.add, each) for each in own], exchange.axes)
    return along, of_move


def _meet(
    problem: Problem, exchange: Exchange, w: PyTree, moved: PyTree, parts: list[_Part]
) -> tuple[PyTree, Array, Array]:
    """(w + s sum_d (moved_d - w), s, the slope of the dual times s), s of the line search."""
    own = [_slope_and_ridge(part) for part in parts]
    local = jax.tree.map(jnp.subtract, moved, w)
    slope, ridge = (reduce(jnp.add, each) for each in zip(*own, strict=True))
    move, slope, ridge = jax.lax.psum((local, slope, ridge), exchange.axes)
    along, squared = _products(problem, exchange, w, move, parts)
    slope, curvature = slope - along, squared + ridge
    tiny = jnp.finfo(slope.dtype).tiny
    step = jnp.where(slope > 0, jnp.clip(slope / jnp.maximum(curvature, tiny), 0, 1), 0)
    w = jax.tree.map(lambda a, d: a + step * d, w, move)
    return w, step, step * slope


def exchanging_pass(
    exchange: Exchange,
    problem: Problem,
    options: VisitOptions,
    seen: list[Seen],
    w: PyTree,
    multipliers: Array,
    orders: tuple[Array, ...],
    groups: tuple[Array, ...],
) -> tuple[PyTree, Array, Array]:
    """`sweeps.cached_pass` of one of several shards, inside `shard_map`.

    After each part of a sweep, with Delta beta the moves of all shards and d = sum Delta beta phi,

        s = argmax_{0 <= s <= 1} D(beta + s Delta beta)
          = (sum Delta beta b - <w, d> - sum_i r_i m_i Delta m_i) / (|d|^2 + sum_i r_i Delta m_i^2),

    cut to [0, 1], where m_i = sum_y beta_iy.

    Args:
      exchange: static. The rest as in `cached_pass`, of this shard; w of all.

    Returns:
      As `cached_pass`; w and the gain are the same on all shards.
    """
    grouped = [order.reshape(-1, options.group) for order in orders]
    places = bucket_slices(tuple(bucket.task.outputs for bucket in seen))
    times = exchange.synchronisations

    def part(number: Array, state: tuple) -> tuple:
        w, old, gain = state
        spans = [(count * number // times, count * (number + 1) // times) for count in groups]
        turns = max(1, TURNS // times)
        given = seen, w, old, orders, tuple(spans)
        moved, new, _ = make_visits(problem, options, turns, *given)
        parts = [
            _Part(bucket, order, *span, old[own], new[own] - old[own])
            for bucket, order, span, own in zip(seen, grouped, spans, places, strict=True)
        ]
        w, step, more = _meet(problem, exchange, w, moved, parts)
        return w, jnp.where(step < 1, old + step * (new - old), new), gain + more

    start = (w, multipliers, jnp.zeros((), multipliers.dtype))
    return jax.lax.fori_loop(0, times, part, start)
