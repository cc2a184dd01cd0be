"""Checkpoints of a run that goes on: what it has so far, in one file, from time to time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from jaxstruct.core.checks import checked_number, text_of
from jaxstruct.core.contract import Problem
from jaxstruct.solvers.checkpoint_files import arrays_of
from jaxstruct.solvers.checkpoints import save_solution
from jaxstruct.solvers.host_loop import Standing
from jaxstruct.solvers.solution import Solution

GOES_ON = "kept on the way: fit(..., start=load_solution(path, problem)) goes on from it"
"""The message of a solution that a checkpoint holds before the run has ended."""


def check_checkpoint(path: Any, seconds: Any, problem: Problem) -> None:
    """Raise ValueError unless checkpoints of the problem can be written to the path.

    Args:
      path: of the file, or None for no checkpoints. seconds: between two of them.
      problem: its weights must be of number types that a file can hold.
    """
    checked_number("checkpoint_seconds", seconds)
    if path is None:
        return
    if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
        raise ValueError(f"checkpoint must be the path of a file, got {text_of(path)}")
    if Path(path).is_dir():
        raise ValueError(f"checkpoint {os.fspath(path)} is a folder: name a file in it")
    arrays_of(".weights", problem.initial_weights)


class Keeper:
    """Writes a checkpoint after a round, once so many seconds have passed since the last one."""

    def __init__(
        self,
        path: str | os.PathLike,
        seconds: float,
        solution_of: Callable[[Standing], Solution],
    ) -> None:
        """Start to count.

        Args:
          path: of the file; another one takes its place whole, never a part.
          seconds: between the end of one and the beginning of the next.
          solution_of: what a run that stands there has so far.
        """
        self._path, self._seconds, self._solution_of = path, seconds, solution_of
        self._last = time.monotonic()
        self._standing: Standing | None = None

    def keep(self, now: Standing) -> None:
        """Write what there is where it is time."""
        self._standing = now
        if time.monotonic() - self._last >= self._seconds:
            self.write()

    def write(self) -> None:
        """Write what there was after the last round, if there was one."""
        if self._standing is not None:
            self.write_end(self._solution_of(self._standing))
            self._last, self._standing = time.monotonic(), None

    def write_end(self, solution: Solution) -> None:
        """Write a solution."""
        save_solution(self._path, jax.block_until_ready(solution))
