"""Checkpoints of a training in blocks: a file as that of `fit`, and a folder of planes beside it.

The file `run.npz` names the files of `run.npz.planes` that hold the working sets of its round, each
with its sha256. These are written first and never changed; what neither `run.npz` nor the one
before it names is removed. So a kill at any moment leaves a whole round.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

from jaxstruct.core.contract import Problem
from jaxstruct.solvers.checkpoints.files import Checkpoint, File, previous_of
from jaxstruct.solvers.checkpoints.run_state import found_in
from jaxstruct.solvers.checkpoints.session import Content
from jaxstruct.solvers.loop.host_loop import Method, Round, RunState, StartCounters
from jaxstruct.solvers.out_of_core.plane_cache import PlaneCache, names_in
from jaxstruct.solvers.solution import Solution

KIND = "blocks"


def planes_folder(path: str | os.PathLike) -> Path:
    """Where the planes of a checkpoint lie."""
    path = Path(path)
    return path.with_name(path.name + ".planes")


def _names(path: Path) -> set[str]:
    """The files of planes that a checkpoint names; none where it cannot be read."""
    try:
        state = Checkpoint(path, "state").part("state")
    except (OSError, ValueError):
        return set()
    return set() if state is None else names_in(state.planes)


class BlockContent(Content):
    """What the files of a training in blocks hold; its planes are beside them."""

    def __init__(self, path: str | os.PathLike, problem: Problem, cache: PlaneCache) -> None:
        """Nothing is read yet."""
        self._path, self._problem, self._cache = Path(path), problem, cache
        self.written()

    def running(self, method: Method, now: RunState, last: Round, counters: StartCounters) -> File:
        """The weights of the run; its planes are put into files on the disk."""
        state = now.state if method.adapt is None else method.adapt(now.state, last)
        state = state._replace(planes=self._cache.in_files(state.planes))
        return File(KIND, now.best.weights, state=state)

    def ended(self, solution: Solution) -> File:
        """The solution, without planes."""
        return File(KIND, solution.weights, solution)

    def read(self, checkpoint: Checkpoint, ended: bool) -> tuple[Any, Any]:
        """(solution, state); the planes of a run that goes on are put in the cache."""
        if ended:
            return found_in(checkpoint, self._problem), None
        state = checkpoint.part("state", self._problem.initial_weights)
        self._cache.put_back(state.planes)
        return None, state

    def written(self) -> None:
        """Note which planes the files name."""
        self._named = _names(self._path) | _names(previous_of(self._path))

    def tidy(self, ended: bool = False) -> None:
        """Remove the planes that nobody will ask for; ended: those of the run, too."""
        self._cache.keep_only(self._named | (set() if ended else names_in(self._cache.contents)))
        if ended:
            with contextlib.suppress(OSError):  # not empty: the checkpoint before has planes
                planes_folder(self._path).rmdir()
