"""How a run of any solver ended, and what to do about it."""

from __future__ import annotations

import enum


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
    INEXACT_ORACLE = 8
    WRONG_ORACLE = 9
    NOT_OPTIMAL = 10

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
        "rounding hides whether the gap is within the tolerance (see certificate.rounding), the "
        "dual exceeds the primal by more than it allows, or 20 rounds changed neither: use "
        "float64, a C and inputs of a common scale, or a looser tolerance"
    ),
    Status.STOPPED: "the callback asked to stop",
    Status.INEXACT_ORACLE: (
        "the oracle is inexact and finds nothing more: the result is as good as its answers; gap "
        "counts the bounds that it gives (infinite where it gives none), certificate.primal_found "
        "its answers alone"
    ),
    Status.WRONG_ORACLE: (
        "an output violates more than the oracle said to be possible, so that primal is no bound: "
        "correct the oracle (jaxstruct.check_problem says more), or let it return a Bounded"
    ),
    Status.NOT_OPTIMAL: (
        "training has solved the problem, but the gap of these weights is above the tolerance: "
        "their primal exceeds the optimum by at least primal - attained and at most gap"
    ),
}
