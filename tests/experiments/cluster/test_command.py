"""Processes that a command starts here: the same end in all, and what a killed one leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from experiments.cluster.command import Options, run

ROOT = Path(__file__).parents[3]
TINY = ["--task=sentences", "--size=12", "--max_passes=4", "--nocompilation_cache"]


def command(folder, *arguments, **more):
    line = [sys.executable, "-m", "experiments.cluster", *TINY, f"--output={folder}", *arguments]
    here = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen(line, cwd=folder, env=here, text=True, **more)


def ends(folder):
    return [json.loads((folder / f"cluster_end.{n}.json").read_text()) for n in (0, 1)]


def test_one_of_two_is_killed_and_the_run_goes_on(tmp_path):
    """The other one ends by itself, the starter says who died, and --resume ends as a whole run."""
    keep = ["--start=2", f"--checkpoint={tmp_path}/run.npz", "--checkpoint_seconds=0"]
    whole = command(tmp_path, "--start=2", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    said, wrong = whole.communicate(timeout=300)
    assert whole.returncode == 0, wrong
    assert "generated" in said and "sentences" in said and said.count("wrote ") == 2
    first = ends(tmp_path)
    assert [each["rounds"] for each in first] == [4, 4]
    killed = command(tmp_path, *keep, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    while not (tmp_path / "run.npz.process1").exists() and killed.poll() is None:
        time.sleep(0.05)
    os.kill(child_of(killed.pid, "--process=1"), signal.SIGKILL)
    start = time.monotonic()
    _, words = killed.communicate(timeout=120)
    assert killed.returncode == 1 and time.monotonic() - start < 60
    last = words.splitlines()[-1]
    assert "process 1 of 2 died of SIGKILL, and the other was ended" in last
    assert f"the same command with --resume goes on from the last checkpoint ({tmp_path}" in last
    resumed = command(tmp_path, *keep, "--resume", stderr=subprocess.PIPE)
    _, wrong = resumed.communicate(timeout=300)
    assert resumed.returncode == 0, wrong
    assert ends(tmp_path) == first


def child_of(parent, word):
    """The process that another one has started with this argument."""
    children = Path(f"/proc/{parent}/task/{parent}/children")
    if not children.exists():
        pytest.skip("this system does not list the children of a process")
    for child in map(int, children.read_text().split()):
        if word in Path(f"/proc/{child}/cmdline").read_text().split("\0"):
            return child
    raise AssertionError(f"no process with {word}")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (Options(), "give one of --start"),
        (Options(start=2, join=True), "give one of --start"),
        (Options(write_parts=True), "--write_parts needs --processes"),
        (Options(compare=("2",)), "compare: got '2', expected processes x devices, as 2x2"),
    ],
)
def test_wrong_options_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        run(options)
