"""Ctrl-C and SIGTERM during a run that keeps checkpoints: both raise, and neither is lost.

Python raises wherever the program happens to be. Where that is a callback of the interpreter
itself, such as one of a weak reference, the exception is printed and forgotten; where JAX compares
the static arguments of a program, it becomes a ValueError. So a signal is noted as well, and the
run asks after each round, and when it ends by an error.

Of several processes that train together none may leave the others in the middle of a round. There a
signal is noted only, and the round after which all raise is the one that all are in.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

import numpy as np

from jaxstruct.core.processes import Processes


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
