"""The checkpoints of a run, of `fit` or in blocks: from where it goes on, what is written, when.

Ctrl-C and SIGTERM during a run that keeps checkpoints: both raise, and neither is lost. Python
raises wherever the program happens to be. Where that is a callback of the interpreter itself, such
as one of a weak reference, the exception is printed and forgotten; where JAX compares the static
arguments of a program, it becomes a ValueError. So a signal is noted as well, and the run asks
after each round, and when it ends by an error.

Of several processes that train together none may leave the others in the middle of a round. There a
signal is noted only, and the round after which all raise is the one that all are in.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from jaxstruct.core.checks import warn
from jaxstruct.core.contract import Problem
from jaxstruct.core.files import remove_leftovers
from jaxstruct.core.processes import Processes, RefusedElsewhere
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
    begin,
    solve,
)
from jaxstruct.solvers.loop.trace import Trace
from jaxstruct.solvers.solution import Solution


class StopSignals:
    """What has been asked of a run. noted: the last signal, as what it raises, or None."""

    def __init__(self, patient: bool = False) -> None:
        """Nothing yet; patient: whether the first signal waits for the end of the round."""
        self._patient = patient
        self.noted: BaseException | None = None

    def raise_noted(self) -> None:
        """Raise what was noted and lost, if anything.

        Raises:
          KeyboardInterrupt: Ctrl-C. SystemExit: SIGTERM.
        """
        if self.noted is not None:
            raise self.noted

    def meant(self, error: BaseException) -> BaseException:
        """What ended the run: the signal, where other code has made an error of its exception."""
        if self.noted is None or self._patient:
            return error
        return error if isinstance(error, (KeyboardInterrupt, SystemExit)) else self.noted

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """The handler of Ctrl-C: it raises every time, so that a second one ends what the first
        one began."""
        waits = self._patient and self.noted is None
        self.noted = KeyboardInterrupt()
        if not waits:
            raise self.noted

    def terminate(self, number: int, frame: FrameType | None) -> None:
        """The handler of SIGTERM: it raises once, since some systems send it again and again."""
        if self.noted is None:
            self.noted = SystemExit(128 + number)
            if not self._patient:
                raise self.noted


def raise_together(processes: Processes, signals: StopSignals) -> None:
    """Raise what this process or another one has noted, in all of them.

    Raises:
      KeyboardInterrupt, SystemExit: as `raise_noted`.
    """
    if not processes.several:
        return signals.raise_noted()
    code = -1 if isinstance(signals.noted, KeyboardInterrupt) else 0
    if isinstance(signals.noted, SystemExit):
        code = int(signals.noted.code or 0)
    codes = processes.gather_numbers([code])[:, 0]
    if not codes.any():
        return
    number = int(np.flatnonzero(codes)[0])
    stopped = KeyboardInterrupt() if codes[number] < 0 else SystemExit(int(codes[number]))
    stopped.add_note(f"process {processes.numbers[number]} was asked to stop, and all have")
    processes.settled = stopped
    raise stopped


@contextlib.contextmanager
def stop_signals(patient: bool = False) -> Iterator[StopSignals]:
    """Within, SIGTERM raises SystemExit(143), and Ctrl-C is noted beside its KeyboardInterrupt.

    Where it is patient the first of them is noted only; a second Ctrl-C raises.

    In the main thread only, where Python has signals at all, and only where nobody else has taken
    them: handlers of others, and signals that are ignored, stay. At the end all is as it was.
    """
    signals = StopSignals(patient)
    ours = {
        signal.SIGINT: (signal.default_int_handler, signals.interrupt),
        signal.SIGTERM: (signal.SIG_DFL, signals.terminate),
    }
    taken = {}
    try:
        if threading.current_thread() is threading.main_thread():
            for number, (usual, handler) in ours.items():
                if signal.getsignal(number) is usual:
                    taken[number] = usual, handler
                    signal.signal(number, handler)
        yield signals
    finally:
        for number, (usual, handler) in taken.items():
            if signal.getsignal(number) == handler:
                signal.signal(number, usual)


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


class Content(NamedTuple):
    """What the files of a kind of run hold.

    Fields:
      running: (method, run state, its last round, counters) -> what a run goes on from.
      ended: solution -> what a run has found that has ended.
      read: (file, whether the run has ended) -> (solution, state).
      written: is called once a file has taken its place.
      tidy: removes what no file names; after each round, and (True) after the end.
    """

    running: Callable[[Method, RunState, Round, StartCounters], File]
    ended: Callable[[Solution], File]
    read: Callable[[Checkpoint, bool], tuple[Any, Any]]
    written: Callable[[], object] = lambda: None
    tidy: Callable[[bool], object] = lambda ended: None


class CheckpointSession:
    """The checkpoints of a run: where they lie, whose they are, what one held, and their writing.

    One is written after a round once so many seconds have passed since the last one, and the one
    before is kept beside it. What cannot be written is a warning, and the run goes on: the file
    stays as it was.

    Several processes write a file each, of the same round, when it is time for the first one. Each
    file takes its place once all are whole, so that no process is ever more than one checkpoint
    ahead of another.
    """

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
        # how many rounds of this run the file holds, and whether it is worth to be kept
        self._held, self._damaged, self._warned = 0, False, False
        self._unwritten: tuple[RunState, Round] | None = None
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
        if self.found is not None:
            self._held, self._damaged = self.found.round[0], self.found.damaged

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
        content, processes = self._content, self._processes

        def file_of(now: RunState, last: Round) -> File:
            spent = resuming.since(counters, begin())
            file = content.running(method, now, last, counters)
            return file._replace(fingerprint=self._own, run=now, counters=spent)

        def keep(now: RunState, last: Round) -> None:
            self.keep(now, last)
            content.tidy(False)
            raise_together(processes, signals)

        self._file_of, self._last = file_of, time.monotonic()
        content.tidy(False)
        with stop_signals(patient=processes.several) as signals:
            try:
                solution = solution_of(*solve(method, first, rules, counters, notify, keep))
                # one that was stopped may go on, without this certificate
                stopped = solution.status is Status.STOPPED
                file = None if stopped else content.ended(solution)._replace(fingerprint=self._own)
                self.end(file, solution.statistics.passes)
                content.tidy(not stopped)
            except BaseException as error:
                ended_by = signals.meant(error)
                self.stop(ended_by)
                if ended_by is error:
                    raise
                raise ended_by from error
        return solution

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
        failed = None
        if not self._processes.several or error is self._processes.settled:
            try:
                failed = self._write()
            except Exception as other:  # what ended the run is worth more than why this failed
                failed = other
        kept = "" if failed is None else f"The last rounds could not be kept ({failed}). "
        words = f"{kept}{self._words_of_file()}"
        error.add_note(words)
        if isinstance(error, SystemExit):
            sys.stderr.write(f"{words}\n")

    def _words_of_file(self) -> str:
        if not self._held:
            return f"{os.fspath(self._path)} holds nothing of this run yet"
        return (
            f"{os.fspath(self._path)} holds this run after round {self._held}; "
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
        self._content.written()
        return None

    def _warn(self, what: str) -> None:
        path, held = os.fspath(self._path), f"round {self._held}" if self._held else "nothing"
        words = f"checkpoint {path} could not be written {what}; the file holds {held} of this run"
        warn(words, RuntimeWarning)
