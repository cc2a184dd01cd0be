"""Checkpoints of a run of `fit`: where they are, what they hold, and from where a run goes on."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from jaxstruct.core.contract import Problem
from jaxstruct.core.processes import Processes
from jaxstruct.core.types import PyTree
from jaxstruct.solvers.checkpoints.common_rounds import check_number, path_of, read_together
from jaxstruct.solvers.checkpoints.files import Checkpoint, File
from jaxstruct.solvers.checkpoints.resuming import (
    Fingerprint,
    Kept,
    digest_of_tree,
    end_file,
    fingerprint,
    kept_in,
    newest,
    run_file,
)
from jaxstruct.solvers.checkpoints.run_state import file_of, solution_of
from jaxstruct.solvers.checkpoints.writer import CheckpointWriter, prepare_folder
from jaxstruct.solvers.loop.host_loop import Round, RunState, StartCounters
from jaxstruct.solvers.loop.trace import Trace
from jaxstruct.solvers.n_slack.run import Run
from jaxstruct.solvers.solution import Solution


def fingerprint_of(
    common: Fingerprint,
    run: Run,
    example_weights: np.ndarray | None,
    start: Solution | None,
) -> Fingerprint:
    """What decides the numbers of a run of `fit`.

    Args:
      common: of `in_common`. run: with the examples of this process.
      start: what it was started from.
    """
    devices = run.placement.task.terms.cap.devices()
    digests = digest_of_tree(run.task.inputs), digest_of_tree(run.task.outputs)
    return fingerprint(common, devices, *digests, example_weights, start)


class RunKeeping:
    """Where a run keeps its checkpoints, how often, whose they are, and what one held."""

    def __init__(
        self,
        checkpoint: str | os.PathLike,
        seconds: float,
        own: Fingerprint,
        processes: Processes,
    ) -> None:
        """Nothing is read yet; own: the fingerprint of the run."""
        self._checkpoint, self._path = checkpoint, path_of(checkpoint, processes)
        self._seconds, self._own, self._processes = seconds, own, processes
        self.found: Kept | None = None
        processes.agree(lambda: prepare_folder(self._path))

    def read(self, problem: Problem, outputs: PyTree, before: Trace | None) -> None:
        """The run that the checkpoint holds; of several processes the part of this one.

        Args:
          outputs: of one bucket, for their structure. before: the trace that the run continues.

        Raises:
          ValueError: the checkpoint is of another run, or holds none, or is damaged like the one
            before.
        """
        processes = self._processes
        processes.agree(lambda: check_number(self._checkpoint, processes))

        def solution_in(checkpoint: Checkpoint, ended: bool) -> tuple[Solution, Any]:
            solution = solution_of(checkpoint, problem, outputs)
            return solution, solution.state

        def read(path: Path) -> Kept:
            return kept_in(Checkpoint(path), problem, self._own, before, solution_in)

        if not processes.several:
            self.found = newest(self._path, read)
        elif (found := read_together(processes, Path(self._path), read)) is not None:
            self.found = found.kept._replace(damaged=found.newer)

    def writer(self, file: Callable[[RunState, Round], File]) -> CheckpointWriter:
        """What writes checkpoints; file: what is in one."""
        held, damaged = (
            (0, False) if self.found is None else (self.found.round[0], self.found.damaged)
        )
        return CheckpointWriter(self._path, self._seconds, file, self._processes, held, damaged)

    def file_of(self, solution: Solution, now: RunState, counters: StartCounters) -> File:
        """The checkpoint of a run that goes on; solution: with the state of the next round."""
        return run_file(file_of(solution), now, counters, self._own)

    def end_file_of(self, solution: Solution) -> File:
        """The checkpoint of a run that has ended."""
        return end_file(file_of(solution), self._own)
