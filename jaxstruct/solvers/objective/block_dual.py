"""The dual over the working set of one example, and the line search of parallel block updates.

The constraints of the dual are block-diagonal, its objective is not: blocks meet in w. Solving
many blocks against one w and adding up the results is not an ascent (it diverges at large C), so
every group of blocks is followed by an exact line search. A group of one needs none.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from jaxstruct.core.types import Array


def pairwise_ascent(
    columns: Callable[[Array], Array],
    diagonal: Array,
    gradient: Array,
    multipliers: Array,
    occupied: Array,
    max_steps: int,
) -> Array:
    """Maximise the dual over each of B blocks by pairwise steps with second-order selection.

    max_beta <g, beta - beta_0> - 1/2 (beta - beta_0)' G (beta - beta_0), beta >= 0, sum beta
    constant. Slot 0 is the slack slot: plane 0, multiplier cap - sum (possibly infinite). A step
    moves mass from a donor d (beta_d > 0) to the slot u of the largest gradient, d chosen by the
    gain (g_u - g_d)^2 / (G_uu + G_dd - 2 G_ud) it promises; ties to the lowest slot.

    The blocks take their steps side by side, each until no pair of it gains; one without a gain
    makes steps of size 0, which is cheaper than to select what has changed. Inside, blocks are the
    last axis: maxima over slots are then maxima of whole vectors of blocks.

    Args:
      columns: k [B] -> [B, K] column k_b of every G_b, ridge included, so that G need not be
        stored.
      diagonal: [B, K]. gradient: [B, K]. multipliers: [B, K]. occupied: [B, K] bool.
      max_steps: bound on the steps; the loop ends earlier when no pair gains.

    Returns:
      [B, K] multipliers; the dual never falls, whatever max_steps.
    """
    diagonal, gradient, multipliers, occupied = (
        leaf.T for leaf in (diagonal, gradient, multipliers, occupied)
    )
    eps, tiny = jnp.finfo(gradient.dtype).eps, jnp.finfo(gradient.dtype).tiny ** 0.5
    floor = eps * jnp.max(diagonal, axis=0, keepdims=True) + tiny
    slopes = jnp.where(occupied, jnp.abs(gradient), 0)
    slack = 8 * eps * (1 + jnp.max(slopes, axis=0, keepdims=True))
    slots = jnp.arange(gradient.shape[0], dtype=jnp.int32)[:, None]

    def at(leaf: Array, chosen: Array) -> Array:
        return jnp.sum(jnp.where(chosen, leaf, 0), axis=0, keepdims=True)

    def first_largest(leaf: Array) -> tuple[Array, Array]:
        """(its largest value [1, B], the first slot of that value [1, B])."""
        largest = jnp.max(leaf, axis=0, keepdims=True)
        place = jnp.where(leaf == largest, slots, slots.size - 1)
        return largest, jnp.min(place, axis=0, keepdims=True)

    def step(state: tuple) -> tuple:
        count, g, beta, _ = state
        top, up = first_largest(g)
        receives, of_up = slots == up, columns(up[0]).T
        rise = jnp.where(beta > 0, top - g, 0)
        curvature = jnp.maximum(at(diagonal, receives) + diagonal - 2 * of_up, floor)
        down = first_largest(rise * rise / curvature)[1]
        gives = slots == down
        gain = at(rise, gives)
        size = jnp.minimum(gain / at(curvature, gives), at(beta, gives))
        size = jnp.where(gain > slack, size, 0)
        g = g - size * (of_up - columns(down[0]).T)
        beta = jnp.where(receives, beta + size, jnp.where(gives, beta - size, beta))
        return count + 1, g, beta, jnp.any(gain > slack)

    def goes_on(state: tuple) -> Array:
        count, _, _, moved = state
        return (count < max_steps) & moved

    start = (0, jnp.where(occupied, gradient, -jnp.inf), multipliers, True)
    _, _, beta, _ = jax.lax.while_loop(goes_on, step, start)
    return beta.T


def _in_order(values: Array) -> Array:
    """Integers in the order of some floats: a maximum of integers is found in vectors, one of
    floats, which may be nan, number by number."""
    kind = jnp.int64 if values.dtype == jnp.float64 else jnp.int32
    bits = jax.lax.bitcast_convert_type(values + 0, kind)
    return bits ^ ((bits >> (8 * values.dtype.itemsize - 1)) & jnp.iinfo(kind).max)


def _first_largest(values: Array) -> Array:
    """The first place of the largest of [K] values."""
    order = _in_order(values)
    last = values.shape[0] - 1
    places = jnp.arange(last + 1, dtype=jnp.int32)
    return jnp.min(jnp.where(order == jnp.max(order), places, last))


def block_ascent(
    gram: Array,
    diagonal: Array,
    gradient: Array,
    multipliers: Array,
    occupied: Array,
    max_steps: int,
    ridge: Array | float = 0.0,
) -> Array:
    """`pairwise_ascent` of ONE block with a stored Gram matrix, in few operations a step.

    Args:
      gram: [K, K] without the ridge. diagonal: [K] with it. The rest as there, without B.
      ridge: added to all entries but those of slot 0.
    """
    eps, tiny = jnp.finfo(gradient.dtype).eps, jnp.finfo(gradient.dtype).tiny ** 0.5
    floor = eps * jnp.max(diagonal) + tiny
    slack = 8 * eps * (1 + jnp.max(jnp.where(occupied, jnp.abs(gradient), 0)))
    slots = jnp.arange(gradient.shape[0], dtype=jnp.int32)

    def column(k: Array) -> Array:
        return gram[k] + jnp.where((slots > 0) & (k > 0), ridge, 0)

    def step(state: tuple) -> tuple:
        count, g, beta, _ = state
        up = _first_largest(g)
        of_up = column(up)
        rise = jnp.where(beta > 0, g[up] - g, 0)
        curvature = jnp.maximum(diagonal[up] + diagonal - 2 * of_up, floor)
        down = _first_largest(rise * rise / curvature)
        size = jnp.minimum(rise[down] / curvature[down], beta[down])
        gains = rise[down] > slack
        size = jnp.where(gains, size, 0)
        g = g - size * (of_up - column(down))
        beta = jnp.where(slots == up, beta + size, jnp.where(slots == down, beta - size, beta))
        return count + 1, g, beta, gains

    def goes_on(state: tuple) -> Array:
        count, _, _, moved = state
        return (count < max_steps) & moved

    start = (0, jnp.where(occupied, gradient, -jnp.inf), multipliers, True)
    return jax.lax.while_loop(goes_on, step, start)[2]


def line_search_sizes(linear: Array, quadratic: Array) -> Array:
    """[B] equal step sizes: the exact maximiser of gamma l - gamma^2 q / 2 on [0, 1].

    l = sum_b <g_b, d_b> is the slope along the summed block directions and q = |sum_b phi d_b|^2
    plus ridge terms its curvature; gamma = min(1, l / q), so the dual never falls.
    """
    slope, curvature = jnp.sum(linear), jnp.sum(quadratic)
    tiny = jnp.finfo(linear.dtype).tiny
    gamma = jnp.clip(slope / jnp.maximum(curvature, tiny), 0, 1)
    return jnp.broadcast_to(jnp.where(slope > 0, gamma, 0), linear.shape)
