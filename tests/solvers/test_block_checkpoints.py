"""Trainings in blocks that are stopped and resumed end bit by bit as those that are not."""

from __future__ import annotations

import shutil

import jax
import numpy as np
import pytest

from jaxstruct import fit, fit_in_blocks
from jaxstruct.core.archive import DamagedFile
from jaxstruct.solvers.checkpoints.run_state import load_solution, load_weights
from jaxstruct.solvers.out_of_core.block_ascent import BlockAscent
from jaxstruct.solvers.out_of_core.fit_in_blocks import planes_folder
from jaxstruct.solvers.settings import Settings
from tests.lib.refusals import refused
from tests.lib.thorough import thorough_after
from tests.solvers.cases import random_case
from tests.solvers.test_checkpoint_writer import usual_signals  # noqa: F401
from tests.solvers.test_resuming import Killed, assert_same_end, killed_again_and_again
from tests.solvers.test_size_classes import OUTPUT_TYPES

SUBSPACE = Settings(variant="subspace", capacity=4, group=2, oracle_batch=4)
GROWN = SUBSPACE._replace(working_sets="grown")
CASE = random_case(3)


def classes(settings=GROWN, formulation="svm1_margin", C=20.0, **options):
    """A training of classes in three blocks, to be given more options."""

    def train(**more):
        return fit_in_blocks(
            CASE.problem("float32"), CASE.x.astype("float32"), CASE.y, formulation, C,
            **{"settings": settings, "tolerance": 1e-4, "blocks": 3, "max_passes": 40}
            | options | more,
        )  # fmt: skip

    return train


def sentences(**more):
    return fit_in_blocks(*OUTPUT_TYPES["chains"](3, 21, 9), "svm1_margin", 2.0, blocks=2, **more)


RUNS = {
    "grown": classes(),
    "grown, in files": classes(block_bytes=1),
    "slots that double": classes(GROWN._replace(capacity=2)),
    "enumerated": classes(SUBSPACE._replace(working_sets="enumerated")),
    "sentences": sentences,
}


@pytest.mark.parametrize("name", thorough_after(1, RUNS))
def test_a_run_that_is_killed_again_and_again(name, tmp_path, monkeypatch):
    train, path = RUNS[name], tmp_path / "run.npz"
    whole = train()
    assert whole.statistics.passes > 3
    assert_same_end(whole, killed_again_and_again(train, path, monkeypatch))
    assert_same_end(whole, train(checkpoint=path, resume=True)), "the end is read again"
    found = load_weights(path, problem_of(name))
    for one, other in zip(*map(jax.tree.leaves, (whole.weights, found)), strict=True):
        np.testing.assert_array_equal(one, other)


def problem_of(name):
    return OUTPUT_TYPES["chains"](3, 21, 9)[0] if name == "sentences" else CASE.problem("float32")


@pytest.mark.thorough
def test_an_error_in_the_middle_of_a_round_costs_that_round(tmp_path, monkeypatch):
    """The planes of the last whole round are still there."""
    path, train = tmp_path / "run.npz", RUNS["grown, in files"]
    whole, visits = train(), []
    visit = BlockAscent.visit

    def failing(ascent, number, *given):
        visits.append(number)
        if len(visits) == 3 * 4 + 2:
            raise Killed
        return visit(ascent, number, *given)

    with monkeypatch.context() as patched:
        patched.setattr(BlockAscent, "visit", failing)
        with pytest.raises(Killed) as error:
            train(checkpoint=path, checkpoint_seconds=3600)
    assert "holds this run after round 4" in error.value.__notes__[0]
    rounds = []
    found = train(checkpoint=path, resume=True, callback=lambda now: rounds.append(now.passes))
    assert rounds[0] == 5
    assert_same_end(whole, found)


def kept(train, path, rounds, **options):
    """Have checkpoints of so many rounds."""

    def kill(progress):
        if progress.passes == rounds:
            raise Killed

    with pytest.raises(Killed):
        train(checkpoint=path, checkpoint_seconds=0, callback=kill, **options)


@pytest.mark.parametrize("what", ["planes", "missing planes"])
def test_a_damaged_checkpoint_and_the_one_before(what, tmp_path):
    """Damaged files that name planes are those of `test_resuming`."""
    path, train = tmp_path / "run.npz", RUNS["grown"]
    kept(train, path, 3)
    own = {path.name for path in planes_folder(path).iterdir()}
    assert len(own) == 6, "those of two rounds"
    target = max(planes_folder(path).iterdir(), key=lambda each: each.stat().st_mtime_ns)
    if "missing" in what:
        target.unlink()
    else:
        content = target.read_bytes()
        target.write_bytes(content[: len(content) // 2])
    with pytest.warns(RuntimeWarning, match="goes on from .*previous, after round 2"):
        found = train(checkpoint=path, resume=True)
    assert_same_end(train(), found)


def test_no_whole_checkpoint(tmp_path):
    path, train = tmp_path / "run.npz", RUNS["grown"]
    kept(train, path, 3)
    shutil.rmtree(planes_folder(path))
    with refused("None is whole: delete them to begin anew", error=DamagedFile):
        train(checkpoint=path, resume=True)


def test_planes_that_nobody_asks_for_are_removed(tmp_path):
    path, train = tmp_path / "run.npz", RUNS["grown, in files"]
    kept(train, path, 4)
    assert len(list(planes_folder(path).iterdir())) == 6
    train(checkpoint=path)  # another run in its place; its end has no planes
    assert len(list(planes_folder(path).iterdir())) in (0, 3), "those of the checkpoint before"
    train(checkpoint=path)
    assert not planes_folder(path).exists()


def test_checkpoints_of_other_runs_are_refused(tmp_path):
    path, train = tmp_path / "run.npz", RUNS["grown"]
    kept(train, path, 2)
    refused("blocks was 3, is 4", train, checkpoint=path, resume=True, blocks=4)
    x = CASE.x.astype("float32").copy()
    x[5, 0] += 1
    problem = CASE.problem("float32")
    options = {"settings": GROWN, "tolerance": 1e-4, "max_passes": 40, "checkpoint": path}
    with refused("other inputs"):
        fit_in_blocks(problem, x, CASE.y, C=20.0, blocks=3, resume=True, **options)
    refused("blocks was 3, is None", fit, problem, CASE.x, CASE.y, C=20.0, resume=True, **options)
    refused("is of fit_in_blocks", load_solution, path, problem)
    refused("folder is .*leave folder out", train, checkpoint=path, folder=tmp_path)
