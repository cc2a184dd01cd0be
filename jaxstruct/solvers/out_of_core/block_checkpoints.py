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
from jaxstruct.solvers.checkpoints.files import Checkpoint, File, arrays_of, header_of, previous_of
from jaxstruct.solvers.checkpoints.resuming import (
    Fingerprint,
    Kept,
    end_file,
    kept_in,
    newest,
    run_file,
)
from jaxstruct.solvers.checkpoints.run_state import found_file, found_in
from jaxstruct.solvers.checkpoints.writer import CheckpointWriter
from jaxstruct.solvers.loop.host_loop import Round, RunState, StartCounters
from jaxstruct.solvers.memory import Memory
from jaxstruct.solvers.out_of_core.block_state import BlockDetails, BlockState
from jaxstruct.solvers.out_of_core.plane_cache import Held, PlaneCache, names_in
from jaxstruct.solvers.solution import Solution

KIND = "blocks"
_HELD = ("name", "digest", "planes", "carrying")
_STATE = ("clock", "capacity")


def planes_folder(path: str | os.PathLike) -> Path:
    """Where the planes of a checkpoint lie."""
    path = Path(path)
    return path.with_name(path.name + ".planes")


def _run_state_file(now: RunState, state: BlockState, cache: PlaneCache) -> File:
    """What a run goes on from; its planes are put into files on the disk."""
    contents = cache.in_files(state.planes)
    planes = [held and {name: getattr(held, name) for name in _HELD} for held in contents]
    own = {"state": {name: getattr(state, name) for name in _STATE}, "planes": planes}
    arrays = arrays_of(".weights", now.best.weights) | arrays_of(".state.weights", state.weights)
    return header_of(KIND, state.weights) | own, arrays


def _solution_file(solution: Solution) -> File:
    header, arrays = found_file(KIND, solution)
    blocks, memory = solution.details
    own = {"blocks": blocks, "memory": memory._asdict()}
    return header | own | {"planes": []}, arrays


def _names(path: Path) -> set[str]:
    """The files of planes that a checkpoint names; none where it cannot be read."""
    try:
        named = Checkpoint(path, "no array has such a name").header.get("planes")
    except (OSError, ValueError):
        return set()
    return {each["name"] for each in named or () if each is not None}


class BlockKeeping:
    """Where a training in blocks keeps its checkpoints, and what one held."""

    def __init__(
        self,
        path: str | os.PathLike,
        seconds: float,
        own: Fingerprint,
        problem: Problem,
        cache: PlaneCache,
    ) -> None:
        """Nothing is read yet; seconds: between two. own: the fingerprint of the run."""
        self._path, self._seconds, self._own = Path(path), seconds, own
        self._problem, self._cache = problem, cache
        self._named = _names(self._path) | _names(previous_of(path))

    def read(self) -> Kept | None:
        """The run that the checkpoint holds, or the one before it; its planes are in the cache.

        Raises:
          ValueError: as `resuming.newest`; a file of planes may be what is damaged.
        """

        def whole(path: Path) -> Kept:
            return kept_in(Checkpoint(path), self._problem, self._own, None, self._found)

        return newest(self._path, whole)

    def _found(self, checkpoint: Checkpoint, ended: bool) -> tuple[Any, Any]:
        if ended:
            memory = Memory(**checkpoint.record("memory", Memory._fields))
            found, blocks = found_in(checkpoint, self._problem), checkpoint.entry("blocks", int)
            return Solution(**found, details=BlockDetails(blocks, memory)), None
        contents = tuple(
            None if each is None else Held(None, **each)
            for each in checkpoint.entry("planes", list)
        )
        self._cache.put_back(contents)
        weights = checkpoint.weights(".state.weights", self._problem)
        numbers = checkpoint.record("state", _STATE)
        return None, BlockState(weights, **numbers, planes=contents)

    def writer(self, counters: StartCounters, found: Kept | None, method: Any) -> CheckpointWriter:
        """What writes checkpoints; found: of `read`."""

        def file(now: RunState, last: Round) -> File:
            state = method.adapt(now.state, last)
            return run_file(_run_state_file(now, state, self._cache), now, counters, self._own)

        held, damaged = (0, False) if found is None else (found.round[0], found.damaged)
        return CheckpointWriter(
            self._path, self._seconds, file, held=held, damaged=damaged, in_place=self._renamed
        )

    def end_file(self, solution: Solution) -> File:
        """The checkpoint of a run that has ended."""
        return end_file(_solution_file(solution), self._own)

    def _renamed(self, file: File) -> None:
        self._named = _names(self._path) | _names(previous_of(self._path))

    def tidy(self, ended: bool = False) -> None:
        """Remove the planes that nobody will ask for; ended: those of the run, too."""
        self._cache.keep_only(self._named | (set() if ended else names_in(self._cache.contents)))
        if ended:
            with contextlib.suppress(OSError):  # not empty: the checkpoint before has planes
                planes_folder(self._path).rmdir()
