"""The checkpoints of one run, of `fit` or in blocks: from where it goes on, and what is written."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jaxstruct.core.contract import Problem
from jaxstruct.core.processes import Processes
from jaxstruct.core.status import Status
from jaxstruct.solvers.checkpoints import resuming
from jaxstruct.solvers.checkpoints.run_state import Checkpoint, File
from jaxstruct.solvers.checkpoints.writer import CheckpointWriter, prepare_folder
from jaxstruct.solvers.loop.host_loop import (
    Method,
    Progress,
    Round,
    Rules,
    RunState,
    StartCounters,
    solve,
)
from jaxstruct.solvers.loop.stop_signals import raise_together, stop_signals
from jaxstruct.solvers.loop.trace import Trace
from jaxstruct.solvers.solution import Solution


class Content:
    """What the files of a kind of run hold; each kind derives one."""

    def running(self, method: Method, now: RunState, last: Round, counters: StartCounters) -> File:
        """What a run goes on from after its last round."""
        raise NotImplementedError

    def ended(self, solution: Solution) -> File:
        """What a run has found that has ended."""
        raise NotImplementedError

    def read(self, checkpoint: Checkpoint, ended: bool) -> tuple[Any, Any]:
        """(solution, state) of a file; ended: of `ended`, else of `running`."""
        raise NotImplementedError

    def written(self) -> None:
        """A file has taken its place."""

    def tidy(self, ended: bool = False) -> None:
        """Remove what no file names; after each round, and after the end."""


class CheckpointSession:
    """Where a run keeps its checkpoints, how often, whose they are, and what one held."""

    def __init__(
        self,
        checkpoint: str | os.PathLike,
        seconds: float,
        own: resuming.Fingerprint,
        content: Content,
        processes: Processes,
    ) -> None:
        """Nothing is read yet; own: the fingerprint of the run."""
        self._checkpoint, self._path = checkpoint, resuming.path_of(checkpoint, processes)
        self._seconds, self._own, self._processes = seconds, own, processes
        self._content = content
        self.found: resuming.Kept | None = None
        processes.agree(lambda: prepare_folder(self._path))

    def read(self, problem: Problem, before: Trace | None = None) -> None:
        """Find the run that the checkpoint holds; of several processes the part of this one.

        Args:
          before: the trace that the run continues.

        Raises:
          ValueError: the checkpoint is of another run, or holds none, or is damaged like the one
            before.
        """
        processes = self._processes
        processes.agree(lambda: resuming.check_number(self._checkpoint, processes))

        def read(path: Path) -> resuming.Kept:
            return resuming.kept_in(
                Checkpoint(path), problem, self._own, before, self._content.read
            )

        self.found = resuming.last_whole(processes, self._path, read)

    def solve(
        self,
        method: Method,
        first: RunState,
        rules: Rules,
        counters: StartCounters,
        notify: Callable[[Progress], bool | None],
        solution_of: Callable[[RunState, Status], Solution],
    ) -> Solution:
        """The host loop with checkpoints after rounds, at the end, and where it is stopped.

        Args:
          method, first, rules, counters, notify: of `host_loop.solve`.
          solution_of: what its end says.
        """

        def file(now: RunState, last: Round) -> File:
            return resuming.run_file(
                content.running(method, now, last, counters), now, counters, self._own
            )

        content, processes, found = self._content, self._processes, self.found
        held, damaged = (0, False) if found is None else (found.round[0], found.damaged)
        writer = CheckpointWriter(
            self._path, self._seconds, file, processes, held, damaged, content.written
        )
        content.tidy()
        with stop_signals(patient=processes.several) as signals:

            def keep(now: RunState, last: Round) -> None:
                writer.keep(now, last)
                content.tidy()
                raise_together(processes, signals)

            with writer.stopped_by(signals.meant):
                end = solve(method, first, rules, counters, notify, keep)
                solution = solution_of(*end)
                stopped = (
                    solution.status is Status.STOPPED
                )  # it may go on, without this certificate
                own = None if stopped else content.ended(solution)._replace(fingerprint=self._own)
                writer.end(own, solution.statistics.passes)
                content.tidy(ended=not stopped)
        return solution
