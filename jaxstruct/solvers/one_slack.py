"""The 1-slack reformulation of the linear-penalty formulations: one joint plane a pass.

Joachims, Finley and Yu 2009, "Cutting-plane training of structural SVMs", section 3, algorithms 3
and 4. In place of one slack an example there is one in all (phi, s, b as in `formulations`):

    min  1/2 |w|^2 + C xi
    s.t. xi >= 1/n sum_i v_i (b_iy_i - <w, phi_i(y_i)>)   for all (y_1, ..., y_n) in Y^n,

where the choice of the true output contributes 0, so that at the optimum
xi = 1/n sum_i v_i max(0, max_y H_i(y)): the optimum of the n-slack problem. The plane of a pass is

    g_t = 1/n sum_i v_i phi_i(y_it),   b_t = 1/n sum_i v_i b_iy_it,   y_it = argmax_y H_i(y),

and the dual over the planes at hand has one block with cap C,

    max  sum_t beta_t b_t - 1/2 |sum_t beta_t g_t|^2,   beta >= 0, sum_t beta_t <= C,

with w = sum_t beta_t g_t. Planes are weights-shaped and dense: memory is capacity times weights.
Where weights are orthonormal coordinates their inner products are summed on the host in float64.
In other spaces, such as coefficients on kernel anchors, they are taken through the potentials of
every plane at hand, <g_s, g_t> = 1/n sum_i v_i s_it (F(x_i, y_i; g_s) - F(x_i, y_it; g_s)).

When it is good: small C (few passes), cheap oracles, weights that are small beside the working
sets of the n-slack solver, or a wish for very few support planes. On scikit-learn's digits (1797
examples, 10 classes, svm1_margin) to a relative gap of 1e-3 it took 85 and 210 oracle calls an
example at C = 10 and 180 and ended with 11 and 33 support planes; the subspace variant of `fit`
took 11 and 63 calls.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.buckets import Buckets
from jaxstruct.core.checks import shown
from jaxstruct.core.contract import Problem
from jaxstruct.core.types import PyTree
from jaxstruct.solvers.certificate import ROUNDINGS, coordinate_norm, proven
from jaxstruct.solvers.checks import (
    check_batch,
    check_callback,
    check_is_problem,
    check_run,
    checked_buckets,
)
from jaxstruct.solvers.fit import Progress
from jaxstruct.solvers.formulations import Formulation, formulation_named
from jaxstruct.solvers.joint_planes import (
    JointPlanes,
    empty_joint_planes,
    free_slot,
    inserted,
    joint_plane,
    largest_plane,
    solved,
)
from jaxstruct.solvers.most_violated import oracle_for
from jaxstruct.solvers.programs import programs_traced
from jaxstruct.solvers.solution import MESSAGES, Statistics, Status, Trace, summary, trace_of
from jaxstruct.solvers.task import Task, bucket_slices, make_task, row_index

_FULL = "all planes at hand carry a positive multiplier: raise capacity, or tolerance or epsilon"


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
      primal: P(w), every slack recomputed by the oracle. dual: D(beta).
      slack: xi = 1/n sum_i v_i max(0, max_y H_i). known: max(0, max_t b_t - <w, g_t>), the slack
        over the planes at hand before this pass's own.
      rounding: by how much primal - dual may be off because the run's dtype rounds.
      example_slack: [N] max(0, max_y H_i) of every (padded) example.
      planes_added, planes_evicted: 0 or 1. full: there was no slot for a violated plane.
      seconds: of each part, by name.
    """

    primal: float
    dual: float
    slack: float
    known: float
    rounding: float
    example_slack: np.ndarray
    planes_added: int
    planes_evicted: int
    full: bool
    seconds: dict[str, float]


class OneSlackSolution(NamedTuple):
    """The result of `fit_one_slack`.

    Fields:
      weights: w of the best primal found. status, message: how it ended.
      primal, dual, gap: best P, best D and P - D. rounding: by how much the gap may be off.
      slack: [n] xi_i = max(0, max_y H_i(y)) of the last pass, in the order of the examples; their
        weighted mean is the one slack.
      statistics: counts and times; planes are joint planes.
      formulation, C: what was solved. state: the last state, with the planes and multipliers.
    """

    weights: PyTree
    status: Status
    message: str
    primal: float
    dual: float
    gap: float
    rounding: float
    slack: np.ndarray
    statistics: Statistics
    formulation: str
    C: float
    state: OneSlackState

    def __repr__(self) -> str:
        """One line without the arrays."""
        return summary(self, self.statistics.passes, self.statistics.planes_kept)


def one_slack_init(problem: Problem, capacity: int = 64) -> OneSlackState:
    """The state before the first step: w = 0 and the zero plane alone.

    Raises:
      ValueError: capacity is not an integer of at least 2 (the zero plane and one).
    """
    if isinstance(capacity, bool) or not isinstance(capacity, (int, np.integer)) or capacity < 2:
        raise ValueError(
            f"capacity must be an integer of at least 2 (zero plane and one), got {shown(capacity)}"
        )
    planes = empty_joint_planes(problem, capacity)
    return OneSlackState(jax.tree.map(jnp.copy, problem.initial_weights), planes, 0)


def _shares(task: Task, C: float) -> np.ndarray:
    """[N] v_i / n."""
    return np.asarray(task.terms.cap, np.float64) / C


def _timed(seconds: dict[str, float], name: str, run: Callable) -> tuple:
    start = time.perf_counter()
    result = jax.block_until_ready(run())
    seconds[name] = time.perf_counter() - start
    return result


def _concatenated(found: tuple[tuple, ...], field: int) -> np.ndarray:
    """[N] one field of what `joint_plane` found, of all buckets."""
    return np.concatenate([np.asarray(own[field], np.float64).reshape(-1) for own in found])


def _largest_scale(found: tuple[tuple, ...], shares: np.ndarray) -> float:
    """The largest s of the outputs found, 1 where there is none."""
    coefficient = _concatenated(found, 1)
    used = (shares > 0) & (coefficient > 0)
    return float(np.max(coefficient[used] / shares[used], initial=1.0))


def _rounding(
    beta: np.ndarray, C: float, shares: np.ndarray, worst: np.ndarray, error: np.ndarray
) -> float:
    """By how much P - D may be off where an H_i is off by error [N], see `certify`.

    P moves by the slacks. A plane is a mean of those of its examples, so that D moves by as much
    for each unit of sum beta, and by the slack for each unit of it beyond C.
    """
    mean = float(shares @ error)
    total, slacks = float(np.sum(beta)), np.maximum(worst, 0)
    moved = C * float(shares @ (np.maximum(worst + error, 0) - slacks))
    return moved + total * mean + max(total - C, 0.0) * float(shares @ slacks)


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
    planes, w = _timed(seconds, "dual", lambda: solved(state.planes, C, clock))
    typed = jnp.asarray(shares, dtype)
    g, found = _timed(
        seconds, "oracle", lambda: joint_plane(problem, oracle, task, typed, w, orders)
    )
    worst, size = (_concatenated(found, field) for field in (3, 4))
    example_slack, reach = np.maximum(worst, 0), state.reach
    if reach == 0:
        outputs = tuple(own[0] for own in found)
        reach = float(largest_plane(problem, task, orders, outputs)) * _largest_scale(found, shares)
    beta, slack = planes.multipliers, float(shares @ example_slack)
    products = planes.gram @ beta
    norm = max(float(beta @ products), 0.0)
    coordinates = coordinate_norm(problem, w, task.inputs[0])
    length = norm if coordinates is None else coordinates
    radius = float(np.sum(beta)) * reach if coordinates is None else math.sqrt(length)
    error = ROUNDINGS * float(jnp.finfo(dtype).eps) * (radius * reach + size)
    known = float(np.max((planes.bounds - products)[planes.occupied]))  # 0 in the zero plane
    info = OneSlackInfo(
        primal=length / 2 + C * slack,
        dual=float(beta @ planes.bounds) - norm / 2,
        slack=slack,
        known=known,
        rounding=_rounding(beta, C, shares, worst, error),
        example_slack=example_slack,
        planes_added=0,
        planes_evicted=0,
        full=False,
        seconds=seconds,
    )
    if not slack > known:
        return OneSlackState(w, planes, clock, reach), info
    slot = free_slot(planes)
    if slot is None:
        return OneSlackState(w, planes, clock, reach), info._replace(full=True)
    new = slot, (g, found), orders, clock, coordinates is not None
    added = _timed(seconds, "products", lambda: inserted(problem, task, planes, *new))
    info = info._replace(planes_added=1, planes_evicted=int(planes.occupied[slot]))
    return OneSlackState(w, added, clock, reach), info


def _linear_penalty(name: str | Formulation) -> Formulation:
    formulation = formulation_named(name)
    if formulation.penalty != 1:
        kind = "no slack" if formulation.penalty == 0 else "squared slacks"
        raise ValueError(
            f"formulation is {formulation.name!r}, which has {kind}: one joint slack replaces only "
            "a sum of slacks that is linear; choose svm1, svm1_slack or svm1_margin, or use fit"
        )
    return formulation


class _Rules(NamedTuple):
    tolerance: float | None
    epsilon: float | None
    max_passes: int
    C: float
    batch: int


class _Best(NamedTuple):
    """The best so far; roundings: of the passes that primal and dual are from."""

    primal: float
    dual: float
    weights: PyTree
    roundings: tuple[float, float] = (math.inf, math.inf)


def _status(rules: _Rules, best: _Best, info: OneSlackInfo, clock: int) -> Status | None:
    if not (math.isfinite(info.primal) and math.isfinite(info.dual)):
        return Status.NOT_FINITE
    tolerance, epsilon = rules.tolerance, rules.epsilon
    if tolerance is not None:
        gap, allowance = best.primal - best.dual, tolerance * abs(best.primal)
        within = proven(gap, max(best.roundings), allowance)
        if within is not False:
            return Status.CONVERGED if within else Status.ROUNDING
    if epsilon is not None and info.slack <= info.known + epsilon:
        relaxed_gap = info.primal - rules.C * (info.slack - info.known) - info.dual
        within = proven(relaxed_gap, info.rounding, max(rules.C * epsilon, 1e-3 * abs(info.dual)))
        if within is not False:
            return Status.EPSILON if within else Status.ROUNDING
    if info.full:
        return Status.WORKING_SET_FULL
    return Status.PASS_LIMIT if clock >= rules.max_passes else None


def _statistics(
    planes: JointPlanes, log: list[Trace], seconds: dict[str, float], compiled: int
) -> Statistics:
    history = trace_of(log)
    added, kept = int(np.sum(history.planes_added)), int(np.sum(planes.occupied[1:]))
    return Statistics(
        passes=len(log),
        oracle_calls=int(np.sum(history.oracle_calls)),
        planes_added=added,
        planes_kept=kept,
        planes_evicted=added - kept,
        support_planes=int(np.sum(planes.multipliers > 0)),
        capacity=planes.bounds.size,
        compilations=programs_traced() - compiled,
        seconds=seconds,
        history=history,
    )


def _run(
    problem: Problem,
    task: Task,
    formulation: Formulation,
    rules: _Rules,
    state: OneSlackState,
    rows: np.ndarray,
    callback: Callable[[Progress], bool | None] | None,
) -> OneSlackSolution:
    begin, compiled, log, status = time.perf_counter(), programs_traced(), [], None
    oracle, calls = oracle_for(problem, formulation), int(np.sum(np.asarray(task.terms.cap) > 0))
    seconds: dict[str, float] = {}
    best = _Best(math.inf, -math.inf, state.weights)
    while status is None:
        state, info = one_slack_step(problem, oracle, task, state, rules.C, rules.batch)
        of_primal, of_dual = best.roundings
        if info.primal < best.primal:
            best, of_primal = (
                best._replace(primal=info.primal, weights=state.weights),
                info.rounding,
            )
        if info.dual > best.dual:
            best, of_dual = best._replace(dual=info.dual), info.rounding
        best = best._replace(roundings=(of_primal, of_dual))
        gap = best.primal - best.dual
        log.append(
            Trace(
                seconds=time.perf_counter() - begin,
                primal=best.primal,
                dual=best.dual,
                planes_added=info.planes_added,
                oracle_calls=calls,
                round_primal=info.primal,
                round_dual=info.dual,
            )
        )
        for name, value in info.seconds.items():
            seconds[name] = seconds.get(name, 0.0) + value
        status = _status(rules, best, info, state.clock)
        progress = Progress(len(log), best.primal, best.dual, gap, info, state)
        if callback is not None and callback(progress) and status is None:
            status = Status.STOPPED
    seconds["total"] = time.perf_counter() - begin
    return OneSlackSolution(
        weights=best.weights,
        status=status,
        message=_FULL if status is Status.WORKING_SET_FULL else MESSAGES[status],
        primal=best.primal,
        dual=best.dual,
        gap=gap,
        rounding=max(best.roundings),
        slack=info.example_slack[rows >= 0][np.argsort(rows[rows >= 0])],
        statistics=_statistics(state.planes, log, seconds, compiled),
        formulation=formulation.name,
        C=rules.C,
        state=state,
    )


def fit_one_slack(
    problem: Problem,
    inputs: PyTree | Buckets,
    outputs: PyTree | Buckets,
    formulation: str | Formulation = "svm1_margin",
    C: float = 1.0,
    *,
    tolerance: float | None = 1e-3,
    epsilon: float | None = None,
    example_weights: np.ndarray | None = None,
    max_passes: int = 1000,
    capacity: int = 64,
    batch: int = 32,
    callback: Callable[[Progress], bool | None] | None = None,
) -> OneSlackSolution:
    """Train a structural SVM of linear penalty with one joint plane a pass; see the module.

    min_w 1/2 |w|^2 + C/n sum_i v_i max(0, max_y H_i(y)), as `fit` solves it.

    Args:
      problem, inputs, outputs, C, example_weights: as in `fit`.
      formulation: svm1, svm1_slack or svm1_margin.
      tolerance: stop when P - D <= tolerance |P|; None to rely on epsilon alone.
      epsilon: the paper's rule: stop when the joint plane of a pass is violated by no more than
        epsilon beyond the planes at hand, whose dual is solved to C epsilon; None to rely on
        tolerance alone.
      max_passes: bound on the passes; each is one oracle call an example.
      capacity: joint planes held, the zero plane included; memory is capacity times the weights.
        Planes of multiplier 0 make room, the least recently used first.
      batch: examples an oracle call.
      callback: called after each pass with a `Progress`, whose info and state are OneSlackInfo and
        OneSlackState; a true answer stops the run.

    Returns:
      A OneSlackSolution; look at its status before its weights.

    Raises:
      ValueError: an argument does not fit, or the formulation's penalty is not linear.
    """
    check_is_problem(problem)
    formulation = _linear_penalty(formulation)
    dtype = jnp.result_type(*jax.tree.leaves(problem.initial_weights))
    check_run(C, tolerance, epsilon, max_passes, 1.0, dtype)
    check_batch(batch)
    check_callback(callback)
    inputs, outputs = checked_buckets(problem, inputs, outputs, example_weights)
    batch = min(batch, 1 << max(max(map(len, outputs.index)) - 1, 0).bit_length())
    task = make_task(problem, inputs, outputs, formulation, C, example_weights, batch, batch)
    rows = row_index(outputs.index, batch, batch)
    state = one_slack_init(problem, capacity)
    rules = _Rules(tolerance, epsilon, max_passes, float(C), batch)
    return _run(problem, task, formulation, rules, state, rows, callback)
