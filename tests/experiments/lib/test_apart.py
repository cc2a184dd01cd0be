"""A part of a command in a process of its own: its flags, its rows, its failure, Ctrl-C."""

from __future__ import annotations

import subprocess

import pytest

from experiments.lib import apart, interrupts
from experiments.lib.common import Stopped
from experiments.lib.start import PART
from experiments.measures import Options as MeasuresOptions
from experiments.ranking import Options as RankingOptions
from tests.experiments.scripts import parsed_options


class Process:
    """Stands for a process: what it was started with, and what waiting for it gives."""

    def __init__(self, line, stdout, env):
        Process.started, Process.killed, Process.terminated = (line, env), False, False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def wait(self, timeout=None):
        found = Process.waits.pop(0)
        if isinstance(found, BaseException):
            raise found
        return found

    def kill(self):
        Process.killed = True

    def terminate(self):
        Process.terminated = True


@pytest.fixture
def waits(monkeypatch):
    monkeypatch.setattr(apart.subprocess, "Popen", Process)
    return lambda *waits: setattr(Process, "waits", list(waits))


@pytest.mark.parametrize("command, options", [
    ("ranking", RankingOptions(x64=True, seed=4, path="a b'c")),
    ("measures", MeasuresOptions(part=True, x64=True, seed=4, data=("yeast", "scene"))),
])  # fmt: skip
def test_it_is_started_with_all_the_flags(waits, tmp_path, command, options):
    waits(0)
    (tmp_path / "part.json").write_text('{"rows": [1]}')
    options = options.replace(output=str(tmp_path))
    assert apart.run_apart(options, "part") == [1]
    line, environment = Process.started
    assert line[1:3] == ["-m", f"experiments.{command}"] and environment[PART]
    assert parsed_options(type(options), *line[3:]) == options


def test_ctrl_c_tells_of_what_it_kept(waits, tmp_path, monkeypatch):
    """A file that an older run left is taken away before the process starts."""
    path = tmp_path / "part.stopped.json"

    class Keeping(Process):
        def __init__(self, *arguments, **named):
            super().__init__(*arguments, **named)
            assert not path.exists()
            path.write_text("{}")

    path.write_text("older")
    waits(KeyboardInterrupt(), 130)
    monkeypatch.setattr(apart.subprocess, "Popen", Keeping)
    with pytest.raises(Stopped, match="part.stopped.json"):
        apart.run_apart(RankingOptions(output=str(tmp_path)), "part")


@pytest.mark.parametrize("late", [False, True])
def test_ctrl_c_lets_it_come_to_its_end_and_sigterm_is_sent_on(waits, tmp_path, late, monkeypatch):
    monkeypatch.setattr(interrupts, "terminated", lambda: late)
    waits(KeyboardInterrupt(), subprocess.TimeoutExpired("x", 1) if late else 130)
    with pytest.raises(KeyboardInterrupt):
        apart.run_apart(RankingOptions(output=str(tmp_path)), "part")
    assert Process.killed == Process.terminated == late and not Process.waits


def test_its_failure_is_an_error(waits, tmp_path):
    waits(1)
    with pytest.raises(subprocess.CalledProcessError):
        apart.run_apart(RankingOptions(output=str(tmp_path)), "part")
