"""How a command starts and ends: its flags, its exit code, Ctrl-C in one line."""

from __future__ import annotations

import fnmatch
import importlib
import signal
import subprocess
import sys
import tomllib
from types import SimpleNamespace
from typing import Annotated, NamedTuple

import pytest
from absl import flags

from experiments.lib import record, start
from experiments.lib.options import flag


class Options(NamedTuple):
    count: Annotated[int, flag("How many.")] = 3


@pytest.fixture
def started(monkeypatch):
    """Starts a command made of what is given; returns its exit code."""

    def call(*arguments, **parts):
        command = SimpleNamespace(__doc__="A command.", Options=Options, **parts)
        monkeypatch.setattr(importlib, "import_module", lambda name: command)
        monkeypatch.setattr(sys, "argv", ["script", *arguments])
        monkeypatch.setattr(sys.modules["__main__"], "__doc__", None)
        try:
            with pytest.raises(SystemExit) as stop:
                start.start("made_up")
            return stop.value.code or 0
        finally:
            for name in Options._fields:
                delattr(flags.FLAGS, name)
            flags.FLAGS.unparse_flags()

    return call


def test_run_gets_the_options(started):
    seen = []
    assert started("--count=5", run=seen.append) == 0
    assert seen == [Options(5)]


def test_main_decides_the_exit_code(started):
    assert started(run=None, main=lambda options: 7) == 7


def test_help_tells_of_the_command_and_its_flags(started, capsys):
    assert started("--help", run=None) == 1  # as absl has it
    printed = capsys.readouterr().out
    assert printed.startswith("\nA command.") or printed.startswith("A command.")
    assert "--count: How many." in printed


def test_arguments_that_are_no_flags_are_refused(started, capsys):
    assert started("here", run=None) == 1
    assert "unexpected arguments ['here']" in capsys.readouterr().err


def raising(error):
    def run(options):
        raise error

    return run


def test_an_interrupt_ends_in_one_line(started, capsys, monkeypatch):
    monkeypatch.delenv(start.PART, raising=False)
    assert started(run=raising(KeyboardInterrupt())) == 130
    assert capsys.readouterr().err == "stopped: nothing was kept\n"
    assert started(run=raising(KeyboardInterrupt("stopped: kept in x.json"))) == 130
    assert capsys.readouterr().err == "stopped: kept in x.json\n"
    monkeypatch.setenv(start.PART, "1")
    assert started(run=raising(KeyboardInterrupt())) == 130
    assert not capsys.readouterr().err


def test_ctrl_c_stops_a_training(tmp_path):
    """A program of its own, stopped when its progress bar has begun."""
    command = [sys.executable, "-m", "experiments.digits", f"--output={tmp_path}", "--progress"]
    with subprocess.Popen(command, cwd=record.ROOT, stderr=subprocess.PIPE, text=True) as program:
        begun = program.stderr.read(1)
        program.send_signal(signal.SIGINT)
        told = begun + program.communicate(timeout=120)[1]
    assert program.returncode == 130
    assert "Traceback" not in told and told.splitlines()[-1].startswith("stopped: ")


def test_the_package_installs_no_commands():
    """They belong to the checkout: users of jaxstruct get no top-level package `experiments`."""
    project = tomllib.loads((record.ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = project["tool"]["setuptools"]["packages"]["find"]["include"]
    assert fnmatch.filter(["jaxstruct", "jaxstruct.data"], patterns[0]) and len(patterns) == 1
    assert not any(fnmatch.fnmatch(name, patterns[0]) for name in ("experiments", "tests"))
