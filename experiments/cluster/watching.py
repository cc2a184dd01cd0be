"""Several processes of one run on this machine: started together, and ended where one of them dies.

What a scheduler such as SLURM does for processes of several machines.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

GRACE = 15.0
"""Seconds for the others to end by themselves once one is dead; then they are killed."""
POLL = 0.03


class Ended(NamedTuple):
    """How processes ended: exit codes in their order, and which of them was the first to fail."""

    codes: tuple[int, ...]
    first: int | None

    def words(self) -> str:
        """Who died of what."""
        if self.first is None:
            return "all processes have ended"
        code = self.codes[self.first]
        of = f"of {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        count = len(self.codes)
        rest = ", and the other was ended" if count == 2 else ", and the others were ended"
        return f"process {self.first} of {count} died {of}{rest if count > 1 else ''}"


def free_port() -> int:
    """A port of this machine that nobody listens at now."""
    with socket.socket() as found:
        found.bind(("localhost", 0))
        return found.getsockname()[1]


@contextlib.contextmanager
def _forwarded(processes: Sequence[subprocess.Popen]) -> Iterator[None]:
    """Within, SIGTERM goes to the processes, which then end by themselves."""

    def forward(number: int, frame: object) -> None:
        for process in processes:
            process.send_signal(number)

    before = signal.signal(signal.SIGTERM, forward)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def run_together(
    lines: Sequence[Sequence[str]],
    act: Callable[[float, Sequence[subprocess.Popen]], None] = lambda seconds, processes: None,
) -> Ended:
    """Start a process a command line, and wait until all have ended.

    Args:
      act: called again and again with the seconds so far and the processes.
    """
    processes = [subprocess.Popen(line, env=os.environ) for line in lines]
    first, died, start = None, 0.0, time.monotonic()
    try:
        with _forwarded(processes):
            while any(process.poll() is None for process in processes):
                failed = [n for n, process in enumerate(processes) if process.poll()]
                if failed and first is None:
                    first, died = _first_to_fail(processes, failed), time.monotonic()
                if failed and time.monotonic() - died > GRACE:
                    for process in processes:
                        process.kill()
                act(time.monotonic() - start, processes)
                time.sleep(POLL)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    codes = tuple(process.wait() for process in processes)
    if first is None and any(codes):
        first = _first_to_fail(processes, [n for n, code in enumerate(codes) if code])
    return Ended(codes, first)


def _first_to_fail(processes: Sequence[subprocess.Popen], failed: list[int]) -> int:
    """Of those that were seen to have failed at once, one that a signal has ended."""
    killed = [n for n in failed if processes[n].returncode == -signal.SIGKILL]
    return (killed or failed)[0]
