"""Aggregated planes of the 1-slack formulation (see `one_slack`): adding them, and their dual."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.buckets import bucket_slices
from jaxstruct.core.compiling import program
from jaxstruct.core.contract import Problem
from jaxstruct.core.problem import difference
from jaxstruct.core.transposition import scaled
from jaxstruct.core.types import Array, PyTree
from jaxstruct.solvers.n_slack.task import Task
from jaxstruct.solvers.objective.block_dual import block_ascent
from jaxstruct.solvers.objective.formulations import power_of_loss
from jaxstruct.solvers.objective.most_violated import most_violated, terms_size

_REFRESHES, _STEPS = 20, 1000
"""How often the gradient of the dual over planes is computed anew, and pairwise steps between: each
step updates it, and rounding adds up."""


class JointPlanes(NamedTuple):
    """K slots of aggregated planes; slot 0 is the slack slot, of plane 0 and multiplier
    C - sum_t beta_t.

    Fields:
      weights: pytree like the problem's weights with a leading axis [K]: g_t.
      bounds: [K] b_t. gram: [K, K] <g_s, g_t>. multipliers: [K] beta_t, 0 in slot 0; float64 numpy.
      occupied: [K] bool. last_used: [K] the last pass in which beta was positive.
    """

    weights: PyTree
    bounds: np.ndarray
    gram: np.ndarray
    multipliers: np.ndarray
    occupied: np.ndarray
    last_used: np.ndarray


def empty_joint_planes(problem: Problem, capacity: int) -> JointPlanes:
    """The slack slot alone."""
    zero = problem.initial_weights
    return JointPlanes(
        weights=jax.tree.map(lambda w: jnp.zeros((capacity, *w.shape), w.dtype), zero),
        bounds=np.zeros(capacity),
        gram=np.zeros((capacity, capacity)),
        multipliers=np.zeros(capacity),
        occupied=np.arange(capacity) == 0,
        last_used=np.zeros(capacity, np.int64),
    )


class OutputsFound(NamedTuple):
    """What the oracle found of one bucket, all but the outputs [batches, B].

    Fields:
      outputs: [batches, B, ...]. coefficients: v_i/n s. bounds: v_i/n b; both 0 where no output is
        violated.
      worst: max_y H_i or its bound. size: of its terms. value: H_i of the output.
      claim: what the oracle claims of it less this.
    """

    outputs: PyTree
    coefficients: Array
    bounds: Array
    worst: Array
    size: Array
    value: Array
    claim: Array


@program
def solve_planes(
    gram: Array, bounds: Array, multipliers: Array, occupied: Array, C: Array
) -> Array:
    """[K] multipliers of the dual over the planes at hand; the dual never falls."""
    planes = jnp.arange(bounds.shape[0]) > 0

    def refresh(_: Array, beta: Array) -> Array:
        start = jnp.where(planes, beta, jnp.maximum(C - jnp.sum(beta), 0))
        given = gram, jnp.diagonal(gram), bounds - gram @ beta, start, occupied
        solved = block_ascent(*given, _STEPS)
        return jnp.where(planes, solved, 0)

    return jax.lax.fori_loop(0, _REFRESHES, refresh, multipliers)


@program
def combination(planes: PyTree, multipliers: Array) -> PyTree:
    """w = sum_t beta_t g_t."""
    return jax.tree.map(lambda leaf: jnp.tensordot(multipliers, leaf, 1), planes)


def _examples(task: Task, bucket: int, index: Array) -> tuple[PyTree, PyTree]:
    whole = task.inputs[bucket], task.outputs[bucket]
    return jax.tree.map(lambda leaf: leaf[index], whole)


@partial(program, static_argnums=1)
def joint_plane(
    problem: Problem,
    oracle: str,
    task: Task,
    shares: Array,
    w: PyTree,
    orders: tuple[Array, ...],
) -> tuple[PyTree, tuple[OutputsFound, ...]]:
    """One oracle call an example at one fixed w: (g, what it found of each bucket).

    Args:
      oracle: static, see `most_violated.oracle_for`.
      shares: [N] v_i / n. orders: one [batches, B] a bucket, every row of it once.
    """

    def body(bucket: int, own: Array, g: PyTree, index: Array) -> tuple[PyTree, OutputsFound]:
        x, y_true = _examples(task, bucket, index)
        theta = jax.vmap(problem.model.potentials, (None, 0))(w, x)
        call = partial(most_violated, problem, oracle, task.terms)
        y, loss, value, worst, claim = jax.vmap(call)(theta, y_true)
        share = jnp.where(value > 0, own[index], 0)
        scale = power_of_loss(loss, task.terms.scale_power)
        bound = power_of_loss(loss, task.terms.bound_power)
        size = terms_size(scale, bound, jax.vmap(problem.model.score)(theta, y_true), worst)
        coefficient, bound = share * scale, share * bound
        u = jax.vmap(partial(difference, problem))(theta, y_true, y)
        u = jax.vmap(scaled)(u, coefficient)
        found = OutputsFound(y, coefficient, bound, worst, size, value, claim)
        return problem.space.add(g, x, u), found

    g, found = problem.initial_weights, []
    for bucket, (order, rows) in enumerate(zip(orders, bucket_slices(task.outputs), strict=True)):
        g, of_bucket = jax.lax.scan(partial(body, bucket, shares[rows]), g, order)
        found.append(of_bucket)
    return g, tuple(found)


@program
def largest_plane(
    problem: Problem, task: Task, orders: tuple[Array, ...], outputs: tuple[PyTree, ...]
) -> Array:
    """max |delta Psi_i(y_i)| over the first batch of each bucket: the scale of planes.

    outputs: [batches, B, ...] a bucket, as `joint_plane` returns them.
    """
    norms = []
    for bucket, (order, found) in enumerate(zip(orders, outputs, strict=True)):
        x, y_true = _examples(task, bucket, order[0])
        one = jax.tree.map(lambda leaf: leaf[0][:, None], found)
        norms.append(jnp.max(jax.vmap(problem.space.plane_norms)(x, y_true, one)))
    return jnp.sqrt(jnp.max(jnp.stack(norms)))


@program
def write(planes: PyTree, g: PyTree, slot: Array) -> PyTree:
    """The stacked weights of the planes with g in `slot`."""
    return jax.tree.map(lambda leaf, new: leaf.at[slot].set(new), planes, g)


def free_slot(planes: JointPlanes) -> int | None:
    """The first empty slot, else the least recently used one with beta = 0, else None."""
    if not planes.occupied.all():
        return int(np.argmin(planes.occupied))
    idle = np.flatnonzero(planes.multipliers[1:] <= 0) + 1
    return int(idle[np.argmin(planes.last_used[idle])]) if idle.size else None


def _coordinate_products(planes: PyTree, g: PyTree, occupied: np.ndarray) -> np.ndarray:
    """[K] <g_s, g> in float64 of planes in orthonormal coordinates, 0 in empty slots."""
    row = np.zeros(occupied.size)
    for stack, leaf in zip(jax.tree.leaves(planes), jax.tree.leaves(g), strict=True):
        stack, one = np.asarray(stack), np.asarray(leaf, np.float64).ravel()
        for s in np.flatnonzero(occupied):
            row[s] += stack[s].astype(np.float64).ravel() @ one
    return row


def insert_planes(
    planes: JointPlanes, slot: int, plane: tuple[PyTree, tuple[OutputsFound, ...]], clock: int
) -> JointPlanes:
    """The planes with a new one, of `joint_plane`, in `slot`."""
    g, found = plane
    weights = write(planes.weights, g, jnp.int32(slot))
    occupied = planes.occupied | (np.arange(planes.bounds.size) == slot)
    row = _coordinate_products(weights, g, occupied)
    gram, bounds, last_used = (
        array.copy() for array in (planes.gram, planes.bounds, planes.last_used)
    )
    gram[slot], gram[:, slot] = row, row
    bounds[slot] = sum(np.sum(np.asarray(own.bounds, np.float64)) for own in found)
    last_used[slot] = clock
    return planes._replace(
        weights=weights, gram=gram, bounds=bounds, occupied=occupied, last_used=last_used
    )


def solved(planes: JointPlanes, C: float, clock: int) -> tuple[JointPlanes, PyTree]:
    """The planes with the multipliers of their dual, and w = sum beta g."""
    dtype = jax.tree.leaves(planes.weights)[0].dtype
    numbers = (jnp.asarray(a, dtype) for a in (planes.gram, planes.bounds, planes.multipliers))
    beta = solve_planes(*numbers, jnp.asarray(planes.occupied), jnp.asarray(C, dtype))
    w = combination(planes.weights, beta)
    beta = np.asarray(beta, np.float64)
    last_used = np.where(beta > 0, clock, planes.last_used)
    return planes._replace(multipliers=beta, last_used=last_used), w
