"""Processes that are watched: who died first, and that nobody is left."""

from __future__ import annotations

import signal
import sys

from experiments.cluster import watching
from experiments.cluster.watching import run_together

SLEEPS = [sys.executable, "-c", "import time; time.sleep(60)"]
WELL = [sys.executable, "-c", ""]
WRONG = [sys.executable, "-c", "raise SystemExit(3)"]


def test_all_well():
    ended = run_together([WELL, WELL])
    assert ended.codes == (0, 0) and ended.first is None
    assert ended.words() == "all processes have ended"


def test_the_others_are_ended(monkeypatch):
    monkeypatch.setattr(watching, "GRACE", 0.2)
    ended = run_together([SLEEPS, WRONG, SLEEPS])
    assert ended.codes == (-signal.SIGKILL, 3, -signal.SIGKILL) and ended.first == 1
    assert ended.words() == "process 1 of 3 died with exit code 3, and the others were ended"


def test_a_signal_is_named(monkeypatch):
    monkeypatch.setattr(watching, "GRACE", 0.2)

    def kill(seconds, processes):
        processes[0].send_signal(signal.SIGKILL)

    ended = run_together([SLEEPS, SLEEPS], kill)
    assert ended.first == 0
    assert ended.words() == "process 0 of 2 died of SIGKILL, and the other was ended"
