"""One pass of the 1-slack method; see `one_slack`."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.buckets import bucket_slices
from jaxstruct.core.checks import text_of
from jaxstruct.core.compile_clock import time_part
from jaxstruct.core.contract import Problem
from jaxstruct.core.types import PyTree
from jaxstruct.solvers.n_slack.task import Task
from jaxstruct.solvers.objective.certificate import ROUNDINGS, SURE, coordinate_norm, roundings
from jaxstruct.solvers.one_slack.joint_planes import (
    JointPlanes,
    empty_joint_planes,
    free_slot,
    insert_planes,
    joint_plane,
    largest_plane,
    solved,
)


class OneSlackState(NamedTuple):
    """What the next step needs.

    Fields:
      weights: w, at which the oracle was last called. planes: at hand. clock: passes so far.
      reach: the largest |phi_i(y)| of some examples, 0 before the first pass.
    """

    weights: PyTree
    planes: JointPlanes
    clock: int
    reach: float = 0.0


class OneSlackInfo(NamedTuple):
    """What a step says of w = sum beta g.

    Fields:
      primal: P(w), every slack recomputed by the oracle. primal_found: P(w) with the slack of the
        outputs found or of the planes at hand. dual: D(beta).
      slack: xi = 1/n sum_i v_i max(0, max_y H_i), or its bound. slack_found: the same of the
        outputs found. known: max(0, max_t b_t - <w, g_t>), the slack over the planes at hand before
        this pass's own.
      missed: by how much, beyond rounding, known exceeds slack, or the oracle's loss and score of
        an answer are off: above 0 the oracle is wrong.
      rounding: by how much primal - dual may be off because the run's dtype rounds.
      example_slack: [N] max(0, max_y H_i) of every (padded) example.
      planes_added, planes_evicted: 0 or 1. full: there was no slot for a violated plane.
      seconds: of each part, by name.
    """

    primal: float
    primal_found: float
    dual: float
    slack: float
    slack_found: float
    known: float
    missed: float
    rounding: float
    example_slack: np.ndarray
    planes_added: int
    planes_evicted: int
    full: bool
    seconds: dict[str, float]


def one_slack_init(problem: Problem, capacity: int = 64) -> OneSlackState:
    """The state before the first step: w = 0 and the slack slot alone.

    Raises:
      ValueError: capacity is not an integer of at least 2 (the slack slot and one).
    """
    if isinstance(capacity, bool) or not isinstance(capacity, (int, np.integer)) or capacity < 2:
        raise ValueError(
            "capacity must be an integer of at least 2 (the slack slot and one), got "
            f"{text_of(capacity)}"
        )
    planes = empty_joint_planes(problem, capacity)
    return OneSlackState(jax.tree.map(jnp.copy, problem.initial_weights), planes, 0)


def _shares(task: Task, C: float) -> np.ndarray:
    """[N] v_i / n."""
    return np.asarray(task.terms.cap, np.float64) / C


def _concatenate(found: tuple[tuple, ...], field: int) -> np.ndarray:
    """[N] one field of what `joint_plane` found, of all buckets."""
    return np.concatenate([np.asarray(own[field], np.float64).reshape(-1) for own in found])


def _weigh(shares: np.ndarray, values: np.ndarray) -> float:
    """sum_i v_i / n values_i, over the examples of positive weight; values may be infinite."""
    used = shares > 0
    return float(np.sum(shares[used] * values[used]))


def _largest_scale(found: tuple[tuple, ...], shares: np.ndarray) -> float:
    """The largest s of the outputs found, 1 where there is none."""
    coefficient = _concatenate(found, 1)
    used = (shares > 0) & (coefficient > 0)
    return float(np.max(coefficient[used] / shares[used], initial=1.0))


def _rounding(
    beta: np.ndarray,
    C: float,
    shares: np.ndarray,
    worst: np.ndarray,
    error: np.ndarray,
    eps: float,
    reach: float,
) -> float:
    """By how much P - D may be off where an H_i is off by error [N], see `certificate`.

    P moves by the slacks. A plane is a mean of those of its examples, so that D moves by as much
    for each unit of sum beta, and by the slack for each unit of it beyond C. The planes themselves
    are off by d = eps sum beta max |phi| together, which adds d^2 / 2.
    """
    mean = _weigh(shares, error)
    total, slacks = float(np.sum(beta)), np.maximum(worst, 0)
    moved = C * _weigh(shares, np.maximum(worst + error, 0) - slacks)
    drift = (eps * total * float(np.sum(shares)) * reach) ** 2 / 2
    return moved + total * mean + drift + max(total - C, 0.0) * _weigh(shares, slacks)


def _eps(task: Task, coordinates: bool) -> float:
    """By how much, relative to its terms, an inner product is off; see `roundings`."""
    off_by = roundings(task.inputs) if coordinates else ROUNDINGS
    return off_by * float(jnp.finfo(task.terms.cap.dtype).eps)


def _rounding_of_known(planes: JointPlanes, eps: float) -> float:
    """By how much b_t - <w, g_t> is off where w is sum beta g in the run's dtype.

    w is off by eps sum beta |g|: where the planes cancel, that is more than eps |w|.
    """
    norms = np.sqrt(np.maximum(np.diag(planes.gram), 0))
    return float(eps * (planes.multipliers @ norms) * np.max(norms))


@np.errstate(over="ignore", invalid="ignore")  # its numbers say that they are not finite
def one_slack_step(
    problem: Problem, oracle: str, task: Task, state: OneSlackState, C: float, batch: int
) -> tuple[OneSlackState, OneSlackInfo]:
    """One pass: solve the dual over the planes at hand, certify its w, add the plane met there.

    Args:
      oracle: of `most_violated.oracle_for` for the formulation.
      task: of `make_task` for a linear-penalty formulation and this C and batch.
      state: the last state (not changed).
      batch: examples an oracle call; it divides the padded number of examples of every bucket.
    """
    seconds, clock, shares = {}, state.clock + 1, _shares(task, C)
    dtype = task.terms.cap.dtype
    sizes = [own.stop - own.start for own in bucket_slices(task.outputs)]
    orders = tuple(jnp.arange(size, dtype=jnp.int32).reshape(-1, batch) for size in sizes)
    planes, w = time_part(seconds, "dual", lambda: solved(state.planes, C, clock))
    typed = jnp.asarray(shares, dtype)
    g, found = time_part(
        seconds, "oracle", lambda: joint_plane(problem, oracle, task, typed, w, orders)
    )
    worst, size, value, claim = (_concatenate(found, field) for field in (3, 4, 5, 6))
    example_slack, reach = np.maximum(worst, 0), state.reach
    if reach == 0:
        outputs = tuple(own[0] for own in found)
        reach = float(largest_plane(problem, task, orders, outputs)) * _largest_scale(found, shares)
    beta, slack = planes.multipliers, _weigh(shares, example_slack)
    slack_found = _weigh(shares, np.maximum(value, 0))
    products = planes.gram @ beta
    norm = max(float(beta @ products), 0.0)
    coordinates = coordinate_norm(problem, w, task.inputs[0])
    length = norm if coordinates is None else coordinates
    radius = float(np.sum(beta)) * reach if coordinates is None else math.sqrt(length)
    eps = _eps(task, coordinates is not None)
    error = eps * (radius * reach + size)
    unsure = _weigh(shares, error) + _rounding_of_known(planes, eps)
    false_claims = float(np.max((np.abs(claim) - SURE * error)[shares > 0]))
    known = float(np.max((planes.bounds - products)[planes.occupied]))  # 0 in the slack slot
    info = OneSlackInfo(
        primal=length / 2 + C * slack,
        primal_found=length / 2 + C * max(slack_found, known),
        dual=float(beta @ planes.bounds) - norm / 2,
        slack=slack,
        slack_found=slack_found,
        known=known,
        missed=max(known - slack - SURE * unsure, false_claims, 0.0),
        rounding=_rounding(beta, C, shares, worst, error, eps, reach),
        example_slack=example_slack,
        planes_added=0,
        planes_evicted=0,
        full=False,
        seconds=seconds,
    )
    if not slack_found > known:
        return OneSlackState(w, planes, clock, reach), info
    slot = free_slot(planes)
    if slot is None:
        return OneSlackState(w, planes, clock, reach), info._replace(full=True)
    new = slot, (g, found), orders, clock, coordinates is not None
    added = time_part(seconds, "products", lambda: insert_planes(problem, task, planes, *new))
    info = info._replace(planes_added=1, planes_evicted=int(planes.occupied[slot]))
    return OneSlackState(w, added, clock, reach), info
