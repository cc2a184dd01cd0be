"""Ctrl-C and SIGTERM during a run that keeps checkpoints: both raise, and neither is lost.

Python raises wherever the program happens to be. Where that is a callback of the interpreter
itself, such as one of a weak reference, the exception is printed and forgotten. So a signal is
noted as well, and the run asks after each round.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class StopSignals:
    """What has been asked of a run."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._noted: BaseException | None = None

    def raise_noted(self) -> None:
        """Raise what was noted and lost, if anything.

        Raises:
          KeyboardInterrupt: Ctrl-C. SystemExit: SIGTERM.
        """
        if self._noted is not None:
            raise self._noted

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """The handler of Ctrl-C: it raises every time, so that a second one ends what the first
        one began."""
        self._noted = KeyboardInterrupt()
        raise self._noted

    def terminate(self, number: int, frame: FrameType | None) -> None:
        """The handler of SIGTERM: it raises once, since some systems send it again and again."""
        if self._noted is None:
            self._noted = SystemExit(128 + number)
            raise self._noted


@contextlib.contextmanager
def stop_signals() -> Iterator[StopSignals]:
    """Within, SIGTERM raises SystemExit(143), and Ctrl-C is noted beside its KeyboardInterrupt.

    In the main thread only, where Python has signals at all, and only where nobody else has taken
    them: handlers of others, and signals that are ignored, stay. At the end all is as it was.
    """
    signals = StopSignals()
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
