"""Processes that a command starts here: the same end in all, and what a killed one leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

from experiments import cluster
from experiments.cluster import Options, read_part, run, run_together, write_parts
from experiments.lib.record import flag_arguments
from experiments.tasks.benchmarks import TASKS as BENCHMARKS


@pytest.mark.parametrize(("name", "size"), [("digits", 1), ("sentences", 20), ("homologues", 7)])
def test_parts_together_are_the_task(tmp_path, name, size):
    whole = BENCHMARKS[name].prepare(size, "float32")
    files = write_parts(name, size, 3, 2, tmp_path)
    parts = [read_part(name, path, "float32") for path in files]
    assert {(part.n, part.C) for part in parts} == {(whole.n, whole.C)}
    for part in parts:
        assert jax.tree.structure(part.inputs) == jax.tree.structure(whole.inputs)
        shapes = jax.tree.map(np.shape, part.problem.initial_weights)
        assert shapes == jax.tree.map(np.shape, whole.problem.initial_weights)
    first = [jax.tree.leaves(each.outputs)[0] for each in (whole, *parts)]
    counts = [leaf.shape[0] for leaf in first[1:]]
    assert sum(counts) == whole.n and max(counts) - min(counts) <= 2
    rows, *held = (getattr(leaf, "rows", leaf) for leaf in first)
    np.testing.assert_array_equal(np.sort(np.concatenate(held)), np.sort(rows))


SLEEPS = [sys.executable, "-c", "import time; time.sleep(60)"]
WRONG = [sys.executable, "-c", "raise SystemExit(3)"]


def test_the_others_are_ended(monkeypatch):
    monkeypatch.setattr(cluster, "GRACE", 0.2)
    ended = run_together([SLEEPS, WRONG, SLEEPS])
    assert ended.codes == (-signal.SIGKILL, 3, -signal.SIGKILL) and ended.first == 1
    assert ended.words() == "process 1 of 3 died with exit code 3, and the others were ended"


@pytest.mark.thorough
def test_one_of_two_is_killed_and_the_run_goes_on(tmp_path, capfd, monkeypatch):
    """The other one ends by itself, the starter says who died, and --resume goes on to the end."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # the second run reads the first's programs
    whole = Options(task="digits", size=1, max_passes=4, output=str(tmp_path), start=2)
    kept = whole.replace(checkpoint=f"{tmp_path}/run.npz", checkpoint_seconds=0.0)
    line = [sys.executable, "-m", "experiments.cluster", *flag_arguments(kept.values())]
    killed = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "run.npz.process1").exists() and killed.poll() is None:
        time.sleep(0.05)
    os.kill(child_of(killed.pid, "--process=1"), signal.SIGKILL)
    start = time.monotonic()
    _, words = killed.communicate(timeout=120)
    assert killed.returncode == 1 and time.monotonic() - start < 60
    last = words.splitlines()[-1]
    assert "process 1 of 2 died of SIGKILL, and the other was ended" in last
    assert f"the same command with --resume goes on from the last checkpoint ({tmp_path}" in last
    assert run(kept.replace(resume=True)) is None
    said = capfd.readouterr().out
    assert "digits" in said and said.count("wrote ") == 2
    ends = [json.loads((tmp_path / f"cluster_end.{n}.json").read_text()) for n in (0, 1)]
    assert [each["rounds"] for each in ends] == [4, 4]


def test_a_run_is_given_its_checkpoint(monkeypatch):
    given = {}
    monkeypatch.setattr(cluster, "fit", lambda *_, **named: given.update(named))
    part = cluster.Part(None, None, None, 1.0, 4, "svm1")
    cluster._fitted(Options(checkpoint="run.npz", resume=True, max_passes=3), part)
    assert (given["checkpoint"], given["resume"], given["max_passes"]) == ("run.npz", True, 3)


def child_of(parent, word):
    """The process that another one has started with this argument."""
    children = Path(f"/proc/{parent}/task/{parent}/children")
    if not children.exists():
        pytest.skip("this system does not list the children of a process")
    for child in map(int, children.read_text().split()):
        if word in Path(f"/proc/{child}/cmdline").read_text().split("\0"):
            return child
    raise AssertionError(f"no process with {word}")
