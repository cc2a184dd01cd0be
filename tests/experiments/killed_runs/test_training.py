"""The training that is killed: what it says, what it writes, and what its sha256 is of."""

from __future__ import annotations

from experiments.benchmarks.tasks import TASKS as BENCHMARKS
from experiments.killed_runs import training
from experiments.killed_runs.training import TASKS, Task, train
from jaxstruct import Settings, fit, fit_in_blocks
from tests.experiments.scripts import kept_settings

SMALL = Task("digits", 1, 1e-2, "digits")


def test_a_resumed_training_has_the_digest_of_a_whole_one(tmp_path, monkeypatch, capsys):
    """Stopped after two rounds in one folder, undisturbed in the other."""
    stop = {"callback": lambda progress: progress.passes == 2}

    def stopped(*arguments, **options):
        return fit(*arguments, **options, **stop)

    with kept_settings():
        whole = train(SMALL, tmp_path / "whole", 0)
        with monkeypatch.context() as patched:
            patched.setattr(training, "fit", stopped)
            part = train(SMALL, tmp_path / "part", 60)
        again = train(SMALL, tmp_path / "part", 60)
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


def test_a_training_in_blocks_is_resumed_too(tmp_path, monkeypatch):
    small = Task("digits", 1, 1e-2, "digits in blocks", 3)

    def stopped(*arguments, **options):
        stop = {"callback": lambda progress: progress.passes == 2}
        return fit_in_blocks(*arguments, **options, **stop)

    with kept_settings():
        whole = train(small, tmp_path / "whole", 0)
        with monkeypatch.context() as patched:
            patched.setattr(training, "fit_in_blocks", stopped)
            part = train(small, tmp_path / "part", 60)
        again = train(small, tmp_path / "part", 60)
    assert part["rounds"] == 2 < whole["rounds"]
    assert part["digest"] != whole["digest"] == again["digest"]


def test_the_tasks_are_there():
    assert {task.benchmark for task in TASKS.values()} <= set(BENCHMARKS)
