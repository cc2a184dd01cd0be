"""Programs compiled ahead and timed in turns, so that ratios hold on a machine with other work."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxstruct.core.types import PyTree


class Compiled(NamedTuple):
    """A program for arguments of given shapes.

    Fields:
      call: (*arguments) -> results. seconds: what tracing and compiling it took.
      mebibytes: temporary memory of a call.
    """

    call: Callable[..., PyTree]
    seconds: float
    mebibytes: float


def compile_ahead(function: Callable, *arguments: Any) -> Compiled:
    """`function` compiled for these arguments."""
    start = time.perf_counter()
    program = jax.jit(function).lower(*arguments).compile()
    seconds = time.perf_counter() - start
    memory = program.memory_analysis()
    assert memory is not None, "this backend does not report its memory"
    return Compiled(program, seconds, memory.temp_size_in_bytes / 2**20)


def in_turns(calls: Sequence[Callable[[], PyTree]], repeats: int) -> np.ndarray:
    """[repeats, programs, 2] wall and processor seconds of one call each, turn by turn.

    Every timed call follows one that is not timed; so does the first turn the whole.
    """
    turns = [[_seconds(call) for call in calls] for _ in range(repeats + 1)]
    return np.asarray(turns)[1:]


def _seconds(call: Callable[[], PyTree]) -> tuple[float, float]:
    jax.block_until_ready(call())
    wall, processor = time.perf_counter(), time.process_time()
    jax.block_until_ready(call())
    return time.perf_counter() - wall, time.process_time() - processor
