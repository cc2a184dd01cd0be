"""The wall seconds of the parts of a run."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax

from jaxstruct.core.compile_clock import compile_clock

COMPILE = "compile"
"""The part of a run that is neither training nor certifying."""


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
