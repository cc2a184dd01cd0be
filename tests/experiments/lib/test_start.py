"""How a command starts and ends: its flags, its exit code, signals and wrong options in a line."""

from __future__ import annotations

import fnmatch
import subprocess
import sys
import tomllib
from types import SimpleNamespace

import numpy as np
import pytest
from absl import flags

from experiments.lib import record, start
from experiments.lib.common import take_rows
from experiments.lib.fields import ratio
from experiments.lib.options import BaseOptions, flag, names
from tests.experiments.scripts import raising


class Options(BaseOptions):
    count: int = flag(3, "How many.", least=1)


@pytest.fixture
def started(monkeypatch):
    """Starts a command made of what is given; returns its exit code."""

    def call(*arguments, **parts):
        command = SimpleNamespace(__doc__="A command.", Options=Options, **parts)
        monkeypatch.setattr(start, "command_module", lambda name: command)
        monkeypatch.setattr(sys, "argv", ["script", *arguments])
        monkeypatch.setattr(sys.modules["__main__"], "__doc__", None)
        try:
            with pytest.raises(SystemExit) as stop:
                start.start("made_up")
            return stop.value.code or 0
        finally:
            for name in names(Options):
                delattr(flags.FLAGS, name)
            flags.FLAGS.unparse_flags()

    return call


@pytest.mark.smoke
def test_run_gets_the_options_and_help_tells_of_them(started, capsys):
    seen = []
    assert started("--count=5", run=seen.append) == 0
    assert seen == [Options(count=5)]
    assert started(run=None, main=lambda options: 7) == 7
    assert started("--help", run=None) == 1  # as absl has it
    printed = capsys.readouterr().out
    assert printed.lstrip().startswith("A command.") and "--count: How many." in printed
    assert started("here", run=None) == 2
    assert capsys.readouterr().err == "made_up: unexpected arguments ['here']\n"


def test_a_bug_shows_its_traceback(started):
    """The same errors as of wrong options, but Python and NumPy raise them within our code."""
    for bug, error in (
        (lambda options: float("x"), ValueError),
        (lambda options: take_rows(np.zeros(2), (2,)), IndexError),
        (lambda options: np.zeros((1, 3)) @ np.zeros((2, 2)), ValueError),
    ):
        with pytest.raises(error):
            started(run=bug)
    assert started(run=lambda options: ratio("x")) == start.WRONG


def test_a_part_that_failed_has_told_why(started, capsys):
    assert started(run=raising(subprocess.CalledProcessError(start.WRONG, "x"))) == start.WRONG
    assert not capsys.readouterr().err
    assert started(run=raising(subprocess.CalledProcessError(-9, "x"))) == 1
    assert capsys.readouterr().err == "made_up: a process of it ended with -9\n"


def test_an_interrupt_ends_in_one_line(started, capsys, monkeypatch):
    monkeypatch.delenv(start.PART, raising=False)
    noted = KeyboardInterrupt()
    noted.add_note("run.npz holds this run after round 3")
    for error, said in (
        (KeyboardInterrupt(), "stopped: nothing was kept"),
        (KeyboardInterrupt("stopped: kept in x.json"), "stopped: kept in x.json"),
        (noted, "run.npz holds this run after round 3"),
    ):
        assert started(run=raising(error)) == 130
        assert capsys.readouterr().err == f"{said}\n"
    monkeypatch.setenv(start.PART, "1")
    assert started(run=raising(KeyboardInterrupt())) == 130
    assert not capsys.readouterr().err


@pytest.mark.thorough
def test_a_signal_stops_a_training(tmp_path):
    """A program of its own, stopped when it has reported its progress; Ctrl-C takes the same way
    from `lib.interrupts` on."""
    command = [sys.executable, "-m", "experiments.digits", f"--output={tmp_path}", "--progress"]
    with subprocess.Popen(command, cwd=record.ROOT, stderr=subprocess.PIPE, text=True) as program:
        begun = program.stderr.readline()
        program.terminate()
        printed = begun + program.communicate(timeout=120)[1]
    assert program.returncode == 143
    assert printed.splitlines()[-1].startswith("stopped: ")
    # Where it came in a callback of the interpreter, that is printed first: see lib.interrupts.
    assert printed.count("Traceback") == printed.count("Exception ignored")


def test_the_package_installs_no_commands():
    """They belong to the checkout: users of jaxstruct get no top-level package `experiments`."""
    project = tomllib.loads((record.ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = project["tool"]["setuptools"]["packages"]["find"]["include"]
    assert fnmatch.filter(["jaxstruct", "jaxstruct.data"], patterns[0]) and len(patterns) == 1
    assert not any(fnmatch.fnmatch(name, patterns[0]) for name in ("experiments", "tests"))
