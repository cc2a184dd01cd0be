"""The training that is killed: what it says, what it writes, and what its sha256 is of."""

from __future__ import annotations

from functools import partial

import pytest

from experiments.benchmarks.tasks import TASKS as BENCHMARKS
from experiments.killed_runs import training
from experiments.killed_runs.training import TASKS, Task, train
from jaxstruct import Settings, fit, fit_in_blocks
from tests.experiments.scripts import kept_settings

SMALL = Task("digits", 1, 1e-2, "digits")


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
