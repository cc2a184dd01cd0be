"""The seconds of a run by part: tracing, lowering and compiling apart from running."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import jax

from jaxstruct.core.compiler import COMPILING

COMPILE = "compile"
"""The part of a run that is neither training nor certifying."""


class Elapsed(NamedTuple):
    """Seconds: `wall` by the clock, `process` of all threads' processor time together."""

    wall: float
    process: float


class _Interval(NamedTuple):
    """When it began, and its seconds."""

    start: float
    wall: float
    process: float


class CompileClock:
    """Wall and processor seconds of all compiling since the clock was made.

    jax reports the wall seconds of an interval when it ends; one within another counts once. An
    interval has as many processor seconds to a wall second as the process has had since the
    interval before it ended. A program that is read from the disk counts with what that takes.
    """

    def __init__(self) -> None:
        """Start to listen."""
        self._intervals: list[_Interval] = []
        self._sum = Elapsed(0.0, 0.0)
        self._last = Elapsed(time.perf_counter(), time.process_time())
        self._lock = threading.Lock()
        jax.monitoring.register_event_duration_secs_listener(self._heard)

    def _heard(self, event: str, duration_secs: float, **_: str | int) -> None:
        if event.startswith(COMPILING):
            with self._lock:
                self._add(duration_secs)

    def _add(self, seconds: float) -> None:
        """An interval of so many seconds that ends now, in place of those within it."""
        now = Elapsed(time.perf_counter(), time.process_time())
        start, wall, process = now.wall - seconds, 0.0, 0.0
        while self._intervals and self._intervals[-1].start >= start:
            inner = self._intervals.pop()
            wall, process = wall + inner.wall, process + inner.process
        between = max(now.wall - self._last.wall, 1e-9)
        more = (seconds - wall) * (now.process - self._last.process) / between
        self._intervals.append(_Interval(start, seconds, process + more))
        self._sum = Elapsed(self._sum.wall + seconds - wall, self._sum.process + more)
        self._last = now

    def read(self) -> Elapsed:
        """The seconds so far."""
        return self._sum


@cache
def compile_clock() -> CompileClock:
    """The clock of this process, which has run since this was first called.

    There is but one: jax has no open way to take a listener away.
    """
    return CompileClock()


def time_part(seconds: dict[str, float], name: str, run: Callable[[], Any]) -> Any:
    """What `run` returns, once it is there; its wall seconds are added under `name`.

    Those of compiling are added under "compile" instead.
    """
    clock = compile_clock()
    start, compiled = time.perf_counter(), clock.read().wall
    result = jax.block_until_ready(run())
    compiling = clock.read().wall - compiled
    running = max(0.0, time.perf_counter() - start - compiling)
    seconds[name] = seconds.get(name, 0.0) + running
    if compiling:
        seconds[COMPILE] = seconds.get(COMPILE, 0.0) + compiling
    return result
