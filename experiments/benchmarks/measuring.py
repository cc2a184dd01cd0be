"""One part of a row, in the process that measures it: our fits, or a peer's."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax

from experiments.lib.record import peak_memory_bytes
from experiments.tasks.work import Tool, Work
from jaxstruct import Solution
from jaxstruct.core.compiling import compile_clock, programs_traced
from jaxstruct.core.feature_encoding import UnseenFeatures
from jaxstruct.core.status import Status


def fits(work: Work) -> dict[str, Any]:
    """The first training of this process, and the same once more."""
    warnings.simplefilter("ignore", UnseenFeatures)
    jax.block_until_ready(jax.numpy.zeros(1))  # the backend's own start is no part of a fit
    memory, programs = peak_memory_bytes(), programs_traced()
    model, numbers = _timed(work.ours)
    numbers |= {"memory_before": memory, "programs": programs_traced() - programs}
    numbers |= _ends(work.solutions(model))
    programs = programs_traced()
    _, again = _timed(work.ours)
    return numbers | {
        "again": again["seconds"], "again_everything": again["everything"],
        "again_programs": programs_traced() - programs,
    }  # fmt: skip


def peer(work: Work, name: str) -> dict[str, Any]:
    """The peer's training; nan where its package is missing."""
    try:
        tool = work.peers[name]()
    except ImportError:
        return {"seconds": math.nan, "everything": math.nan, "score": None}
    memory = peak_memory_bytes()
    return _timed(tool)[1] | {"memory_before": memory}


def published(seconds: float) -> dict[str, Any]:
    """The numbers of a peer of which only the seconds are known."""
    return {"seconds": seconds, "everything": seconds, "score": None, "peak_memory": None}


def _timed(tool: Tool) -> tuple[Any, dict[str, Any]]:
    """(the model, the seconds of its training and the processor seconds with its score)."""
    compiling, wall, start = compile_clock().read(), time.perf_counter(), time.process_time()
    model = tool.train()
    numbers: dict[str, Any] = {
        "seconds": time.process_time() - start, "wall": time.perf_counter() - wall,
        "compiling": compile_clock().read().process - compiling.process,
    }  # fmt: skip
    numbers["score"] = tool.score and tool.score(model)
    return model, numbers | {"everything": time.process_time() - start}


def _ends(solutions: Sequence[Solution]) -> dict[str, Any]:
    """How trainings ended: sums, and the first status that is not CONVERGED."""

    def total(of: Callable[[Solution], Any]) -> Any:
        return sum(map(of, solutions))

    unsolved = [each.status for each in solutions if each.status is not Status.CONVERGED]
    return {
        "status": [*unsolved, Status.CONVERGED][0] if solutions else None,
        "primal": total(lambda each: each.primal), "dual": total(lambda each: each.dual),
        "passes": total(lambda each: each.statistics.passes),
        "oracle_calls": total(lambda each: each.statistics.oracle_calls),
        "capacity": max((each.statistics.capacity for each in solutions), default=0),
    }  # fmt: skip
