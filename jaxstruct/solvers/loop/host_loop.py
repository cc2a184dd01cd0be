"""The loop that every solver shares: rounds, the best so far, when to stop, what to count.

A solver gives a `Method`; its step makes one round. The loop keeps the best primal and dual, asks
the rules for a status, calls the callback, and writes the trace.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jaxstruct.core.compiling import COMPILE, compile_clock, programs_traced
from jaxstruct.core.processes import Processes
from jaxstruct.core.status import Status
from jaxstruct.core.types import PyTree
from jaxstruct.solvers.loop.trace import Entry, Statistics, Trace, trace_of
from jaxstruct.solvers.objective.certificate import Certificate, proven
from jaxstruct.solvers.objective.scaling import Scaled, multiple

STILL_ROUNDS = 20
"""Where so many rounds add no plane and end with one primal and dual, bit by bit, none will."""


UNPROVEN = (Status.PASS_LIMIT, Status.WORKING_SET_FULL, Status.ROUNDING)
"""A run that would end so takes the best multiple of its last w, whether it proves the gap or not:
22 words, 100 labels, C = 100 in float32 end at a gap of .085 so, and of .15 without."""

LEFT = 0.9
"""Of the gap at most; where the multiples of w promise less than that at the end, none is tried."""


_COUNTS = "planes_added", "oracle_calls"


class Rules(NamedTuple):
    """When a run ends.

    Fields:
      tolerance: on (P - D) / |P|, or None. epsilon: on the violation, or None.
      max_passes: bound on the clock. C: the trade-off. hard: whether the margin is (SVM0).
      slip: how far, relative to P, the dual may exceed the primal.
    """

    tolerance: float | None
    epsilon: float | None
    max_passes: int
    C: float
    hard: bool
    slip: float


class Round(NamedTuple):
    """What a solver says of one round.

    Fields:
      certificate: of the w that it ends with, or None where it was not certified.
      primal, dual: of the round itself: certified, or an estimate that proves nothing.
      planes_added, oracle_calls: in this round. clock: passes so far. seconds: by part.
      weights: the certified w, before `certificate.scale`. slack: of every row, or None.
      stuck: outputs were violated, none had a slot, and nothing was added.
      least_margin: a hard margin proven below it ends the run.
      info, state: what a callback sees.
    """

    certificate: Certificate | None
    primal: float
    dual: float
    planes_added: int
    oracle_calls: int
    clock: int
    seconds: dict[str, float]
    weights: PyTree
    slack: np.ndarray | None
    stuck: bool = False
    least_margin: float = 0.0
    info: Any = None
    state: Any = None


class Best(NamedTuple):
    """The best certified so far; certificate and slack are the last ones.

    primal_found: the smallest primal with the slacks of the outputs that the oracle found; where
      the oracle is inexact it may be that of other weights.
    roundings: of the certificates that primal and dual are from.
    """

    primal: float
    dual: float
    weights: PyTree
    primal_found: float = math.inf
    roundings: tuple[float, float] = (math.inf, math.inf)
    certificate: Certificate | None = None
    slack: np.ndarray | None = None


class Progress(NamedTuple):
    """What a callback sees after each round: best primal and dual so far, and the rest.

    They are certified; `info.estimate` of `fit` says where a round that was not is likely to be.
    """

    passes: int
    primal: float
    dual: float
    gap: float
    info: Any
    state: Any


class RunState(NamedTuple):
    """Where a run stands; seconds and log are filled in place.

    estimate: the primal of the last round, which may prove nothing.
    """

    state: Any
    best: Best
    estimate: float
    seconds: dict[str, float]
    log: list[Entry]


def run_state_at(state: Any, weights: PyTree) -> RunState:
    """Where a run begins; weights: of the state, where no round certifies any."""
    return RunState(state, Best(math.inf, -math.inf, weights), math.inf, {}, [])


class Method(NamedTuple):
    """What the loop asks of a solver.

    Fields:
      step: run state -> (state, Round), one round.
      certify: run state -> (state, Round), a certificate of the state as it is, for a run that is
        stopped after a round without one; None where every round has one.
      adapt: (state, Round) -> state, before the next round; None for no change.
      rescale: (run state, its last Round, P wanted) -> (state, Round), a search among the multiples
        of the w of that round, see `searched`; None where there is none.
      prove: (run state, its last Round) -> (state, Round), a certificate by an oracle that proves
        more and takes longer, where the run would end since the usual one finds nothing more; None
        where there is none.
    """

    step: Callable[[RunState], tuple[Any, Round]]
    certify: Callable[[RunState], tuple[Any, Round]] | None = None
    adapt: Callable[[Any, Round], Any] | None = None
    rescale: Callable[[RunState, Round, float], tuple[Any, Round]] | None = None
    prove: Callable[[RunState, Round], tuple[Any, Round]] | None = None


class StartCounters(NamedTuple):
    """What the counts of a run are taken from: clocks, programs, planes, and the trace before.

    time, processor, compiled: readings of the clocks of wall, processor and compile seconds.
    """

    time: float
    processor: float
    compiled: float
    programs: int
    planes: int = 0
    trace: Trace | None = None


def begin(planes: int = 0, trace: Trace | None = None) -> StartCounters:
    """The beginning of a run, now."""
    clocks = time.perf_counter(), time.process_time(), compile_clock().read().wall
    return StartCounters(*clocks, programs_traced(), planes, trace)


def seconds_so_far(now: RunState, start: StartCounters) -> dict[str, float]:
    """The wall seconds of a run by part, its compiling and its total as they are now."""
    compiling = compile_clock().read().wall - start.compiled
    return now.seconds | {COMPILE: compiling, "total": time.perf_counter() - start.time}


def improve(best: Best, found: Round) -> Best:
    """The best after a round. Where no primal is known to be a bound, the one found decides."""
    certificate = found.certificate
    if certificate is None:
        return best
    of_primal, of_dual = best.roundings
    better = certificate.primal < best.primal
    unknown = math.isinf(certificate.primal) and math.isinf(best.primal)
    if better or (unknown and certificate.primal_found < best.primal_found):
        weights, scale = found.weights, certificate.scale
        if scale != 1:
            weights = multiple(weights, scale)
        best = best._replace(primal=certificate.primal, weights=weights)
        of_primal = certificate.rounding
    lowest = min(best.primal_found, certificate.primal_found)
    best = best._replace(primal_found=lowest, certificate=certificate, slack=found.slack)
    if certificate.dual > best.dual:
        best, of_dual = best._replace(dual=certificate.dual), certificate.rounding
    return best._replace(roundings=(of_primal, of_dual))


def _stands_still(log: list[Entry]) -> bool:
    last = log[-STILL_ROUNDS:]
    found = {(entry.round_primal, entry.round_dual, entry.planes_added) for entry in last}
    return len(log) >= STILL_ROUNDS and len(found) == 1 and last[0].planes_added == 0


def _proven_status(rules: Rules, best: Best, certificate: Certificate) -> Status | None:
    """The status of a run whose gap or violation is within what is allowed."""
    if rules.tolerance is not None:
        gap, allowance = best.primal - best.dual, rules.tolerance * abs(best.primal)
        within = proven(gap, max(best.roundings), allowance)
        if within is not False:
            return Status.CONVERGED if within else Status.ROUNDING
    if rules.epsilon is not None and certificate.violation <= rules.epsilon:
        allowance = 0.0 if rules.hard else rules.C * rules.epsilon
        allowance = max(allowance, 1e-3 * abs(certificate.dual))
        within = proven(certificate.relaxed_gap, certificate.rounding, allowance)
        if within is not False:
            return Status.EPSILON if within else Status.ROUNDING
    return None


def _is_exhausted(rules: Rules, certificate: Certificate) -> bool:
    """Whether the run is over by all that an inexact oracle finds, though not by its bounds."""
    primal = certificate.primal_found
    if primal >= certificate.primal - certificate.rounding or not math.isfinite(primal):
        return False  # what is open is rounding, not what the oracle may have missed
    if rules.tolerance is not None and primal - certificate.dual <= rules.tolerance * abs(primal):
        return True
    return rules.epsilon is not None and certificate.violation_found <= rules.epsilon


def status_of(rules: Rules, best: Best, found: Round, log: list[Entry]) -> Status | None:
    """How the run ends after this round, the last one of the log, or None if it goes on."""
    certificate = found.certificate
    if certificate is None:
        return None
    lost = math.isnan(certificate.primal) or not math.isfinite(certificate.dual)
    if lost or not (rules.hard or math.isfinite(certificate.primal_found)):
        return Status.NOT_FINITE
    if certificate.missed > 0:
        return Status.WRONG_ORACLE
    if best.primal - best.dual < -rules.slip * abs(best.primal):
        return Status.ROUNDING
    status = _proven_status(rules, best, certificate)
    if status is not None:
        return status
    if rules.hard and certificate.margin_bound <= found.least_margin:
        return Status.NOT_SEPARABLE
    if found.stuck:
        return Status.WORKING_SET_FULL
    if _is_exhausted(rules, certificate):
        return Status.INEXACT_ORACLE
    if rules.tolerance is not None and _stands_still(log):
        return Status.ROUNDING
    return Status.PASS_LIMIT if found.clock >= rules.max_passes else None


def _wanted(rules: Rules, best: Best, certificate: Certificate | None, ends: bool) -> float | None:
    """The primal that a search is for: the one that would prove the gap with the best dual.

    Where the run ends, one that leaves little of the gap is enough. None for no search.
    """
    if certificate is None or rules.tolerance is None or rules.tolerance >= 1:
        return None
    wanted = (best.dual - certificate.rounding) / (1 - rules.tolerance)
    gap = best.primal - best.dual
    if ends and gap > rules.tolerance * abs(best.primal):
        wanted = max(wanted, best.dual + LEFT * gap)
    return wanted if best.dual < wanted < best.primal else None


def searched(
    found: Round, examples: int, state: Any, passes: list[Scaled], seconds: dict[str, float]
) -> Round:
    """A round after a search among the multiples of its w: with the certificate and slack of the
    best of these where it is better, and the calls and seconds of the search alone.

    Args:
      examples: how many a pass calls. state: the one to go on from.
    """
    calls = examples * len(passes)
    info = found.info._replace(oracle_calls=found.info.oracle_calls + calls)
    found = found._replace(
        planes_added=0, oracle_calls=calls, seconds=seconds, info=info, state=state
    )
    best = min(passes, key=lambda one: one.certificate.primal, default=None)
    if best is None or found.certificate is None:
        return found
    if not best.certificate.primal < found.certificate.primal:
        return found
    info = info._replace(certificate=best.certificate, estimate=best.certificate, slack=best.slack)
    return found._replace(
        certificate=best.certificate, primal=best.certificate.primal, slack=best.slack, info=info
    )


def _entry(best: Best, found: Round, start: StartCounters) -> Entry:
    """One round of the trace."""
    return Entry(
        seconds=time.perf_counter() - start.time,
        processor_seconds=time.process_time() - start.processor,
        compile_seconds=compile_clock().read().wall - start.compiled,
        primal=best.primal,
        dual=best.dual,
        planes_added=found.planes_added,
        oracle_calls=found.oracle_calls,
        round_primal=found.primal,
        round_dual=found.dual,
        certified=found.certificate is not None,
    )


def _note(now: RunState, state: Any, found: Round, start: StartCounters) -> RunState:
    """The run state after a round; its entry is at the end of the log."""
    best = improve(now.best, found)
    for name, value in found.seconds.items():
        now.seconds[name] = now.seconds.get(name, 0.0) + value
    now.log.append(_entry(best, found, start))
    return now._replace(state=state, best=best, estimate=found.primal)


def _merge_last(log: list[Entry]) -> None:
    """The last two entries as one round: a round and the certificate that ended it."""
    earlier, later = log[-2:]
    both = {name: getattr(earlier, name) + getattr(later, name) for name in _COUNTS}
    log[-2:] = [later._replace(**both)]


def solve(
    method: Method,
    now: RunState,
    rules: Rules,
    start: StartCounters,
    callback: Callable[[Progress], bool | None] | None = None,
    keep: Callable[[RunState, Round], None] | None = None,
) -> tuple[RunState, Status]:
    """Rounds until a status is reached.

    Args:
      method: the solver. now: where it stands, at first that of `run_state_at`.
      rules: when to stop. start: of `begin`. callback: see `Progress`; a true answer stops.
      keep: given the run state after each round that does not end the run, and the round; its state
        is not adapted yet.
    """

    def after(now: RunState, made: tuple[Any, Round], *, same_round: bool = False) -> tuple:
        """(run state, its last Round, how the run ends or None) after what a method has made."""
        now = _note(now, *made, start)
        if same_round:
            _merge_last(now.log)
        return now, made[1], status_of(rules, now.best, made[1], now.log)

    status = None
    while status is None:
        now, found, status = after(now, method.step(now))
        ends = status in UNPROVEN
        wanted = _wanted(rules, now.best, found.certificate, ends)
        if (ends or status is None) and method.rescale is not None and wanted is not None:
            made, unproven = method.rescale(now, found, wanted), status
            now, found, status = after(now, made, same_round=True)
            status = unproven if status is None else status  # CONVERGED is 0
        if status is Status.INEXACT_ORACLE and method.prove is not None:
            now, found, status = after(now, method.prove(now, found), same_round=True)
        if status is None and keep is not None:
            keep(now, found)
        if callback is not None and callback(_progress(now, found)) and status is None:
            if found.certificate is None and method.certify is not None:
                now, *_ = after(now, method.certify(now), same_round=True)
            status = Status.STOPPED
        if status is None and method.adapt is not None:
            now = now._replace(state=method.adapt(now.state, found))
    return now._replace(seconds=seconds_so_far(now, start)), status


def _progress(now: RunState, found: Round) -> Progress:
    primal, dual = now.best.primal, now.best.dual
    return Progress(len(now.log), primal, dual, primal - dual, found.info, found.state)


def notifying_callback(
    processes: Processes,
    show: Callable[[Progress], None],
    callback: Callable[[Progress], bool | None] | None,
) -> Callable[[Progress], bool | None]:
    """A callback that shows a round, then asks the caller's; one that stops, stops all."""
    asked = processes.any(callback is not None)

    def notified(progress: Progress) -> bool | None:
        show(progress)
        if asked:
            answer = processes.agree(lambda: callback is not None and callback(progress))
            return processes.any(bool(answer))

    return notified


def statistics(
    now: RunState, start: StartCounters, kept: int, support: int, capacity: int
) -> Statistics:
    """The counts of a run.

    Args:
      now, start: its end and its counters. kept: planes at the end. support: those that carry.
      capacity: slots at the end.
    """
    own = trace_of(now.log)
    added = int(np.sum(own.planes_added))
    return Statistics(
        passes=len(now.log),
        oracle_calls=int(np.sum(own.oracle_calls)),
        planes_added=added,
        planes_kept=kept,
        planes_evicted=start.planes + added - kept,
        support_planes=support,
        capacity=capacity,
        compilations=programs_traced() - start.programs,
        seconds=now.seconds,
        history=trace_of(now.log, start.trace),
    )


def in_callers_order(slack: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """[n] the slack of each example; rows: [N] the example of every row, -1 where it is padding."""
    return slack[rows >= 0][np.argsort(rows[rows >= 0])]
