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
Their inner products are summed on the host in float64: weights must be coordinates.

It left the package since it wins on one kind of task, few weights and outputs of many parts. First
and warm processor seconds, of `fit` in brackets: 20 grids of 12 x 12 cells 10.1, .5 (14.4, 6.9);
100 pairs of point sets 6.5, 1.6 (6.2, .8); digits at C/n = 1 5.3, 2.0 and full at 64 planes (3.1,
.3); shortest paths at C/n = 100 full at a gap of 62 % (22, 9).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments.machines.one_slack.joint_planes import (
    JointPlanes,
    OutputsFound,
    empty_joint_planes,
    free_slot,
    insert_planes,
    joint_plane,
    largest_plane,
    solved,
)
from jaxstruct.core.buckets import bucket_slices
from jaxstruct.core.checks import text_of
from jaxstruct.core.compiling import time_part
from jaxstruct.core.contract import Problem
from jaxstruct.core.status import MESSAGES, Status
from jaxstruct.core.types import PyTree
from jaxstruct.solvers.loop.host_loop import (
    Method,
    Progress,
    Round,
    RunState,
    StartCounters,
    begin,
    run_state_at,
    solve,
    statistics,
)
from jaxstruct.solvers.n_slack.task import Shapes, Task, batches_of
from jaxstruct.solvers.objective.certificate import (
    SURE,
    Certificate,
    coordinate_norm,
    roundings,
)
from jaxstruct.solvers.objective.formulations import Formulation
from jaxstruct.solvers.objective.most_violated import oracle_for
from jaxstruct.solvers.prepare import checked_rules, prepare_examples
from jaxstruct.solvers.settings import batch_within
from jaxstruct.solvers.solution import Solution, solution_of_run
from jaxstruct.solvers.validation.checks import check_batch
from jaxstruct.solvers.validation.oracle_rules import confirm

_FULL = "all planes at hand carry a positive multiplier: raise capacity, or tolerance or epsilon"


class OneSlackDetails(NamedTuple):
    """What `fit_one_slack` says besides. rounding: by how much its gap may be off."""

    rounding: float


def _check_linear(formulation: Formulation) -> None:
    if formulation.penalty != 1:
        kind = "no slack" if formulation.penalty == 0 else "squared slacks"
        raise ValueError(
            f"formulation is {formulation.name!r}, which has {kind}: one joint slack replaces only "
            "a sum of slacks that is linear; choose svm1, svm1_slack or svm1_margin, or use fit"
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


def _concatenate(found: tuple[OutputsFound, ...], field: str) -> np.ndarray:
    """[N] one field of what `joint_plane` found, of all buckets."""
    arrays = [np.asarray(getattr(own, field), np.float64) for own in found]
    return np.concatenate([array.reshape(-1) for array in arrays])


def _weigh(shares: np.ndarray, values: np.ndarray) -> float:
    """sum_i v_i / n values_i, over the examples of positive weight; values may be infinite."""
    used = shares > 0
    return float(np.sum(shares[used] * values[used]))


def _largest_scale(found: tuple[OutputsFound, ...], shares: np.ndarray) -> float:
    """The largest s of the outputs found, 1 where there is none."""
    coefficient = _concatenate(found, "coefficients")
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


def _eps(task: Task) -> float:
    """By how much, relative to its terms, an inner product is off; see `roundings`."""
    return roundings(task.inputs) * float(jnp.finfo(task.terms.cap.dtype).eps)


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
    worst, size, value, claim = (
        _concatenate(found, field) for field in ("worst", "size", "value", "claim")
    )
    example_slack, reach = np.maximum(worst, 0), state.reach
    if reach == 0:
        outputs = tuple(own.outputs for own in found)
        reach = float(largest_plane(problem, task, orders, outputs)) * _largest_scale(found, shares)
    beta, slack = planes.multipliers, _weigh(shares, example_slack)
    slack_found = _weigh(shares, np.maximum(value, 0))
    products = planes.gram @ beta
    norm = max(float(beta @ products), 0.0)
    length = coordinate_norm(problem, w, task.inputs[0])
    assert length is not None, "fit_one_slack has refused weights that are no coordinates"
    eps = _eps(task)
    error = eps * (math.sqrt(length) * reach + size)
    unsure = _weigh(shares, error) + _rounding_of_known(planes, eps)
    # A plane at hand above the oracle's answer, or an H that the answer lacks: a wrong oracle, if
    # beyond all rounding.
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
    if not slack_found > known:  # the new plane lies below those at hand
        return OneSlackState(w, planes, clock, reach), info
    slot = free_slot(planes)
    if slot is None:
        return OneSlackState(w, planes, clock, reach), info._replace(full=True)
    new = slot, (g, found), clock
    added = time_part(seconds, "products", lambda: insert_planes(planes, *new))
    info = info._replace(planes_added=1, planes_evicted=int(planes.occupied[slot]))
    return OneSlackState(w, added, clock, reach), info


def _certificate(info: OneSlackInfo, C: float, used: np.ndarray) -> Certificate:
    """What a pass proves, in the words of the n-slack certificate; slacks are the joint one."""
    mean = float(np.mean(info.example_slack[used]))
    return Certificate(
        primal=info.primal,
        primal_found=info.primal_found,
        dual=info.dual,
        violation=info.slack - info.known,
        violation_found=info.slack_found - info.known,
        missed=info.missed,
        relaxed_gap=info.primal_found - C * max(info.slack_found - info.known, 0.0) - info.dual,
        mean_slack=mean,
        risk_bound=mean,
        scale=1.0,
        margin_bound=np.inf,
        rounding=info.rounding,
    )


def _method(problem: Problem, oracle: str, task: Task, C: float, batch: int) -> Method:
    """The 1-slack method as the host loop runs it."""
    used = np.asarray(task.terms.cap) > 0
    calls = int(np.sum(used))

    def step(now: RunState) -> tuple[OneSlackState, Round]:
        state, info = one_slack_step(problem, oracle, task, now.state, C, batch)
        return state, Round(
            certificate=_certificate(info, C, used),
            primal=info.primal,
            dual=info.dual,
            planes_added=info.planes_added,
            oracle_calls=calls,
            clock=state.clock,
            seconds=info.seconds,
            weights=state.weights,
            slack=info.example_slack,
            stuck=info.full,
            info=info,
            state=state,
        )

    return Method(step)


def _solution(
    now: RunState,
    start: StartCounters,
    status: Status,
    formulation: Formulation,
    C: float,
    rows: np.ndarray,
) -> Solution:
    """What the end of a run says."""
    planes = now.state.planes
    kept, support = int(np.sum(planes.occupied[1:])), int(np.sum(planes.multipliers > 0))
    counts = statistics(now, start, kept, support, planes.bounds.size)
    message = _FULL if status is Status.WORKING_SET_FULL else MESSAGES[status]
    return solution_of_run(
        now.best, status, counts, formulation.name, C, rows,
        message=message, state=now.state, details=OneSlackDetails(max(now.best.roundings)),
    )  # fmt: skip


def fit_one_slack(
    problem: Problem,
    inputs: PyTree,
    outputs: PyTree,
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
) -> Solution:
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
      capacity: joint planes held, the slack slot included; memory is capacity times the weights.
        Planes of multiplier 0 leave where slots are full, the least recently used first.
      batch: examples an oracle call.
      callback: called after each pass with a `Progress`, whose info and state are OneSlackInfo and
        OneSlackState; a true answer stops the run.

    Returns:
      A Solution whose planes are joint planes, its details `OneSlackDetails`; look at its status
      before its weights. slack: [n] of the last pass; their weighted mean is the one slack.

    Raises:
      ValueError: an argument does not fit, the formulation's penalty is not linear, or weights are
        no coordinates, but coefficients of kernel values.
    """
    given = problem, formulation, C, tolerance, epsilon, max_passes
    formulation, rules = checked_rules(*given, callback=callback)
    _check_linear(formulation)
    check_batch(batch)

    def shapes_of(counts: list[int]) -> Shapes:
        within = batch_within(batch, max(counts))
        return [batches_of(count, within, within) for count in counts]

    task, rows, most, sample = prepare_examples(
        problem, inputs, outputs, formulation, C, example_weights, shapes_of
    )
    if coordinate_norm(problem, problem.initial_weights, task.inputs[0]) is None:
        raise ValueError("problem has weights that are no coordinates: fit trains those")
    batch = batch_within(batch, most)
    method = _method(problem, oracle_for(problem, formulation), task, rules.C, batch)
    state, start = one_slack_init(problem, capacity), begin()
    now, status = solve(method, run_state_at(state, state.weights), rules, start, callback)
    status = confirm(status, problem, formulation, sample, now.best.weights)
    return _solution(now, start, status, formulation, rules.C, rows)
