"""`fit`: the short way in, and the host loop around `cutting_plane.step`."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.buckets import Buckets
from jaxstruct.core.contract import Problem
from jaxstruct.core.types import PyTree
from jaxstruct.solvers import cutting_plane
from jaxstruct.solvers.certificate import Certificate, proven
from jaxstruct.solvers.checks import (
    check_callback,
    check_is_problem,
    check_run,
    checked_buckets,
    rounding,
)
from jaxstruct.solvers.cutting_plane import Info, State
from jaxstruct.solvers.formulations import Formulation, formulation_named
from jaxstruct.solvers.programs import programs_traced
from jaxstruct.solvers.settings import Settings, check_settings, fitted
from jaxstruct.solvers.solution import MESSAGES, Solution, Statistics, Status, Trace, trace_of
from jaxstruct.solvers.task import Task, make_task, row_index
from jaxstruct.solvers.warm_start import check_start, restarted
from jaxstruct.solvers.working_sets import WorkingSets, is_enumerated

DEFAULTS = Settings()


class Progress(NamedTuple):
    """What a callback of `fit` sees after each pass: best primal and dual so far, and the rest.

    They are certified; `info.estimate` says where a round that was not is likely to be.
    """

    passes: int
    primal: float
    dual: float
    gap: float
    info: Info
    state: State


class _Rules(NamedTuple):
    tolerance: float | None
    epsilon: float | None
    max_passes: int
    min_margin: float
    C: float


class _Best(NamedTuple):
    """The best certified so far; certificate and slack are the last ones.

    roundings: of the certificates that primal and dual are from.
    """

    primal: float
    dual: float
    weights: PyTree
    roundings: tuple[float, float] = (math.inf, math.inf)
    certificate: Certificate | None = None
    slack: np.ndarray | None = None


def _threshold(rules: _Rules, primal: float, formulation: Formulation) -> float:
    """Planes are added above this violation: small enough for the gap that is wanted.

    primal: the best certified, or before there is one the last estimate.
    """
    wanted = math.inf if rules.epsilon is None else rules.epsilon
    if rules.tolerance is None:
        return wanted
    scale = 1.0
    if formulation.penalty and math.isfinite(primal):
        scale = min(1.0, primal / rules.C)
    return min(wanted, rules.tolerance * scale / 4)


def _status(
    rules: _Rules, best: _Best, info: Info, state: State, formulation: Formulation, full: bool
) -> Status | None:
    certificate = info.certificate
    if certificate is None:
        return None
    gap = best.primal - best.dual
    radius = float(jnp.sqrt(jnp.max(state.sets.norms))) if formulation.penalty == 0 else 0.0
    if math.isnan(certificate.primal) or not math.isfinite(certificate.dual):
        return Status.NOT_FINITE
    if gap < -rounding(state.sets.losses.dtype) * abs(best.primal):
        return Status.ROUNDING
    if rules.tolerance is not None:
        within = proven(gap, max(best.roundings), rules.tolerance * abs(best.primal))
        if within is not False:
            return Status.CONVERGED if within else Status.ROUNDING
    if rules.epsilon is not None and certificate.violation <= rules.epsilon:
        allowance = rules.C * rules.epsilon if formulation.penalty else 0.0
        allowance = max(allowance, 1e-3 * abs(certificate.dual))
        within = proven(certificate.relaxed_gap, certificate.rounding, allowance)
        if within is not False:
            return Status.EPSILON if within else Status.ROUNDING
    if formulation.penalty == 0 and certificate.margin_bound <= rules.min_margin * radius:
        return Status.NOT_SEPARABLE
    if full and info.overflow and not info.planes_added:
        return Status.WORKING_SET_FULL
    return Status.PASS_LIMIT if state.clock >= rules.max_passes else None


def _improved(best: _Best, state: State, info: Info) -> _Best:
    certificate = info.certificate
    if certificate is None:
        return best
    of_primal, of_dual = best.roundings
    best = best._replace(certificate=certificate, slack=info.slack)
    if certificate.primal < best.primal:
        scaled = jax.tree.map(lambda leaf: leaf * certificate.scale, state.weights)
        best, of_primal = (
            best._replace(primal=certificate.primal, weights=scaled),
            certificate.rounding,
        )
    if certificate.dual > best.dual:
        best, of_dual = best._replace(dual=certificate.dual), certificate.rounding
    return best._replace(roundings=(of_primal, of_dual))


def _wants_growth(info: Info, n: int) -> bool:
    return info.overflow > 0.02 * n or (info.overflow > 0 and info.planes_added < info.overflow)


def _worth_certifying(
    rules: _Rules, primal: float, formulation: Formulation, threshold: float, clock: int
) -> tuple[float, float]:
    """The estimated relative gap and the violation at which a round is; any in the last round.

    The violation counts for the rule of epsilon, and while a hard margin is not met.
    """
    if clock + 1 >= rules.max_passes:
        return math.inf, math.inf
    if formulation.penalty == 0 and not math.isfinite(primal):
        return -math.inf, threshold
    goal = -math.inf if rules.tolerance is None else 1.5 * rules.tolerance
    return goal, -math.inf if rules.epsilon is None else rules.epsilon


def _add_seconds(seconds: dict[str, float], info: Info) -> None:
    for name, value in info.seconds.items():
        seconds[name] = seconds.get(name, 0.0) + value


def _planes(sets: WorkingSets, rows: np.ndarray) -> int:
    """Planes at hand of real examples; of enumerated working sets those that ever moved."""
    carried = sets.last_used > 0 if is_enumerated(sets) else sets.occupied
    return int(np.sum(np.asarray(carried)[rows >= 0, 1:]))


class _Beginning(NamedTuple):
    """What the counts of a run are taken from: clock, programs, planes, and the trace before."""

    time: float
    programs: int
    planes: int
    trace: Trace | None


def _statistics(
    state: State, rows: np.ndarray, log: list[Trace], seconds: dict, begin: _Beginning
) -> Statistics:
    sets, own = state.sets, trace_of(log)
    added, kept = int(np.sum(own.planes_added)), _planes(state.sets, rows)
    return Statistics(
        passes=len(log),
        oracle_calls=int(np.sum(own.oracle_calls)),
        planes_added=added,
        planes_kept=kept,
        planes_evicted=begin.planes + added - kept,
        support_planes=int(np.sum(np.asarray(sets.multipliers)[rows >= 0] > 0)),
        capacity=sets.losses.shape[1],
        compilations=programs_traced() - begin.programs,
        seconds=seconds,
        history=trace_of(log, begin.trace),
    )


def _entry(best: _Best, info: Info, begin: _Beginning) -> Trace:
    """One round of the trace."""
    return Trace(
        seconds=time.perf_counter() - begin.time,
        primal=best.primal,
        dual=best.dual,
        planes_added=info.planes_added,
        oracle_calls=info.oracle_calls,
        round_primal=info.estimate.primal,
        round_dual=info.estimate.dual,
    )


def _with_certificate(entry: Trace, best: _Best, info: Info, begin: _Beginning) -> Trace:
    """The round once more, after the certificate that ends a stopped run."""
    later = _entry(best, info, begin)
    return later._replace(
        planes_added=entry.planes_added + later.planes_added,
        oracle_calls=entry.oracle_calls + later.oracle_calls,
    )


class _Fixed(NamedTuple):
    """What stays as it is during a run."""

    problem: Problem
    task: Task
    settings: Settings
    formulation: Formulation
    rules: _Rules
    rows: np.ndarray
    begin: _Beginning

    @property
    def of_step(self) -> tuple[Problem, Task, Settings, Formulation]:
        """The fixed side of `cutting_plane.step`."""
        return self.problem, self.task, self.settings, self.formulation


class _Standing(NamedTuple):
    """Where a run stands; seconds and log are filled in place."""

    state: State
    best: _Best
    estimated: float
    threshold: float
    seconds: dict[str, float]
    log: list[Trace]


def _next_round(fixed: _Fixed, now: _Standing) -> tuple[_Standing, Info]:
    """One step, and what it improves."""
    rules, formulation, state = fixed.rules, fixed.formulation, now.state
    primal = now.best.primal if math.isfinite(now.best.primal) else now.estimated
    threshold = _threshold(rules, primal, formulation)
    worth = _worth_certifying(rules, primal, formulation, threshold, state.clock)
    state, info = cutting_plane.step(*fixed.of_step, state, threshold, *worth)
    best = _improved(now.best, state, info)
    _add_seconds(now.seconds, info)
    now.log.append(_entry(best, info, fixed.begin))
    now = now._replace(state=state, best=best, estimated=info.estimate.primal, threshold=threshold)
    return now, info


def _certified_stop(fixed: _Fixed, now: _Standing) -> _Standing:
    """A run stopped after a round without a certificate, with one for its last state."""
    state, info = cutting_plane.certified(*fixed.of_step, now.state, now.threshold)
    best = _improved(now.best, state, info)
    _add_seconds(now.seconds, info)
    now.log[-1] = _with_certificate(now.log[-1], best, info, fixed.begin)
    return now._replace(state=state, best=best)


def _solution(fixed: _Fixed, now: _Standing, status: Status) -> Solution:
    now.seconds["total"] = time.perf_counter() - fixed.begin.time
    best, rows = now.best, fixed.rows
    return Solution(
        weights=best.weights,
        status=status,
        message=MESSAGES[status],
        primal=best.primal,
        dual=best.dual,
        gap=best.primal - best.dual,
        certificate=best.certificate,
        slack=best.slack[rows >= 0][np.argsort(rows[rows >= 0])],
        rows=rows,
        formulation=fixed.formulation.name,
        C=fixed.rules.C,
        state=now.state,
        statistics=_statistics(now.state, rows, now.log, now.seconds, fixed.begin),
    )


def _run(
    fixed: _Fixed, state: State, callback: Callable[[Progress], bool | None] | None
) -> Solution:
    n, most = int(np.sum(fixed.rows >= 0)), fixed.settings.max_capacity
    best = _Best(math.inf, -math.inf, state.weights)
    now, status = _Standing(state._replace(clock=0), best, math.inf, math.inf, {}, []), None
    while status is None:
        now, info = _next_round(fixed, now)
        best, capacity = now.best, now.state.sets.losses.shape[1]
        full = capacity >= most
        status = _status(fixed.rules, best, info, now.state, fixed.formulation, full)
        gap = best.primal - best.dual
        progress = Progress(len(now.log), best.primal, best.dual, gap, info, now.state)
        if callback is not None and callback(progress) and status is None:
            status = Status.STOPPED
            if info.certificate is None:
                now = _certified_stop(fixed, now)
        if status is None and not full and _wants_growth(info, n):
            wider = cutting_plane.with_capacity(now.state, min(2 * capacity, most))
            now = now._replace(state=wider)
    return _solution(fixed, now, status)


def fit(
    problem: Problem,
    inputs: PyTree | Buckets,
    outputs: PyTree | Buckets,
    formulation: str | Formulation = "svm1_margin",
    C: float = 1.0,
    *,
    tolerance: float | None = 1e-3,
    epsilon: float | None = None,
    example_weights: np.ndarray | None = None,
    settings: Settings = DEFAULTS,
    max_passes: int = 500,
    min_margin: float = 1e-3,
    start: Solution | None = None,
    callback: Callable[[Progress], bool | None] | None = None,
) -> Solution:
    """Train a structural SVM (thesis, algorithms 2 and 3).

    min_w 1/2 |w|^2 + (C/n) sum_i v_i xi_i (SVM1), + (C/2n) sum_i v_i xi_i^2 (SVM2), or a hard
    margin (SVM0), under the constraints of `formulations`.

    Args:
      problem: the structure.
      inputs, outputs: pytrees with a leading axis [n], or both `Buckets` of them.
      formulation: one of svm0, svm1, svm2, svm1_slack, svm1_margin, svm2_slack, svm2_margin.
      C: the trade-off; divided by n as in the thesis. Ignored by svm0.
      tolerance: stop when P - D <= tolerance |P|; None to rely on epsilon alone.
      epsilon: the paper's rule: stop when no H(y) exceeds xi_i + epsilon and the relaxed problem
        over the working sets is solved to C epsilon; None to rely on tolerance alone.
      example_weights: [n] v_i >= 0, e.g. class weights taken at each output; C is still divided
        by n.
      settings: how; see `Settings`.
      max_passes: bound on the rounds.
      min_margin: svm0 gives up once the margin is proven to be below this fraction of the largest
        |delta Psi|.
      start: a Solution of the same examples and formulation (any C) to start from; with the same C
        its history goes on.
      callback: called after each pass with a `Progress`; a true answer stops the run.

    Returns:
      A Solution; look at its status before its weights.

    Raises:
      ValueError: an argument does not fit; the message names it.
    """
    check_is_problem(problem)
    formulation = formulation_named(formulation)
    dtype = jnp.result_type(*jax.tree.leaves(problem.initial_weights))
    check_run(C, tolerance, epsilon, max_passes, min_margin, dtype)
    check_settings(settings)
    check_callback(callback)
    inputs, outputs = checked_buckets(problem, inputs, outputs, example_weights)
    settings = fitted(problem, settings, max(map(len, outputs.index)))
    shape = settings.oracle_batch, settings.group
    task = make_task(problem, inputs, outputs, formulation, C, example_weights, *shape)
    rows = row_index(outputs.index, *shape)
    before = None
    if start is None:
        state = cutting_plane.init(problem, task, settings)
    else:
        check_start(problem, task, rows, formulation, start)
        state = restarted(problem, task, settings, formulation, start, C)
        before = start.statistics.history if start.C == C else None
    rules = _Rules(tolerance, epsilon, max_passes, min_margin, float(C))
    begin = _Beginning(time.perf_counter(), programs_traced(), _planes(state.sets, rows), before)
    fixed = _Fixed(problem, task, settings, formulation, rules, rows, begin)
    return _run(fixed, state, callback)


def fit_path(
    problem: Problem,
    inputs: PyTree,
    outputs: PyTree,
    formulation: str | Formulation,
    Cs: Iterable[float],
    **options: object,
) -> Iterator[Solution]:
    """Solutions along a path of C, each started from the one before with feasible dual variables.

    Args:
      Cs: the values, best in rising order. options: of `fit`.
    """
    solution = options.pop("start", None)
    for C in Cs:
        solution = fit(problem, inputs, outputs, formulation, C, start=solution, **options)
        yield solution
