"""`fit_latent`: structural SVMs on outputs of which a part is known (Yu and Joachims, ICML 2009).

    J(w) = 1/2 |w|^2 + C/n sum_i v_i (max_y [F(x_i, y) + Delta_i(y)] - max_h F(x_i, h))

h runs over the outputs that agree with what is known of example i, y over all; Delta_i reads what
is known alone and is 0 of every h. J is a difference of convex functions. With each h_i fixed it is
P, the convex problem of margin re-scaling whose true outputs are h_i, and P >= J. The
concave-convex procedure minimises P by `fit`, completes anew under its w, and so on:

    J(w_t) = P_t(w_t) >= P_t(w_{t+1}) >= J(w_{t+1}),    P_t with the best h of w_t.

A step is taken only where the certified P_t(w_{t+1}) is not above J(w_t), else the convex problem
is solved further, so that J never rises. w_t is a critical point to the tolerance where its own
convex problem cannot be made better by more: J(w_t) - D_t <= tolerance J(w_t), D_t its dual value.
That is what status CONVERGED says. It is no global optimum; of the optimum of J the bound is known
that the examples without a gap have among themselves, a convex problem, and 0 where there are none.

Scaling Delta by s is dividing C by s: annealing the loss from a large one down to its own is a path
of C from a small one up to its own, which is how `anneal` is done.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.buckets import Buckets
from jaxstruct.core.checks import check_flag, checked_size, text_of
from jaxstruct.core.contract import Incomplete, Problem, output_of
from jaxstruct.core.padding import ragged_leaves, restored
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.status import MESSAGES, Status
from jaxstruct.core.types import PyTree
from jaxstruct.solvers.checkpoints.resuming import in_common
from jaxstruct.solvers.checkpoints.run_state import check_checkpoint
from jaxstruct.solvers.fit import fit
from jaxstruct.solvers.latent.completion import anchored, complete, drawn, some_that_agree
from jaxstruct.solvers.latent.state import (
    KINDS,
    End,
    LatentFile,
    Point,
    Progress,
    Turn,
    run_fingerprint,
)
from jaxstruct.solvers.loop.trace import trace_of
from jaxstruct.solvers.objective.formulations import Formulation
from jaxstruct.solvers.predict import weights_of
from jaxstruct.solvers.prepare import check_watching, checked_rules
from jaxstruct.solvers.settings import Settings
from jaxstruct.solvers.solution import Solution
from jaxstruct.solvers.validation.checks import FINEST, check_weights

DEFAULTS = Settings()
LOOSE, SHARE = 0.5, 1.0
"""The relative gap to which the first convex problems are solved, and of the last relative decrease
of J that of the next one. 300 Spanish sentences with half of the labels None take 28,100 oracle
calls to J = 19.71; 55,100 to 19.82 with 0.1 and 0.25; one training on all labels 12,300."""
PACE = 1.3
"""By which a self-paced start raises the slack that it takes (Kumar, Packer and Koller 2010)."""


class LatentTrace(NamedTuple):
    """The convex problems of a run, one after the other, a row each.

    Fields:
      start: which start it is of, from 0. warm: whether it is one before the procedure itself.
      objective: J after it, nan of a warm one; it never rises within a start.
      primal, dual: certified of the convex problem. rounds, oracle_calls: of `fit`.
      changed: examples whose completion is another one after it. seconds: since the run began.
    """

    start: np.ndarray
    warm: np.ndarray
    objective: np.ndarray
    primal: np.ndarray
    dual: np.ndarray
    rounds: np.ndarray
    oracle_calls: np.ndarray
    changed: np.ndarray
    seconds: np.ndarray


class LatentDetails(NamedTuple):
    """What `fit_latent` says besides.

    Fields:
      completions: the outputs that the last convex problem took for true ones, as outputs.
      critical_gap: J(w) - D of that problem: what a step from w could gain at most.
      trace: see `LatentTrace`. seeds: of the starts. objectives: J at the end of each.
      rows, fingerprint: as in `FitDetails`, of the last convex problem.
    """

    completions: PyTree
    critical_gap: float
    trace: LatentTrace
    seeds: tuple[int, ...]
    objectives: tuple[float, ...]
    rows: np.ndarray
    fingerprint: str


class _Given(NamedTuple):
    """What stays as it is during a run."""

    problem: Problem
    formulation: Formulation
    inputs: Buckets
    C: float
    weights: np.ndarray
    whole: np.ndarray
    tolerance: float
    finest: float
    max_rounds: int
    callback: Callable | None
    options: dict[str, Any]
    rows: list
    began: float


def _whole(outputs: Incomplete) -> np.ndarray:
    """[n] bool: nothing is open of the example; false where known is no table of labels."""
    found = True
    for leaf in jax.tree.leaves(outputs.known):
        rows = np.asarray(leaf.rows if isinstance(leaf, Ragged) else leaf)
        if rows.dtype != bool:
            return np.zeros(len(leaf), bool)
        open_ = rows.sum(axis=-1) > 1
        if isinstance(leaf, Ragged):
            each = open_.reshape(len(rows), -1).any(axis=1)
            sums = np.concatenate([[0], np.cumsum(each)])[leaf.offsets]
            found = found & (np.diff(sums) == 0)
        else:
            found = found & ~open_.reshape(len(rows), -1).any(axis=1)
    return np.asarray(found)


def _solved(
    given: _Given,
    outputs: Buckets,
    tolerance: float,
    before: Solution | None,
    C: float | None = None,
    weights: np.ndarray | None = None,
) -> Solution:
    """`fit` of the convex problem of some completions."""
    if before is not None:
        before = anchored(given.problem, before, given.inputs, outputs)
        before = before._replace(statistics=before.statistics._replace(history=trace_of([])))
    return fit(
        given.problem, given.inputs, outputs, given.formulation, given.C if C is None else C,
        tolerance=max(tolerance, given.finest), start=before,
        example_weights=given.weights if weights is None else weights, **given.options,
    )  # fmt: skip


def _note(
    given: _Given, start: int, found: Solution, objective: float, changed: int, warm: bool = False
) -> bool:
    """Write a row of the trace; whether the callback asks to stop."""
    counts, seconds = found.statistics, time.perf_counter() - given.began
    row = (start, warm, objective, found.primal, found.dual, counts.passes, counts.oracle_calls,
           changed, seconds)  # fmt: skip
    given.rows.append(row)
    return given.callback is not None and bool(given.callback(_trace(given.rows[-1:])))


def _trace(rows: list) -> LatentTrace:
    columns = zip(*rows, strict=True) if rows else ((),) * len(KINDS)
    return LatentTrace(*(np.array(own, kind) for own, kind in zip(columns, KINDS, strict=True)))


def _changed(before: Buckets, after: Buckets) -> int:
    """How many examples have other completions."""
    total = 0
    for old, new in zip(output_of(before.parts), output_of(after.parts), strict=True):
        differ = [
            (np.asarray(a) != np.asarray(b)).reshape(len(a), -1).any(axis=1)
            for a, b in zip(jax.tree.leaves(old), jax.tree.leaves(new), strict=True)
        ]
        total += int(np.sum(np.any(differ, axis=0)))
    return total


def _point(given: _Given, found: Solution, outputs: Buckets) -> tuple[Point, int]:
    """(w with its own completions and J(w), how many of them are new)."""
    done = complete(given.problem, found.weights, given.inputs, outputs)
    saved = given.C * float(np.mean(given.weights * done.gain))
    point = Point(found.weights, found.primal - saved, done.outputs, found)
    return point, _changed(outputs, done.outputs)


def _next(given: _Given, turn: Turn, number: int) -> Turn | End:
    """Solve one convex problem; see the module."""
    found = _solved(given, turn.outputs, turn.tolerance, turn.before)
    now, bound = turn.now, found.dual - found.certificate.rounding
    if given.whole.all():  # one problem alone, whose dual bounds J
        turn = turn._replace(lower=max(0.0, bound))
    finish = given.tolerance / 2
    after, changed = now, 0
    lower = now is None or found.primal <= now.objective
    if lower:
        after, changed = _point(given, found, turn.outputs)
    elif now is not None:
        after = now._replace(solution=found)
    assert after is not None, "the first convex problem makes a point"
    stopped = _note(given, number, found, after.objective, changed)
    within = given.tolerance * abs(after.objective)
    gap = after.objective - bound
    if lower and not changed and gap <= within:
        return End(after, Status.CONVERGED, gap, turn.lower)
    if now is not None and now.objective - bound <= given.tolerance * abs(now.objective):
        if now.objective - after.objective <= given.tolerance * abs(now.objective):
            return End(
                now._replace(solution=found), Status.CONVERGED, now.objective - bound, turn.lower
            )
    if stopped or not found.status.solved:
        status = Status.STOPPED if stopped else found.status
        return End(after, status, math.inf if changed else gap, turn.lower)
    if not lower:
        tolerance = max(turn.tolerance / 4, finish)
    elif not changed:
        tolerance = finish
    elif now is None:
        tolerance = turn.tolerance
    else:
        drop = (now.objective - after.objective) / max(abs(after.objective), 1e-300)
        tolerance = min(max(SHARE * drop, finish), turn.tolerance)
    return Turn(after.outputs, found, tolerance, after, turn.lower)


def _warmed(
    given: _Given, turn: Turn, number: int, C: float, weights: np.ndarray, tolerance: float = LOOSE
) -> Turn:
    """The start moved to the completions of another convex problem's w."""
    found = _solved(given, turn.outputs, tolerance, turn.before, C, weights)
    done = complete(given.problem, found.weights, given.inputs, turn.outputs)
    _note(given, number, found, math.nan, _changed(turn.outputs, done.outputs), warm=True)
    return turn._replace(outputs=done.outputs, before=found)


def _paced(given: _Given, turn: Turn, number: int) -> Turn:
    """A self-paced start: examples of small slack first, of larger slack from turn to turn."""
    v, used = given.weights, given.weights > 0
    if turn.before is None:
        turn = _warmed(given, turn, number, given.C, v)
    assert turn.before is not None, "warmed"
    limit = float(np.median(turn.before.slack[used]))
    limit = max(limit, float(np.min(turn.before.slack[used & (turn.before.slack > 0)], initial=1)))
    while np.any(turn.before.slack[used] > limit):
        turn = _warmed(given, turn, number, given.C, v * (turn.before.slack <= limit))
        assert turn.before is not None, "warmed"
        limit *= PACE
    return turn


def _first(
    given: _Given,
    outputs: Buckets,
    w: PyTree | None,
    number: int,
    seed: int,
    anneal: Sequence[float],
    paced: bool,
) -> Turn:
    """Where a start begins: the first by w or by the complete examples, others at random."""
    random = outputs if number == 0 else drawn(given.problem, given.inputs, outputs, seed)
    turn, whole = Turn(random, None, LOOSE), given.weights * given.whole
    if given.whole.all():
        return turn._replace(tolerance=given.tolerance)
    if number == 0 and w is not None:  # solved closely, so that J ends no higher than at w
        close = LOOSE if anneal or paced else given.tolerance / 2
        turn = Turn(complete(given.problem, w, given.inputs, random).outputs, None, close)
    elif number == 0 and whole.any():
        turn = _warmed(given, turn, number, given.C, whole, max(given.tolerance, 1e-2))
        assert turn.before is not None, "warmed"
        own = turn.before
        turn = turn._replace(lower=max(0.0, own.dual - own.certificate.rounding))
    for share in anneal:
        turn = _warmed(given, turn, number, share * given.C, given.weights)
    return _paced(given, turn, number) if paced else turn


def _run(given: _Given, now: Progress, keep: Callable[[Progress], object]) -> End:
    """Turn after turn of one start, each kept."""
    while now.rounds < given.max_rounds:
        assert now.turn is not None, "a start under way"
        found = _next(given, now.turn, now.number)
        if isinstance(found, End):
            return found
        now = now._replace(turn=found, rounds=now.rounds + 1, rows=tuple(given.rows))
        keep(now)
    assert now.turn is not None and now.turn.now is not None, "at least one round"
    return End(now.turn.now, Status.PASS_LIMIT, math.inf, now.turn.lower)


def _ended(now: Progress, end: End, rows: list) -> Progress:
    """After a start, the best one so far beside the largest bound."""
    best, lower = now.best, end.lower if now.best is None else max(end.lower, now.best.lower)
    if best is None or end.point.objective < best.point.objective:
        best = end
    objectives = (*now.objectives, end.point.objective)
    return Progress(now.number + 1, 0, None, best._replace(lower=lower), objectives, tuple(rows))


_MESSAGES = {
    Status.CONVERGED: "a critical point: its own convex problem has no better value beyond the "
    "tolerance",
    Status.PASS_LIMIT: "max_rounds convex problems did not settle: raise it, or loosen tolerance",
    Status.STOPPED: "the callback asked to stop",
}


def _message(end: End, lower: float) -> str:
    known = (
        f"the optimum is at least {lower:g}" if lower > 0 else "no bound of the optimum is known"
    )
    words = _MESSAGES.get(end.status)
    if words is None or not end.point.solution.status.solved:
        words = f"a convex problem was not solved: {MESSAGES[end.point.solution.status]}"
    return f"{words} (objective {end.point.objective:g}; a local method: {known})"


def _outputs_of(problem: Problem, given: PyTree, inputs: Buckets, outputs: Buckets) -> PyTree:
    """Completions as the caller has outputs: ragged, or arrays in their order."""
    parts = tuple(output_of(outputs.parts))
    if ragged_leaves(given):
        return restored(problem.padding, inputs, parts)
    order = np.argsort(np.concatenate(outputs.index))
    return jax.tree.map(lambda *leaves: np.concatenate(leaves)[order], *parts)


def _starts(
    given: _Given,
    now: Progress,
    count: int,
    first: Callable[[int], Turn],
    keep: Callable[[Progress], object],
) -> Progress:
    """The starts that are left of `count`, each from first(its number) to its end."""
    given.rows.extend(now.rows)
    while now.number < count:
        if now.turn is None:
            now = now._replace(turn=first(now.number))
        now = _ended(now, _run(given, now, keep), given.rows)
        keep(now)
    return now


def _best(now: Progress) -> End:
    assert now.best is not None, "a start"
    return now.best


def _solution(
    given: _Given, now: Progress, seeds: tuple[int, ...], completions: PyTree
) -> Solution:
    """The best start's end, as a solution."""
    best = _best(now)
    found, objective, lower = best.point.solution, best.point.objective, best.lower
    details = LatentDetails(
        completions, best.critical_gap, _trace(given.rows), seeds, now.objectives,
        found.details.rows, found.details.fingerprint,
    )  # fmt: skip
    return found._replace(
        weights=best.point.weights, status=best.status, message=_message(best, lower),
        primal=objective, dual=lower, gap=objective - lower, details=details,
    )  # fmt: skip


def _check(
    problem: Problem, outputs: Any, formulation: Formulation, counts: dict[str, Any], anneal: Any
) -> None:
    if formulation.name != "svm1_margin":
        raise ValueError(
            f'formulation must be "svm1_margin", got "{formulation.name}": J is a difference of '
            "convex functions where a slack is linear and the loss of every completion is 0; slack "
            "re-scaling would weigh other completions by that 0"
        )
    if problem.model.complete is None:
        raise ValueError(
            "problem does not say what agrees with an incomplete output: give its Model restrict, "
            "agrees or complete, as those of this package have whose labels may be None"
        )
    for name, value in counts.items():
        checked_size(name, value, 1 if name == "max_rounds" else 0)
    if not isinstance(anneal, (list, tuple)) or not all(
        isinstance(one, (int, float)) and 0 < one < 1 for one in anneal
    ):
        raise ValueError(f"anneal must be shares of C between 0 and 1, got {text_of(anneal)}")
    if not isinstance(outputs, Incomplete):
        raise ValueError(
            f"outputs must be jaxstruct.Incomplete, got {text_of(type(outputs).__name__)}: fit is "
            "for outputs that are all known"
        )


def fit_latent(
    problem: Problem,
    inputs: PyTree,
    outputs: Incomplete,
    formulation: str | Formulation = "svm1_margin",
    C: float = 1.0,
    *,
    tolerance: float = 1e-3,
    example_weights: np.ndarray | None = None,
    settings: Settings = DEFAULTS,
    max_rounds: int = 50,
    max_passes: int = 500,
    start: PyTree | Solution | None = None,
    restarts: int = 0,
    anneal: Sequence[float] = (),
    self_paced: bool = False,
    seed: int = 0,
    callback: Callable[[LatentTrace], bool | None] | None = None,
    verbose: bool | str = False,
    checkpoint: str | os.PathLike | None = None,
    resume: bool = False,
) -> Solution:
    """Train a structural SVM on outputs of which a part is known, by the procedure of the module.

    The first start begins from the w of the complete examples, where there are any, else from
    completions that are best under random potentials; the others always from such.

    Args:
      problem: a structure with `Model.complete`, `Model.restrict` or `Model.agrees`.
      inputs: n examples, as in `fit`. outputs: `Incomplete`; `prepare` makes them of labels with
        None or sets among them.
      formulation: "svm1_margin", the only one.
      C: the trade-off; divided by n.
      tolerance: relative, of the critical point; see the module. Each convex problem is solved to a
        relative gap of 0.5 at first, of the last relative decrease of J later, and of half the
        tolerance in the end.
      example_weights: [n] v_i >= 0. settings, max_passes, verbose: of each `fit`.
      max_rounds: convex problems of a start at most.
      start: weights, or a solution that has them, whose completions the first start begins from;
        without `anneal` and `self_paced` its J ends no higher than theirs but for half the
        tolerance.
      restarts: further starts, of seeds seed + 1, ...; the least J is returned.
      anneal: rising shares of C at which every start solves a convex problem first, each to a gap
        of 0.5, such as (0.01, 0.1): a loss that is larger at first.
      self_paced: whether every start takes examples of small slack first (Kumar, Packer and Koller,
        NIPS 2010): those up to the median, then a limit 1.3 times as high from turn to turn.
      seed: of random completions.
      callback: called after each convex problem with a `LatentTrace` of its row; a true answer ends
        the start.
      checkpoint: a file for the run so far, written after each convex problem, whole or not at all;
        the one before stays as `<checkpoint>.previous`.
      resume: whether to go on with the run of `checkpoint`, where that file is there, to the end
        that it would have had, bit by bit; all other arguments must be those of the run.

    Returns:
      A Solution: weights w, primal J(w), dual the known bound of the optimum of J, gap their
      difference; CONVERGED says that w is a critical point, see message. Its state and certificate
      are of the last convex problem, its details are `LatentDetails`.

    Raises:
      ValueError: an argument does not fit, or an example has no output that agrees.
    """
    stops = tolerance, None, max_passes
    formulation, rules = checked_rules(problem, formulation, C, *stops, settings=settings)
    check_watching(callback, verbose)
    counts = {"max_rounds": max_rounds, "restarts": restarts, "seed": seed}
    _check(problem, outputs, formulation, counts, anneal)
    check_flag("self_paced", self_paced)
    check_checkpoint(checkpoint, 0, resume, problem)
    x, y = some_that_agree(problem, inputs, outputs, example_weights, seed=seed)
    w = None if start is None else weights_of(problem, start)
    if w is not None:
        check_weights(problem, w, "start")
    whole = _whole(outputs)
    v = np.ones(len(whole)) if example_weights is None else np.asarray(example_weights, float)
    finest = FINEST[str(jnp.result_type(*jax.tree.leaves(problem.initial_weights)))]
    options = {"settings": settings, "max_passes": max_passes, "verbose": verbose}
    given = _Given(
        problem, formulation, x, rules.C, v, whole, tolerance, finest, max_rounds, callback,
        options, [], time.perf_counter(),
    )  # fmt: skip
    now, file = Progress(), None
    if checkpoint is not None:
        arguments = counts | {"anneal": list(anneal), "self_paced": self_paced}
        common = in_common(problem, cast(Any, settings), formulation, rules, 1.0) | arguments
        file = LatentFile(checkpoint, run_fingerprint(common, x, y, v, w), y)
        now = file.read(problem) if resume else now
    keep = (lambda now: None) if file is None else file.write
    seeds = tuple(range(seed, seed + restarts + 1))

    def first(number: int) -> Turn:
        return _first(given, y, w, number, seeds[number], anneal, self_paced)

    ended = _starts(given, now, len(seeds), first, keep)
    return _solution(
        given, ended, seeds, _outputs_of(problem, inputs, x, _best(ended).point.outputs)
    )
