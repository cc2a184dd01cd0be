"""What a run returns: weights, dual variables, certificate, status; and what it says of them."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxstruct.core.checks import shown
from jaxstruct.core.types import PyTree
from jaxstruct.solvers.certificate import Certificate
from jaxstruct.solvers.cutting_plane import State
from jaxstruct.solvers.task import bucket_slices


class Status(enum.IntEnum):
    """How a run ended; it prints as its name."""

    CONVERGED = 0
    EPSILON = 1
    PASS_LIMIT = 2
    WORKING_SET_FULL = 3
    NOT_SEPARABLE = 4
    NOT_FINITE = 5
    STOPPED = 6
    ROUNDING = 7

    @property
    def solved(self) -> bool:
        """Whether one of the two stopping rules was met."""
        return self in (Status.CONVERGED, Status.EPSILON)

    def __str__(self) -> str:
        """The name."""
        return self.name

    def __format__(self, spec: str) -> str:
        """The name, formatted as a string."""
        return format(self.name, spec)


MESSAGES = {
    Status.CONVERGED: "the relative duality gap is within the tolerance",
    Status.EPSILON: "no constraint is violated by more than epsilon over the working sets",
    Status.PASS_LIMIT: (
        "max_passes was reached first: raise it, loosen tolerance or epsilon, or use float64 (at a "
        "large C the rounding of float32 shows in the primal)"
    ),
    Status.WORKING_SET_FULL: "a working set is full: raise settings.max_capacity or epsilon",
    Status.NOT_SEPARABLE: (
        "the training set cannot be separated with a geometric margin above the bound in "
        "certificate.margin_bound: use a soft margin (svm1, svm2), or lower min_margin"
    ),
    Status.NOT_FINITE: "the iterate is not finite: check the scale of the inputs, or use float64",
    Status.ROUNDING: (
        "rounding hides whether the gap is within the tolerance (see certificate.rounding), or the "
        "dual exceeds the primal by more than it allows, so nothing is certified: use float64, a "
        "C and inputs of a common scale, or a looser tolerance"
    ),
    Status.STOPPED: "the callback asked to stop",
}


class Trace(NamedTuple):
    """The course of a training, one entry a round: seven columns of one length R.

    Fields:
      seconds: [R] float64, since the start. primal, dual: [R] float64, the best certified so far.
      planes_added, oracle_calls: [R] int64, in this round.
      round_primal, round_dual: [R] float64, of the round itself: certified ones, or what the calls
        of its exact pass, each at the w that it met, add up to, which proves nothing.
    """

    seconds: np.ndarray
    primal: np.ndarray
    dual: np.ndarray
    planes_added: np.ndarray
    oracle_calls: np.ndarray
    round_primal: np.ndarray
    round_dual: np.ndarray


TRACE_DTYPES = Trace("f8", "f8", "f8", "i8", "i8", "f8", "f8")


def trace_of(rounds: Sequence[Trace], before: Trace | None = None) -> Trace:
    """The columns of a run from its rounds.

    Args:
      rounds: one Trace of numbers a round.
      before: the trace of the run that this one goes on from; its rounds come first, and seconds
        count on from its last.
    """
    columns = zip(*rounds, strict=True) if rounds else ((),) * len(Trace._fields)
    own = Trace(*map(np.asarray, columns, TRACE_DTYPES))
    if before is None:
        return own
    own = own._replace(seconds=own.seconds + np.max(before.seconds, initial=0.0))
    return Trace(*(np.concatenate(pair) for pair in zip(before, own, strict=True)))


class Statistics(NamedTuple):
    """Counts and times of a run.

    Counts are of this run alone, but for what its end holds: planes_kept, support_planes, capacity.

    Fields:
      passes: rounds. oracle_calls: of single examples, certifying ones included; examples of weight
        0, rows of padding and the pass that takes up a `start` are not counted.
      planes_added, planes_evicted: cutting planes that this run put into the working sets, and that
        it took out of them to make room. (Of enumerated working sets, which hold every output from
        the start, a plane is added when its multiplier is positive for the first time.)
      planes_kept: planes at the end: those of a `start`, if there was one, + planes_added -
        planes_evicted. support_planes: those of them of multiplier > 0.
      capacity: slots an example at the end.
      compilations: programs of the solver traced and compiled during the run.
      seconds: wall seconds of the run by part (oracle, sweeps, newton, certify, total); a part's
        first call holds its compilation.
      history: the course, round by round; after a `start` of the same C with the rounds of the
        run before in front, so that the last `passes` entries are this run's.
    """

    passes: int
    oracle_calls: int
    planes_added: int
    planes_kept: int
    planes_evicted: int
    support_planes: int
    capacity: int
    compilations: int
    seconds: dict[str, float]
    history: Trace


def summary(solution: Any, passes: int, planes: int) -> str:
    """A solution of any of the solvers in one line, without its arrays."""

    def number(value: Any) -> str:
        return f"{value:.6g}" if isinstance(value, (int, float)) else shown(value)

    numbers = (f"{name}={number(getattr(solution, name))}" for name in ("primal", "dual", "gap"))
    return (
        f"{type(solution).__name__}(status={solution.status}, "
        f"formulation={solution.formulation!r}, C={number(solution.C)}, {', '.join(numbers)}, "
        f"passes={number(passes)}, planes={number(planes)})"
    )


class Solution(NamedTuple):
    """The result of `fit`.

    Fields:
      weights: w of the best primal found. status, message: how it ended.
      primal, dual, gap: best P, best D and P - D; P >= optimum >= D given an exact oracle, up to
        certificate.rounding.
      certificate: of the last certified round. slack: [n] its xi_i.
      rows: [N] the example of every row of the state, -1 where it is padding.
      statistics: counts and times.
      formulation, C: what was solved. state: to go on from (dual variables and working sets).
    """

    weights: PyTree
    status: Status
    message: str
    primal: float
    dual: float
    gap: float
    certificate: Certificate
    slack: np.ndarray
    rows: np.ndarray
    statistics: Statistics
    formulation: str
    C: float
    state: State

    def __repr__(self) -> str:
        """One line without the arrays."""
        return summary(self, self.statistics.passes, self.statistics.planes_kept)


class SupportOutputs(NamedTuple):
    """The support vectors of a structural SVM: pairs (example, output) with alpha > 0.

    Fields:
      example: [M] positions in the training set.
      output: one pytree of [M_b, ...] a bucket, the M pairs being sorted by bucket (of a training
        set that was given without buckets: the one pytree).
      alpha: [M] dual variables of the thesis (s beta). loss: [M] Delta(y_i, y).
      slack: [M] xi_i of the example.
    """

    example: np.ndarray
    output: PyTree
    alpha: np.ndarray
    loss: np.ndarray
    slack: np.ndarray


def support_outputs(solution: Solution) -> SupportOutputs:
    """Which outputs carry the solution, example by example (thesis 3.5: a sparse solution)."""
    sets, rows = solution.state.sets, solution.rows
    row, slot = np.nonzero((np.asarray(sets.multipliers) > 0) & (rows >= 0)[:, None])
    example = rows[row]

    def pick(leaf: np.ndarray) -> np.ndarray:
        return np.asarray(leaf)[row, slot]

    outputs = []
    for bucket, own in zip(sets.outputs, bucket_slices(sets.outputs), strict=True):
        inside = (row >= own.start) & (row < own.stop)
        at = (row[inside] - own.start, slot[inside])
        outputs.append(jax.tree.map(lambda leaf, at=at: np.asarray(leaf)[at], bucket))
    return SupportOutputs(
        example=example,
        output=outputs[0] if len(outputs) == 1 else tuple(outputs),
        alpha=pick(sets.multipliers) * pick(sets.scales),
        loss=pick(sets.losses),
        slack=solution.slack[example],
    )
