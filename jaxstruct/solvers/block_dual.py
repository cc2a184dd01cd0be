"""The dual over the working set of one example, and the safeguards of parallel block updates.

The constraints of the dual are block-diagonal, its objective is not: blocks meet in w. Solving
many blocks against one w and adding up the results is not an ascent (it diverges at large C), so
every group of blocks is followed by step sizes that are proven not to lose: an exact line search,
or a box-constrained QP over the block directions. A group of one needs none.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from jaxstruct.types import Array

SAFEGUARDS = ("line_search", "box", "none")


def pairwise_ascent(
    column: Callable[[Array], Array],
    diagonal: Array,
    gradient: Array,
    multipliers: Array,
    occupied: Array,
    max_steps: int,
) -> Array:
    """Maximise the dual over one block by pairwise steps with second-order selection.

    max_beta <g, beta - beta_0> - 1/2 (beta - beta_0)' G (beta - beta_0), beta >= 0, sum beta
    constant. Slot 0 is the reservoir: zero plane, multiplier cap - sum (possibly infinite). A step
    moves mass from a donor d (beta_d > 0) to the slot u of the largest gradient, d chosen by the
    gain (g_u - g_d)^2 / (G_uu + G_dd - 2 G_ud) it promises; ties to the lowest slot.

    Args:
      column: k -> [K] column of G, ridge included, so that G need not be stored.
      diagonal: [K]. gradient: [K]. multipliers: [K]. occupied: [K] bool.
      max_steps: bound on the steps; the loop ends earlier when no pair gains.

    Returns:
      [K] multipliers; the dual never falls, whatever max_steps.
    """
    eps = jnp.finfo(gradient.dtype).eps
    floor = eps * jnp.max(diagonal) + jnp.finfo(gradient.dtype).tiny ** 0.5
    slots = jnp.arange(gradient.shape[0])

    def best_pair(g: Array, beta: Array) -> tuple[Array, Array, Array, Array, Array]:
        up = jnp.argmax(jnp.where(occupied, g, -jnp.inf))
        of_up = column(up)
        rise = jnp.where(occupied & (beta > 0), g[up] - g, 0)
        curvature = jnp.maximum(diagonal[up] + diagonal - 2 * of_up, floor)
        down = jnp.argmax(rise * rise / curvature)
        return up, down, rise[down], curvature[down], of_up

    def step(state: tuple) -> tuple:
        count, g, beta, (up, down, rise, curvature, of_up) = state
        size = jnp.minimum(rise / curvature, beta[down])
        g = g - size * (of_up - column(down))
        beta = jnp.where(slots == up, beta + size, beta)
        beta = jnp.where(slots == down, beta - size, beta)
        return count + 1, g, beta, best_pair(g, beta)

    slack = 8 * eps * (1 + jnp.max(jnp.where(occupied, jnp.abs(gradient), 0)))
    state = (0, gradient, multipliers, best_pair(gradient, multipliers))
    _, _, beta, _ = jax.lax.while_loop(
        lambda s: (s[0] < max_steps) & (s[3][2] > slack), step, state
    )
    return beta


def block_ascent(
    gram: Array, gradient: Array, multipliers: Array, occupied: Array, max_steps: int
) -> Array:
    """`pairwise_ascent` with a stored Gram block [K, K]."""
    return pairwise_ascent(
        lambda k: gram[k], jnp.diagonal(gram), gradient, multipliers, occupied, max_steps
    )


def line_search_sizes(linear: Array, quadratic: Array) -> Array:
    """[B] equal step sizes: the exact maximiser of gamma l - gamma^2 q / 2 on [0, 1].

    l = sum_b <g_b, d_b> is the slope along the summed block directions and q = |sum_b phi d_b|^2
    plus ridge terms its curvature; gamma = min(1, l / q), so the dual never falls.
    """
    slope, curvature = jnp.sum(linear), jnp.sum(quadratic)
    tiny = jnp.finfo(linear.dtype).tiny
    gamma = jnp.clip(slope / jnp.maximum(curvature, tiny), 0, 1)
    return jnp.broadcast_to(jnp.where(slope > 0, gamma, 0), linear.shape)


def box_sizes(linear: Array, quadratic: Array, sweeps: int = 5) -> Array:
    """[B] step sizes in [0, 1]: coordinate ascent on <l, gamma> - 1/2 gamma' Q gamma.

    Starts at gamma = 0 and every coordinate step is exact, so the dual never falls.

    Args:
      linear: [B] slopes of the block directions. quadratic: [B, B] their inner products.
      sweeps: passes over the B coordinates.
    """
    diagonal = jnp.maximum(jnp.diagonal(quadratic), jnp.finfo(linear.dtype).tiny)

    def visit(count: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        gamma, residual = state
        b = count % linear.shape[0]
        new = jnp.clip(gamma[b] + residual[b] / diagonal[b], 0, 1)
        return gamma.at[b].set(new), residual - quadratic[b] * (new - gamma[b])

    start = (jnp.zeros_like(linear), linear)
    gamma, _ = jax.lax.fori_loop(0, sweeps * linear.shape[0], visit, start)
    return gamma
