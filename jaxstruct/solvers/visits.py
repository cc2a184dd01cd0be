"""Visits: the blocks of a group of examples solved side by side, with a safeguard that ascends."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.contract import Problem
from jaxstruct.core.types import Array, PyTree
from jaxstruct.solvers.block_dual import box_sizes, line_search_sizes, pairwise_ascent
from jaxstruct.solvers.formulations import Penalty
from jaxstruct.solvers.settings import VisitOptions, has_small_weights
from jaxstruct.solvers.working_sets import WorkingSets, plane_coefficients, plane_margins


def _joint_directions(problem: Problem, x: PyTree, outputs: PyTree, z: Array) -> Array:
    """[B, B] <sum_k z_bk delta Psi_b(y_k), the same of c>, one dense weight vector a block."""

    def alone(x_b: PyTree, y: PyTree, c: Array) -> PyTree:
        one = jax.tree.map(lambda leaf: leaf[None], (x_b, y, c))
        return problem.space.add_planes(problem.initial_weights, *one)

    def seen(direction: PyTree) -> Array:
        return jnp.sum(z * plane_margins(problem, direction, x, outputs), axis=1)

    return jax.vmap(seen)(jax.vmap(alone)(x, outputs, plane_coefficients(z)))


def _squared_norm(
    problem: Problem, direction: PyTree, x: PyTree, outputs: PyTree, z: Array
) -> Array:
    """|d|^2 of d = sum_b sum_k z_bk delta Psi_b(y_k); by <d, delta Psi> without coordinates."""
    squared = (
        None if problem.space.squared_norm is None else problem.space.squared_norm(direction, x)
    )
    if squared is not None:
        return squared
    return jnp.sum(z * plane_margins(problem, direction, x, outputs))


class _Direction(NamedTuple):
    """Where the blocks of a group want to go: sum_k z_k delta Psi(y_k) each.

    Fields:
      margins: [B, K] <w, delta Psi(y_k)>. z: [B, K].
      linear: [B] the slope of the dual along it. ridge_part: [B] what the ridge adds to the
        curvature.
    """

    margins: Array
    z: Array
    linear: Array
    ridge_part: Array


def _line_searched(
    problem: Problem, w: PyTree, x: PyTree, own: WorkingSets, direction: _Direction
) -> tuple[PyTree, Array]:
    """(new w, step sizes [B]): small weights move along a dense direction, large ones in place."""

    margins, z, linear, ridge_part = direction

    def moved_by(start: PyTree, z: Array) -> PyTree:
        return problem.space.add_planes(start, x, own.outputs, plane_coefficients(z))

    if has_small_weights(w):
        dense = moved_by(problem.initial_weights, z)
        squared = _squared_norm(problem, dense, x, own.outputs, z)
        sizes = line_search_sizes(linear, squared + jnp.sum(ridge_part))
        return jax.tree.map(lambda a, d: a + sizes[0] * d, w, dense), sizes
    moved = moved_by(w, z)
    shift = plane_margins(problem, moved, x, own.outputs) - margins
    sizes = line_search_sizes(linear, jnp.sum(z * shift, axis=1) + ridge_part)
    z_back = (sizes - 1)[:, None] * z
    # a loop of at most one turn works in place, the branches of a conditional copy the weights
    shortened = (sizes[0] < 1).astype(jnp.int32)
    w = jax.lax.fori_loop(0, shortened, lambda _, v: moved_by(v, z_back), moved)
    return w, sizes


def _step_safely(
    problem: Problem,
    options: VisitOptions,
    w: PyTree,
    x: PyTree,
    own: WorkingSets,
    direction: _Direction,
) -> tuple[PyTree, Array]:
    """(new w, step sizes [B]) along the directions of the blocks."""
    if options.group > 1 and options.safeguard == "line_search":
        return _line_searched(problem, w, x, own, direction)
    _, z, linear, ridge_part = direction
    sizes = jnp.ones_like(linear)
    if options.group > 1 and options.safeguard == "box":
        quadratic = _joint_directions(problem, x, own.outputs, z) + jnp.diag(ridge_part)
        sizes = box_sizes(linear, quadratic)
    c = plane_coefficients(sizes[:, None] * z)
    return problem.space.add_planes(w, x, own.outputs, c), sizes


def _solve_blocks(
    problem: Problem, max_steps: int, x: PyTree, y_true: PyTree, own: WorkingSets, ridge: Array,
    gradient: Array, start: Array,
) -> Array:  # fmt: skip
    """The blocks of a group, their Gram columns stored or computed as needed."""
    group, planes = jnp.arange(start.shape[0]), jnp.arange(start.shape[1])[None] > 0

    def columns(k: Array) -> Array:
        if own.gram.shape[1]:
            products = own.gram[group, k]
        else:
            y = jax.tree.map(lambda leaf: leaf[group, k], own.outputs)
            seen = jax.vmap(problem.space.plane_gram)(x, y_true, own.outputs, y)
            products = own.scales[group, k][:, None] * own.scales * seen
        return products + jnp.where(planes & (k > 0)[:, None], ridge[:, None], 0)

    diagonal = own.norms + jnp.where(planes, ridge[:, None], 0)
    return pairwise_ascent(columns, diagonal, gradient, start, own.occupied, max_steps)


def visit(
    problem: Problem,
    options: VisitOptions,
    w: PyTree,
    x: PyTree,
    y_true: PyTree,
    own: WorkingSets,
    terms: Penalty,
) -> tuple[PyTree, Array, Array]:
    """Solve the blocks of one group against w and step along them without losing.

    Args:
      problem: the structure. options: static.
      w: the weights. x, y_true: [B, ...] the examples of the group.
      own: their working sets. terms: their cap and ridge.

    Returns:
      (new w, new multipliers [B, K], predicted_gain): the dual does not fall (unless the safeguard
      is "none"). The predicted gain is its slope along the step: at least what it gains, and at
      most twice that where every step is exact.
    """
    planes = jnp.arange(own.losses.shape[1]) > 0
    multiplier_sum = jnp.sum(own.multipliers, axis=1)
    margins = plane_margins(problem, w, x, own.outputs)
    gradient = (
        own.bounds
        - own.scales * margins
        - jnp.where(planes, (terms.ridge * multiplier_sum)[:, None], 0)
    )
    start = jnp.where(planes, own.multipliers, jnp.maximum(terms.cap - multiplier_sum, 0)[:, None])
    solved = _solve_blocks(problem, options.max_steps, x, y_true, own, terms.ridge, gradient, start)
    change = jnp.where(planes, solved - start, 0)
    linear = jnp.sum(gradient * change, axis=1)
    ridge_part = terms.ridge * jnp.sum(change, axis=1) ** 2
    direction = _Direction(margins, own.scales * change, linear, ridge_part)
    w, sizes = _step_safely(problem, options, w, x, own, direction)
    stepped = jnp.where(planes, own.multipliers + sizes[:, None] * change, 0)
    solved = jnp.where(planes, solved, 0)
    predicted_gain = jnp.sum(sizes * linear)
    return w, jnp.maximum(jnp.where(sizes[:, None] == 1, solved, stepped), 0), predicted_gain
