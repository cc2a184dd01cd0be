"""Ctrl-C and SIGTERM that are not lost: what is finished is kept, and the program ends.

Python raises KeyboardInterrupt wherever the program happens to be. Where that is a callback of the
interpreter itself, such as one of a weak reference, it is printed and forgotten. So the signal is
noted as well, and a training asks after each round. SIGTERM, by which schedulers end a program, is
taken as Ctrl-C; the exit codes differ.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

_noted = threading.Event()
_terminated = threading.Event()


def note_interrupts() -> None:
    """Have Ctrl-C and SIGTERM noted from now on, besides raising KeyboardInterrupt.

    Not where they are ignored, as Ctrl-C is by what a shell starts in the background.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _note)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)


def _note(number: int, frame: FrameType | None) -> None:
    _noted.set()
    signal.default_int_handler(number, frame)


def _terminate(number: int, frame: FrameType | None) -> None:
    """Raises once: some systems send SIGTERM again while files are written."""
    if not _terminated.is_set():
        _terminated.set()
        _note(number, frame)


@contextlib.contextmanager
def ignored_interrupts() -> Iterator[None]:
    """Within, Ctrl-C and SIGTERM do nothing: for the second that writing what is finished takes."""
    before = {each: signal.signal(each, signal.SIG_IGN) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def terminated() -> bool:
    """Whether SIGTERM has come."""
    return _terminated.is_set()


def exit_code() -> int:
    """The exit code of shells for a program that SIGTERM, or else Ctrl-C, has stopped."""
    return 128 + (signal.SIGTERM if terminated() else signal.SIGINT)


def raise_noted_interrupt() -> None:
    """Raise the KeyboardInterrupt that was noted and lost, if any; it is noted no longer.

    Raises:
      KeyboardInterrupt: Ctrl-C or SIGTERM has come since the last call.
    """
    if _noted.is_set():
        _noted.clear()
        raise KeyboardInterrupt
