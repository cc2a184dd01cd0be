"""Ascent of the dual of binary machines by pairs, M machines side by side.

With t_i = +-1 the class of example i and beta_i = alpha_i t_i, the duals (2.8) to (2.10) with a
bias b are, in one form,

    max  sum alpha_i - 1/2 sum_ij beta_i beta_j K(x_i, x_j) - 1/2 sum_i r_i alpha_i^2,
         0 <= alpha_i <= cap_i,   sum_i beta_i = 0,

where the equation is the bias's (the thesis leaves it out where it drops b), and

                   cap_i      r_i
    hard margin    none       0
    L1 (2.6)       C v_i / n  0
    L2 (2.7)       none       n / (C v_i)

A step moves beta_i up and beta_j down by as much, so that the equation holds throughout. With
v_i = t_i - f_i - r_i beta_i, f_i = sum_j beta_j K(x_i, x_j), a point is optimal when no v_i of an
example that may go up exceeds a v_j of one that may go down; between the two lies the bias. i is
the largest v, j the partner of largest gain (Fan, Chen and Lin 2005, second order).

What moves are changes of multipliers that the host holds in float64: v is small where it matters,
so that a float32 has its digits there, and a change has its own (iterative refinement).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.types import AnyArray, Array


class Terms(NamedTuple):
    """The constants of M duals of s examples each.

    Fields:
      signs: [M, s] t_i, 0 for padding and for examples that take no part.
      floor, cap: [M, s] bounds of the multipliers, infinity for none; of changes of multipliers
        where those are what moves.
      ridge: [M, s] r_i.
    """

    signs: AnyArray
    floor: AnyArray
    cap: AnyArray
    ridge: AnyArray


def movable(terms: Terms, change: Array) -> tuple[Array, Array]:
    """[M, s] whether beta_i may grow, and whether it may shrink."""
    below, above, real = change < terms.cap, change > terms.floor, terms.signs != 0
    positive = terms.signs > 0
    return real & jnp.where(positive, below, above), real & jnp.where(positive, above, below)


def violation_of(terms: Terms, change: Array, v: Array) -> Array:
    """[M] the largest v that may go up less the smallest that may go down: <= 0 at an optimum."""
    up, down = movable(terms, change)
    top, bottom = jnp.where(up, v, -jnp.inf), jnp.where(down, v, jnp.inf)
    return jnp.max(top, axis=1) - jnp.min(bottom, axis=1)


def _entry(values: Array, at: Array) -> Array:
    """[M] values[m, at[m]]."""
    return jnp.take_along_axis(values, at[:, None], axis=1)[:, 0]


def _gram_rows(gram: Array, at: Array) -> Array:
    """[M, s] row at[m] of the kernel matrix of machine m, or of the one that all share."""
    return gram[at] if gram.ndim == 2 else gram[jnp.arange(gram.shape[0]), at]


def _diagonal(gram: Array, machines: int) -> Array:
    diagonal = jnp.diagonal(gram, axis1=-2, axis2=-1)
    return jnp.broadcast_to(diagonal, (machines, diagonal.shape[-1]))


class _Step(NamedTuple):
    i: Array
    j: Array
    size: Array
    row_i: Array
    row_j: Array


def _choose(
    gram: Array, terms: Terms, stiffness: Array, change: Array, v: Array, goal: Array
) -> tuple[_Step, Array]:
    """The best step of each machine (size 0 where `goal` is met), and the violations met."""
    up, down = movable(terms, change)
    allowed = jnp.where(up, v, -jnp.inf)
    i = jnp.argmax(allowed, axis=1)
    top, bottom = _entry(allowed, i), jnp.min(jnp.where(down, v, jnp.inf), axis=1)
    row_i = _gram_rows(gram, i)
    sums = _entry(stiffness, i)[:, None] + stiffness
    curvature = jnp.maximum(sums - 2 * row_i, jnp.finfo(v.dtype).eps * sums)
    curvature = jnp.where(curvature > 0, curvature, 1)
    ahead = top[:, None] - v
    gain = jnp.where(down & (ahead > 0), ahead * ahead / curvature, -jnp.inf)
    j = jnp.argmax(gain, axis=1)
    size = _entry(ahead, j) / _entry(curvature, j)
    size = jnp.minimum(size, jnp.minimum(_left(terms, change, i, 1), _left(terms, change, j, -1)))
    size = jnp.where(top - bottom > goal, size, 0)
    return _Step(i, j, size, row_i, _gram_rows(gram, j)), top - bottom


def _left(terms: Terms, change: Array, at: Array, way: int) -> Array:
    """[M] how far beta may move up (way 1) or down (way -1)."""
    own, grows = _entry(change, at), way * _entry(terms.signs, at) > 0
    return jnp.where(grows, _entry(terms.cap, at) - own, own - _entry(terms.floor, at))


def _moved(terms: Terms, change: Array, at: Array, size: Array, way: int) -> Array:
    """Multipliers after beta of `at` moved by way * size; a bound is reached exactly."""
    own, grows = _entry(change, at), way * _entry(terms.signs, at) > 0
    bound = jnp.where(grows, _entry(terms.cap, at), _entry(terms.floor, at))
    met = size >= _left(terms, change, at, way)
    new = jnp.where(met, bound, own + jnp.where(grows, size, -size))
    new = jnp.where(size > 0, new, own)
    return change.at[jnp.arange(len(at)), at].set(new)


def pairwise_ascent(
    gram: Array, terms: Terms, change: Array, v: Array, goal: Array, limit: int
) -> tuple[Array, Array, Array]:
    """Steps until the violation of each machine is at most its goal.

    Args:
      gram: [s, s] kernel values that all machines share, or [M, s, s].
      terms: of the M duals. change, v: [M, s] a feasible point and its v, all of which may be off
        by one number a machine.
      goal: [M] violations to reach, infinity for a machine that is to rest.
      limit: most steps a machine.

    Returns:
      (change, violation, steps): the new point, what is left there, and [M] steps made.
    """
    places = jnp.arange(change.shape[1])[None, :]

    def wanted(state: tuple) -> Array:
        _, _, violation, _, count = state
        return jnp.any(violation > goal) & (count < limit)

    def body(state: tuple) -> tuple:
        change, v, _, steps, count = state
        step, violation = _choose(gram, terms, stiffness, change, v, goal)
        size = step.size[:, None]
        turned = jnp.where(places == step.i[:, None], terms.ridge, 0) - jnp.where(
            places == step.j[:, None], terms.ridge, 0
        )
        v = v - jnp.where(size > 0, size, 0) * (step.row_i - step.row_j + turned)
        change = _moved(terms, change, step.i, step.size, 1)
        change = _moved(terms, change, step.j, step.size, -1)
        return change, v, violation, steps + (step.size > 0), count + 1

    stiffness = _diagonal(gram, len(change)) + terms.ridge
    counts = jnp.zeros(len(change), jnp.int32)
    state = (change, v, violation_of(terms, change, v), counts, jnp.int32(0))
    change, _, violation, steps, _ = jax.lax.while_loop(wanted, body, state)
    return change, violation, steps
