"""The checkpoints of a run, of `fit` or in blocks: from where it goes on, what is written, when."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from jaxstruct.core.caller import warn
from jaxstruct.core.contract import Problem
from jaxstruct.core.files import remove_leftovers
from jaxstruct.core.processes import ALONE, Processes, RefusedElsewhere
from jaxstruct.core.status import Status
from jaxstruct.solvers.checkpoints import resuming
from jaxstruct.solvers.checkpoints.run_state import Checkpoint, File, previous_of, write_checkpoint
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

CHECKPOINT = "checkpoint"
"""The part of a run's seconds that checkpoints take."""

GOES_ON = (
    "kept on the way: fit(..., checkpoint=path, resume=True) goes on with the run, "
    "fit(..., start=load_solution(path, problem)) starts another from it"
)
"""The message of a solution that a checkpoint holds before the run has ended."""


def prepare_folder(path: str | os.PathLike) -> None:
    """Make the folder of a checkpoint, and remove what killed runs left half-written there.

    Raises:
      OSError: nothing can be written there.
    """
    folder = Path(path).parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            remove_leftovers(path)
    except OSError as error:
        fault = f"checkpoint: nothing can be written to the folder {str(folder)!r}"
        raise OSError(error.errno, f"{fault}: {error.strerror}") from None


class CheckpointWriter:
    """Writes a checkpoint after a round, once so many seconds have passed since the last one.

    The one before is kept beside it. What cannot be written is a warning, and the run goes
    on: the file stays as it was.

    Several processes write a file each, of the same round, when it is time for the first one. Each
    file takes its place once all are whole, so that no process is ever more than one checkpoint
    ahead of another.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        seconds: float,
        file_of: Callable[[RunState, Round], File],
        processes: Processes = ALONE,
        held: int = 0,
        damaged: bool = False,
        in_place: Callable[[], None] = lambda: None,
    ) -> None:
        """Start to count.

        Args:
          path: of the file; another one takes its place whole, never a part.
          seconds: between the end of one and the beginning of the next.
          file_of: what a run that stands there after a round has so far.
          processes: that keep theirs together.
          held: how many rounds the file holds of this run. damaged: whether what is there now is
            not worth to be kept beside the next one.
          in_place: is called once a file is in its place.
        """
        self._path, self._seconds, self._file_of = path, seconds, file_of
        self._processes, self._held, self._damaged = processes, held, damaged
        self._in_place = in_place
        self._last, self._warned = time.monotonic(), False
        self._unwritten: tuple[RunState, Round] | None = None

    def keep(self, now: RunState, found: Round) -> None:
        """Write what there is where it is time."""
        # the loop fills these two in place, and may be interrupted in the middle of a round
        self._unwritten = now._replace(seconds=dict(now.seconds), log=list(now.log)), found
        start = time.monotonic()
        due = start - self._last >= self._seconds
        if not self._processes.gather_numbers([due])[0, 0]:
            return
        failed = self._write()
        if failed is not None and not self._warned:
            self._warn(f"after round {len(now.log)} ({failed}). The run goes on")
        self._last, self._warned = time.monotonic(), failed is not None
        now.seconds[CHECKPOINT] = now.seconds.get(CHECKPOINT, 0.0) + self._last - start

    def end(self, file: File | None, rounds: int) -> None:
        """Write the end of a run; None for its last round, from which it may go on."""
        failed = self._write() if file is None else self._put(lambda: file, rounds)
        if failed is not None:
            self._warn(f"at the end of the run ({failed}). Keep its solution by save_solution")

    def stop(self, error: BaseException) -> None:
        """Write the last whole round, and add to what ended the run where it is.

        Where the interpreter ends without a word, standard error has them. Of several processes
        each may be in another round: they write where all of them have met this error.
        """
        alone = self._processes.several and error is not self._processes.settled
        words = self._words_of_file("") if alone else self._last_words()
        error.add_note(words)
        if isinstance(error, SystemExit):
            sys.stderr.write(f"{words}\n")

    @contextlib.contextmanager
    def stopped_by(self, meant: Callable[[BaseException], BaseException]) -> Iterator[None]:
        """Within, `stop` is called with what ends the run; meant: of `StopSignals`."""
        try:
            yield
        except BaseException as error:
            ended_by = meant(error)
            self.stop(ended_by)
            if ended_by is error:
                raise
            raise ended_by from error

    def _last_words(self) -> str:
        try:
            failed = self._write()
        except Exception as other:  # what ended the run is worth more than why this failed
            failed = other
        what = "" if failed is None else f"The last rounds could not be kept ({failed}). "
        return self._words_of_file(what)

    def _words_of_file(self, what: str) -> str:
        if not self._held:
            return f"{what}{os.fspath(self._path)} holds nothing of this run yet"
        return (
            f"{what}{os.fspath(self._path)} holds this run after round {self._held}; "
            "the same call with resume=True goes on from there"
        )

    def _write(self) -> Exception | None:
        """Write what there was after the last round, if that is not done; or say why it failed."""
        if self._unwritten is None:
            return None
        now, found = self._unwritten
        failed = self._put(lambda: self._file_of(now, found), len(now.log))
        if failed is None:
            self._unwritten = None
        return failed

    def _put(self, make: Callable[[], File], rounds: int) -> Exception | None:
        previous, agreed = None if self._damaged else previous_of(self._path), []

        def ready() -> None:
            agreed.append(True)
            self._processes.agree(lambda: None)

        try:
            write_checkpoint(self._path, make(), previous, ready)
        except RefusedElsewhere as error:  # another one could not write its own
            return error
        except OSError as error:
            if not agreed:
                self._processes.fail(error)
            return error
        self._held, self._damaged = rounds, False
        self._in_place()
        return None

    def _warn(self, what: str) -> None:
        path, held = os.fspath(self._path), f"round {self._held}" if self._held else "nothing"
        words = f"checkpoint {path} could not be written {what}; the file holds {held} of this run"
        warn(words, RuntimeWarning)


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
