"""`fit`: the short way in, and the host loop around `cutting_plane.step`."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.buckets import Buckets, as_buckets, check_buckets
from jaxstruct.core.contract import Problem
from jaxstruct.core.types import PyTree
from jaxstruct.solvers import cutting_plane
from jaxstruct.solvers.certificate import Certificate
from jaxstruct.solvers.checks import check_run, check_weights, checked_examples, rounding
from jaxstruct.solvers.cutting_plane import Info, State
from jaxstruct.solvers.formulations import Formulation, formulation_named
from jaxstruct.solvers.settings import Settings, check_settings, fitted
from jaxstruct.solvers.solution import MESSAGES, Solution, Statistics, Status
from jaxstruct.solvers.task import Task, make_task, row_index
from jaxstruct.solvers.warm_start import restarted
from jaxstruct.solvers.working_sets import is_enumerated

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
    """The best certified so far; certificate and slack are the last ones."""

    primal: float
    dual: float
    weights: PyTree
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
    if rules.tolerance is not None and gap <= rules.tolerance * abs(best.primal) < math.inf:
        return Status.CONVERGED
    if rules.epsilon is not None and certificate.violation <= rules.epsilon:
        allowance = rules.C * rules.epsilon if formulation.penalty else 0.0
        if certificate.relaxed_gap <= max(allowance, 1e-3 * abs(certificate.dual)):
            return Status.EPSILON
    if formulation.penalty == 0 and certificate.margin_bound <= rules.min_margin * radius:
        return Status.NOT_SEPARABLE
    if full and info.overflow and not info.planes_added:
        return Status.WORKING_SET_FULL
    return Status.PASS_LIMIT if state.clock >= rules.max_passes else None


def _improved(best: _Best, state: State, info: Info) -> _Best:
    certificate = info.certificate
    if certificate is None:
        return best
    best = best._replace(certificate=certificate, slack=info.slack)
    if certificate.primal < best.primal:
        scaled = jax.tree.map(lambda leaf: leaf * certificate.scale, state.weights)
        best = best._replace(primal=certificate.primal, weights=scaled)
    return best._replace(dual=max(best.dual, certificate.dual))


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


def _compiled_programs() -> int:
    return sum(program._cache_size() for program in cutting_plane.PROGRAMS)


def _statistics(
    state: State, rows: np.ndarray, log: list, seconds: dict, calls: int, compiled: int
) -> Statistics:
    real = rows >= 0
    sets = state.sets
    added = int(sum(row[3] for row in log))
    carried = sets.last_used > 0 if is_enumerated(sets) else sets.occupied
    kept = int(np.sum(np.asarray(carried)[real, 1:]))
    return Statistics(
        passes=len(log),
        oracle_calls=calls,
        planes_added=added,
        planes_kept=kept,
        planes_evicted=max(added - kept, 0),
        support_planes=int(np.sum(np.asarray(sets.multipliers)[real] > 0)),
        capacity=sets.losses.shape[1],
        compilations=_compiled_programs() - compiled,
        seconds=seconds,
        history=np.asarray(log, np.float64).reshape(-1, 6),
    )


def _run(
    problem: Problem,
    task: Task,
    settings: Settings,
    formulation: Formulation,
    rules: _Rules,
    state: State,
    rows: np.ndarray,
    callback: Callable[[Progress], bool | None] | None,
) -> Solution:
    n = int(np.sum(rows >= 0))
    start, compiled = time.perf_counter(), _compiled_programs()
    best = _Best(math.inf, -math.inf, state.weights)
    state = state._replace(clock=0)
    seconds, log, calls, status, estimated = {}, [], 0, None, math.inf
    fixed = problem, task, settings, formulation
    while status is None:
        primal = best.primal if math.isfinite(best.primal) else estimated
        threshold = _threshold(rules, primal, formulation)
        worth = _worth_certifying(rules, primal, formulation, threshold, state.clock)
        state, info = cutting_plane.step(*fixed, state, threshold, *worth)
        best, estimated = _improved(best, state, info), info.estimate.primal
        calls += info.oracle_calls
        _add_seconds(seconds, info)
        log.append((
            time.perf_counter() - start, best.primal, best.dual, info.planes_added,
            info.estimate.primal, info.estimate.dual,
        ))  # fmt: skip
        capacity = state.sets.losses.shape[1]
        full = capacity >= settings.max_capacity
        status = _status(rules, best, info, state, formulation, full)
        progress = Progress(len(log), best.primal, best.dual, best.primal - best.dual, info, state)
        if callback is not None and callback(progress) and status is None:
            status = Status.STOPPED
            if info.certificate is None:
                state, info = cutting_plane.certified(*fixed, state, threshold)
                best, calls = _improved(best, state, info), calls + info.oracle_calls
                _add_seconds(seconds, info)
                log[-1] = (*log[-1][:3], log[-1][3] + info.planes_added, *log[-1][4:])
        if status is None and not full and _wants_growth(info, n):
            state = cutting_plane.with_capacity(state, min(2 * capacity, settings.max_capacity))
    seconds["total"] = time.perf_counter() - start
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
        formulation=formulation.name,
        C=rules.C,
        state=state,
        statistics=_statistics(state, rows, log, seconds, calls, compiled),
    )


def checked_buckets(
    problem: Problem,
    inputs: PyTree | Buckets,
    outputs: PyTree | Buckets,
    example_weights: np.ndarray | None,
) -> tuple[Buckets, Buckets]:
    """The examples in buckets, or a ValueError that names what does not fit."""
    if isinstance(inputs, Buckets) != isinstance(outputs, Buckets):
        raise ValueError("inputs and outputs must both be Buckets, or neither")
    if not isinstance(inputs, Buckets):
        checked_examples(inputs, outputs, example_weights)
        inputs, outputs = as_buckets(inputs), as_buckets(outputs)
    check_buckets(inputs, outputs)
    check_weights(example_weights, sum(map(len, outputs.index)))
    for x, y in zip(inputs.parts, outputs.parts, strict=True):
        checked_examples(x, y, None)
        problem.check(x, y)
    return inputs, outputs


def fit(
    problem: Problem,
    inputs: PyTree,
    outputs: PyTree,
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
      start: a Solution of the same examples and formulation (any C) to start from.
      callback: called after each pass with a `Progress`; a true answer stops the run.

    Returns:
      A Solution; look at its status before its weights.

    Raises:
      ValueError: an argument does not fit; the message names it.
    """
    formulation = formulation_named(formulation)
    dtype = jnp.result_type(*jax.tree.leaves(problem.initial_weights))
    check_run(C, tolerance, epsilon, max_passes, min_margin, dtype)
    check_settings(settings)
    inputs, outputs = checked_buckets(problem, inputs, outputs, example_weights)
    settings = fitted(problem, settings, max(map(len, outputs.index)))
    shape = settings.oracle_batch, settings.group
    task = make_task(problem, inputs, outputs, formulation, C, example_weights, *shape)
    rows = row_index(outputs.index, *shape)
    state = (
        cutting_plane.init(problem, task, settings)
        if start is None
        else restarted(problem, task, settings, formulation, start, C)
    )
    if start is not None and not np.array_equal(start.rows, rows):
        raise ValueError("start holds its examples in other buckets: index must be what it was")
    rules = _Rules(tolerance, epsilon, max_passes, min_margin, float(C))
    return _run(problem, task, settings, formulation, rules, state, rows, callback)


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
