"""What a run of the tests cost: seconds by folder, programs compiled, peak memory of a worker."""

from __future__ import annotations

import json
import resource
import sys
from collections import Counter
from pathlib import Path

import jax
import pytest

KIB = 1 if sys.platform == "darwin" else 1024
"""Bytes of a unit of `ru_maxrss`."""
SLOWEST = 15
"""Tests that are named."""


def peak_mebibytes(who: int = resource.RUSAGE_SELF) -> int:
    """The most memory that this process has held."""
    return resource.getrusage(who).ru_maxrss * KIB // 2**20


class Picture:
    """A plugin: workers count, and who started them adds up and writes a file of JSON.

    Seconds are those of the workers together, with fixtures; of a run on two about twice the clock.
    """

    def __init__(self, config: pytest.Config) -> None:
        """Begin to count."""
        self.config, self.seconds, self.outcomes = config, Counter(), Counter()
        self.tests: Counter[str] = Counter()
        self.own: Counter[str] = Counter()
        self.workers: list[dict[str, int]] = []
        jax.monitoring.register_event_duration_secs_listener(self._heard)

    def _heard(self, event: str, duration: float, **_: str | int) -> None:
        self.own["programs"] += event.endswith("backend_compile_duration")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Each phase of a test belongs to the room of its file."""
        rooms = Path(report.location[0]).parts[1:-1]
        self.seconds[rooms[0] if rooms else "files at the top"] += report.duration
        self.tests[report.nodeid] += report.duration
        self.outcomes[report.outcome] += report.when == "call"

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object, error: object) -> None:
        """A worker has ended: what it counted."""
        self.workers.append(getattr(node, "workeroutput", {}).get("picture", {}))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Tell the starter; the starter writes the file."""
        own = {**self.own, "peak": peak_mebibytes()}
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput["picture"] = own
            return
        counted = self.workers or [own]
        content = {
            "seconds": {room: round(value, 1) for room, value in sorted(self.seconds.items())},
            "slowest": {test: round(s, 1) for test, s in self.tests.most_common(SLOWEST)},
            "programs": sum(each.get("programs", 0) for each in counted),
            "peak": max(each.get("peak", 0) for each in counted),
            **self.outcomes,
        }
        Path(self.config.option.picture).write_text(json.dumps(content), encoding="utf-8")
