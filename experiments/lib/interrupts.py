"""Ctrl-C that is not lost.

Python raises KeyboardInterrupt wherever the program happens to be. Where that is a callback of the
interpreter itself, such as one of a weak reference, it is printed and forgotten. So the signal is
noted as well, and a training asks after each round.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType

_noted = threading.Event()


def note_interrupts() -> None:
    """Have Ctrl-C noted from now on, besides raising KeyboardInterrupt; where it is heeded at all.

    A shell has the programs that it starts in the background ignore it.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _note)


def _note(number: int, frame: FrameType | None) -> None:
    _noted.set()
    signal.default_int_handler(number, frame)


def raise_noted_interrupt() -> None:
    """Raise the KeyboardInterrupt that was noted and lost, if any; it is noted no longer.

    Raises:
      KeyboardInterrupt: Ctrl-C has been pressed since the last call.
    """
    if _noted.is_set():
        _noted.clear()
        raise KeyboardInterrupt
