"""How long jax has spent on tracing, lowering and compiling, apart from running."""

from __future__ import annotations

import time
from functools import cache
from typing import NamedTuple

import jax

from experiments.lib.record import Elapsed

COMPILING = "/jax/core/compile/"
"""How the names of jax's events of these kinds start."""


class _Interval(NamedTuple):
    """When it began, and its seconds."""

    start: float
    wall: float
    process: float


class CompileClock:
    """Wall and processor seconds of all compiling since the clock was made.

    jax tells the wall seconds of an interval when it ends; one within another counts once. An
    interval has as many processor seconds to a wall second as the process has had since the
    interval before it ended.
    """

    def __init__(self) -> None:
        """Start to listen."""
        self._intervals: list[_Interval] = []
        self._last = Elapsed(time.perf_counter(), time.process_time())
        jax.monitoring.register_event_duration_secs_listener(self._heard)

    def _heard(self, event: str, duration_secs: float, **_: str | int) -> None:
        if not event.startswith(COMPILING):
            return
        seconds = duration_secs
        now = Elapsed(time.perf_counter(), time.process_time())
        start, wall, process = now.wall - seconds, 0.0, 0.0
        while self._intervals and self._intervals[-1].start >= start:
            inner = self._intervals.pop()
            wall, process = wall + inner.wall, process + inner.process
        between = max(now.wall - self._last.wall, 1e-9)
        process += (seconds - wall) * (now.process - self._last.process) / between
        self._intervals.append(_Interval(start, seconds, process))
        self._last = now

    def read(self) -> Elapsed:
        """The seconds so far."""
        return Elapsed(
            sum(interval.wall for interval in self._intervals),
            sum(interval.process for interval in self._intervals),
        )


@cache
def compile_clock() -> CompileClock:
    """The clock of this process; jax's listeners cannot be taken away, so there is but one."""
    return CompileClock()
