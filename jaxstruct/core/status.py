"""How a run of any solver ended."""

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
