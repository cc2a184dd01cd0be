"""Kills are counted, ends compared, and an end that nobody asked for is an error."""

from __future__ import annotations

import json
import signal
from functools import partial

import pytest

from experiments.killed_runs import command, training
from experiments.killed_runs.command import Options
from experiments.killed_runs.training import TASKS, Task, train
from experiments.tasks.benchmarks import TASKS as BENCHMARKS
from jaxstruct import Settings, fit, fit_in_blocks
from tests.experiments.scripts import kept_settings

SMALL = Task("digits", 1, 1e-2, "digits")


@pytest.mark.thorough
@pytest.mark.parametrize("task", [SMALL, SMALL._replace(blocks=3)], ids=["whole", "in blocks"])
def test_a_resumed_training_has_the_digest_of_a_whole_one(task, tmp_path, monkeypatch, capsys):
    """Stopped after two rounds in one folder, undisturbed in the other."""
    stop = {"callback": lambda progress: progress.passes == 2}
    with kept_settings():
        whole = train(task, tmp_path / "whole", 0)
        with monkeypatch.context() as patched:
            patched.setattr(training, "fit", partial(fit, **stop))
            patched.setattr(training, "fit_in_blocks", partial(fit_in_blocks, **stop))
            part = train(task, tmp_path / "part", 60)
        again = train(task, tmp_path / "part", 60)
    assert capsys.readouterr().out == "training\n" * 3
    assert part["rounds"] == 2 < whole["rounds"]
    assert part["digest"] != whole["digest"] == again["digest"]
    assert again["rounds"] == whole["rounds"]


def test_the_digest_is_of_every_bit_but_of_no_second():
    data = SMALL.prepare()
    found = [
        fit(
            data.problem, data.inputs, data.outputs, C=data.C, max_passes=3,
            settings=Settings(seed=seed, variant="subspace"),
        )
        for seed in (0, 0, 1)
    ]  # fmt: skip
    digests = [training.digest(each) for each in found]
    assert digests[0] == digests[1] != digests[2]
    moved = found[0]._replace(slack=found[0].slack * (1 + 1e-6))
    assert training.digest(moved) != digests[0]


def test_the_tasks_are_there():
    assert {task.benchmark for task in TASKS.values()} <= set(BENCHMARKS)


class Parts:
    """In place of processes: each run is killed so many times, and ends with its digest."""

    def __init__(self, times, digests):
        self.times, self.digests, self.killed, self.calls = times, list(digests), 0, []

    def __call__(self, options, name, folder, delay, number):
        self.calls.append((delay, number))
        folder.mkdir(exist_ok=True)
        if delay is not None and self.killed < self.times:
            self.killed += 1
            if number is signal.SIGKILL:
                (folder / ".run.npz.0123.part").touch()
            code = 143 if number is signal.SIGTERM else -number
            return command._Part(code, "", 0.1)
        self.killed = 0
        end = {"digest": self.digests.pop(0), "rounds": 7}
        (folder / "end.json").write_text(json.dumps(end))
        return command._Part(0, "", 2.0)


def killed(tmp_path, monkeypatch, parts, **options):
    monkeypatch.setattr(command, "_part", parts)
    options = Options(tasks=("digits",), output=str(tmp_path), compilation_cache=False, **options)
    with kept_settings():
        [row] = command.run(options).numbers["rows"]
    return row


def test_kills_are_counted_and_ends_compared(tmp_path, monkeypatch):
    """Of four runs, killed three times each but for the last, one ends otherwise."""
    parts = Parts(3, ["x", "a", "a", "b", "a", "a"])
    row = killed(tmp_path, monkeypatch, parts, kills=10)
    kills = [row[name] for name in ("SIGKILL", "SIGTERM", "SIGINT")]
    assert sum(kills) == 10 and min(kills) > 0
    assert row["writing"] >= 1 and (row["ended"], row["same"], row["rounds"]) == (4, 3, 7)
    assert [delay for delay, _ in parts.calls[:2]] == [None, None] == [parts.calls[-1][0], None]
    assert all(0 <= delay < 2 for delay, _ in parts.calls[2:-1])
    assert (tmp_path / "killed_runs.json").exists()


def test_an_end_that_nobody_asked_for_is_an_error(tmp_path, monkeypatch):
    parts = Parts(0, "aa")

    def broken(options, name, folder, delay, number):
        if delay is None:
            return parts(options, name, folder, delay, number)
        return command._Part(1, "no", 0.1)

    with pytest.raises(RuntimeError, match="digits ended with 1 after SIG.*: no"):
        killed(tmp_path, monkeypatch, broken, kills=1)


def test_a_process_is_killed_while_it_trains(tmp_path, monkeypatch):
    """With a program that says the word and waits in place of the training."""
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\necho training\nexec sleep 60\n")
    script.chmod(0o755)
    monkeypatch.setattr(command.sys, "executable", str(script))
    part = command._part(Options(), "digits", tmp_path, 0.05, signal.SIGTERM)
    assert part.code == -signal.SIGTERM and 0.05 <= part.seconds < 30
    script.write_text("#!/bin/sh\necho wrong >&2\nexit 3\n")
    assert command._part(Options(), "digits", tmp_path, 0.05, signal.SIGTERM)[:2] == (3, "wrong\n")


@pytest.mark.thorough
def test_the_cost_of_a_checkpoint(tmp_path, monkeypatch):
    small = BENCHMARKS["digits"]._replace(
        prepare=lambda n, dtype: BENCHMARKS["digits"].prepare(1, dtype)
    )
    monkeypatch.setitem(BENCHMARKS, "sentences", small)
    options = Options(cost=5, seconds=0, output=str(tmp_path / "out"), compilation_cache=False)
    with kept_settings():
        [row] = command.run(options).numbers["rows"]
    assert row["plain"] > 0 and row["kept"] > row["keeping"] > 0 < row["each"]
    assert 0 < row["percent"] < 100
    assert 0.05 < row["megabytes"] < 5
    assert {path.suffix for path in (tmp_path / "out").iterdir()} == {
        ".json",
        ".csv",
        ".md",
        ".tex",
    }
