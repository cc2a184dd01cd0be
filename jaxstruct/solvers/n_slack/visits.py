"""Visits: blocks of a group of examples solved side by side, then a line search that ascends."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.buckets import rows_at
from jaxstruct.core.contract import Problem
from jaxstruct.core.device import runs_on_cpu
from jaxstruct.core.loops import when
from jaxstruct.core.types import Array, PyTree
from jaxstruct.solvers.n_slack.working_sets import WorkingSets, plane_coefficients
from jaxstruct.solvers.objective.block_dual import block_ascent, line_search_sizes, pairwise_ascent
from jaxstruct.solvers.objective.formulations import Penalty
from jaxstruct.solvers.settings import VisitOptions, has_small_weights


class Planes(NamedTuple):
    """The planes of some examples of one bucket.

    Fields:
      inputs: [n] of the bucket. index: [B] the examples.
      outputs: [B, K] the planes; not read where there are differences.
      differences: [n] of `Space.differences`, whose weights v then stand for w; or None.
    """

    inputs: PyTree
    index: Array
    outputs: PyTree
    differences: PyTree = None


def _margins(problem: Problem, w: PyTree, planes: Planes) -> Array:
    """[B, K] <w, delta Psi(y_k)>; slot 0 holds y_i."""
    space, (inputs, index, outputs, differences) = problem.space, planes
    if differences is None:
        values = space.plane_values(w, rows_at(inputs, index), outputs)
    else:
        values = space.differences.values(w, inputs, differences, index)
    return values[:, :1] - values


def _add(problem: Problem, w: PyTree, planes: Planes, z: Array) -> PyTree:
    """w + sum_b sum_k z_bk delta Psi_b(y_k)."""
    space, (inputs, index, outputs, differences) = problem.space, planes
    c = plane_coefficients(z)
    if differences is None:
        return space.add_planes(w, rows_at(inputs, index), outputs, c)
    return space.differences.add(w, inputs, differences, index, c)


def inner_product(problem: Problem, direction: PyTree, planes: Planes, z: Array) -> Array:
    """<d, sum_b sum_k z_bk delta Psi_b(y_k)>, in any space."""
    return jnp.sum(z * _margins(problem, direction, planes))


def _squared_norm(problem: Problem, direction: PyTree, planes: Planes, z: Array) -> Array:
    """|d|^2 of d = sum_b sum_k z_bk delta Psi_b(y_k); by <d, delta Psi> without coordinates."""
    space = problem.space
    squared = space.squared_norm and space.squared_norm(direction, planes.inputs)
    return inner_product(problem, direction, planes, z) if squared is None else squared


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


def _step_safely(
    problem: Problem, options: VisitOptions, w: PyTree, planes: Planes, direction: _Direction
) -> tuple[PyTree, Array]:
    """(new w, step sizes [B]) along the directions of the blocks; a single one needs no search.

    Small weights move along a dense direction, large ones in place.
    """
    margins, z, linear, ridge_part = direction
    if options.group == 1:
        return _add(problem, w, planes, z), jnp.ones_like(linear)
    if has_small_weights(w):
        dense = _add(problem, jax.tree.map(jnp.zeros_like, w), planes, z)
        squared = _squared_norm(problem, dense, planes, z)
        sizes = line_search_sizes(linear, squared + jnp.sum(ridge_part))
        return jax.tree.map(lambda a, d: a + sizes[0] * d, w, dense), sizes
    moved = _add(problem, w, planes, z)
    shift = _margins(problem, moved, planes) - margins
    sizes = line_search_sizes(linear, jnp.sum(z * shift, axis=1) + ridge_part)
    z_back = (sizes - 1)[:, None] * z
    return when(sizes[0] < 1, lambda v: _add(problem, v, planes, z_back), moved), sizes


def _solve_blocks(
    problem: Problem, max_steps: int, planes: Planes, y_true: PyTree, own: WorkingSets,
    ridge: Array, gradient: Array, start: Array,
) -> Array:  # fmt: skip
    """The blocks of a group, their Gram columns stored or computed as needed."""
    group, slots = jnp.arange(start.shape[0]), jnp.arange(start.shape[1])[None] > 0
    diagonal = own.norms + jnp.where(slots, ridge[:, None], 0)
    if own.gram.shape[1]:  # stored, without the ridge

        def one(block: tuple[Array, ...]) -> Array:
            gram, diagonal, gradient, start, occupied, ridge = block
            return block_ascent(gram, diagonal, gradient, start, occupied, max_steps, ridge)

        blocks = own.gram, diagonal, gradient, start, own.occupied, ridge
        return jax.lax.map(one, blocks) if runs_on_cpu() else jax.vmap(one)(blocks)

    def columns(k: Array) -> Array:
        x = rows_at(planes.inputs, planes.index)
        y = jax.tree.map(lambda leaf: leaf[group, k], planes.outputs)
        seen = jax.vmap(problem.space.plane_gram)(x, y_true, planes.outputs, y)
        products = own.scales[group, k][:, None] * own.scales * seen
        return products + jnp.where(slots & (k > 0)[:, None], ridge[:, None], 0)

    return pairwise_ascent(columns, diagonal, gradient, start, own.occupied, max_steps)


def visit(
    problem: Problem,
    options: VisitOptions,
    w: PyTree,
    planes: Planes,
    y_true: PyTree,
    own: WorkingSets,
    terms: Penalty,
) -> tuple[PyTree, Array, Array]:
    """Solve the blocks of one group against w and step along them without losing.

    Args:
      problem: the structure. options: static.
      w: the weights. planes: those of the examples of the group. y_true: [B, ...] their outputs.
      own: their working sets, of which the outputs are not read. terms: their cap and ridge.

    Returns:
      (new w, new multipliers [B, K], predicted_gain): the dual does not fall. The predicted
      gain is its slope along the step: at least what it gains, and at most twice that where every
      step is exact.
    """
    slots = jnp.arange(own.norms.shape[1]) > 0
    multiplier_sum = jnp.sum(own.multipliers, axis=1)
    margins = _margins(problem, w, planes)
    pull = jnp.where(slots, (terms.ridge * multiplier_sum)[:, None], 0)
    gradient = own.bounds - own.scales * margins - pull
    start = jnp.where(slots, own.multipliers, jnp.maximum(terms.cap - multiplier_sum, 0)[:, None])
    solved = _solve_blocks(
        problem, options.max_steps, planes, y_true, own, terms.ridge, gradient, start
    )
    change = jnp.where(slots, solved - start, 0)
    linear = jnp.sum(gradient * change, axis=1)
    ridge_part = terms.ridge * jnp.sum(change, axis=1) ** 2
    direction = _Direction(margins, own.scales * change, linear, ridge_part)
    w, sizes = _step_safely(problem, options, w, planes, direction)
    stepped = jnp.where(slots, own.multipliers + sizes[:, None] * change, 0)
    solved = jnp.where(slots, solved, 0)
    predicted_gain = jnp.sum(sizes * linear)
    return w, jnp.maximum(jnp.where(sizes[:, None] == 1, solved, stepped), 0), predicted_gain
