"""Resumed runs end bit by bit as those that were not stopped; what does not fit is refused."""

from __future__ import annotations

import math
import re
import shutil
import warnings
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
import pytest

from jaxstruct import fit_in_blocks
from jaxstruct.core.archive import DamagedFile
from jaxstruct.core.processes import ALONE, Processes
from jaxstruct.core.status import Status
from jaxstruct.multiclass.structure import multiclass
from jaxstruct.solvers.checkpoints import resuming
from jaxstruct.solvers.checkpoints.resuming import check_number, last_whole, path_of
from jaxstruct.solvers.checkpoints.run_state import (
    load_solution,
    load_weights,
    previous_of,
    save_solution,
    save_weights,
)
from jaxstruct.solvers.checkpoints.session import CheckpointSession
from jaxstruct.solvers.fit import fit, fit_path
from jaxstruct.solvers.out_of_core.block_ascent import BlockAscent
from jaxstruct.solvers.out_of_core.fit_in_blocks import planes_folder
from jaxstruct.solvers.settings import Settings
from tests.lib.equality import assert_same
from tests.lib.refusals import refused
from tests.lib.thorough import thorough_after
from tests.solvers.cases import random_case
from tests.solvers.test_buckets import solved as bucketed_classes
from tests.solvers.test_fit_in_blocks import SUBSPACE

N, K, D, C = 14, 4, 5, 50.0
X, Y, *_ = random_case(0, n=N)
SWEEPS = Settings(variant="subspace", cached_sweeps=4)
GROWN = SWEEPS._replace(working_sets="grown", capacity=2, max_capacity=16)
TIMES = ("seconds", "processor_seconds", "compile_seconds")


def classes(settings, formulation="svm1_margin", C=C, **options):
    """A training of classes with these settings, to be given more options."""

    def train(**more):
        return fit(
            multiclass(D, K), X, Y, formulation, C, settings=settings,
            **{"tolerance": 1e-4, **options, **more},
        )  # fmt: skip

    return train


def auto(**more):
    """A training of classes in float64 that goes over to the full variant."""
    options = {"settings": Settings(cached_sweeps=1), "tolerance": 1e-5, "max_passes": 60} | more
    with jax.enable_x64(True):
        return random_case(3, n=14).fit("svm2", 2000.0, **options)


def buckets(**more):
    """Classes in three buckets, their examples at random."""
    with jax.enable_x64(True):
        return bucketed_classes(random_case(3, sparse=True), **more)


class Killed(Exception):
    """What a killed process is to a test: nothing after it runs."""


def killed_after(rounds, monkeypatch):
    """Have a run end after so many of its own rounds, and write nothing more."""

    def callback(progress):
        callback.seen += 1
        if callback.seen == rounds:
            raise Killed

    callback.seen = 0
    monkeypatch.setattr(CheckpointSession, "stop", lambda session, error: None)
    return callback


def assert_same_end(whole, found):
    assert found.status is whole.status and found.message == whole.message
    both = [
        (run.weights, run.state, run.slack, run.details, run.certificate, run.primal, run.dual)
        for run in (whole, found)
    ]
    assert_same(*both)
    for name in set(whole.trace._fields) - set(TIMES):
        np.testing.assert_array_equal(getattr(whole.trace, name), getattr(found.trace, name))
    kept = set(whole.statistics._fields) - {"seconds", "history", "compilations"}
    for name in kept:
        assert getattr(whole.statistics, name) == getattr(found.statistics, name), name


RUNS = {
    "enumerated": classes(SWEEPS),
    "grown": classes(GROWN, max_passes=25),
    "auto": auto,
    "hard": classes(SWEEPS, "svm0", max_passes=8),
    "buckets": buckets,
}


def killed_again_and_again(train, path, monkeypatch):
    """A run killed after 1, 2, 3, ... of its own rounds; every other time after one not kept."""
    parts, lost = 0, 0
    while True:
        parts += 1
        seconds = 0 if parts % 2 else 3600
        rounds = 1 + parts // 2
        with monkeypatch.context() as patched:
            kill = killed_after(rounds, patched)
            try:
                found = train(
                    checkpoint=path, checkpoint_seconds=seconds, resume=True, callback=kill
                )
                break
            except Killed:
                lost += rounds * (seconds > 0)
        assert parts < 40
    assert parts > 2 and lost > 0
    return found


@pytest.mark.parametrize("name", thorough_after(2, RUNS))
def test_killed_and_resumed_again_and_again(name, tmp_path, monkeypatch):
    whole = RUNS[name]()
    found = killed_again_and_again(RUNS[name], tmp_path / "run.npz", monkeypatch)
    if name == "grown":
        assert found.statistics.capacity > 2
    if name == "auto":
        assert whole.state.full == 1
    if name == "buckets":
        assert len(found.state.sets.outputs) > 1
    assert_same_end(whole, found)


def test_seconds_add_up_over_the_parts(tmp_path):
    train, path = RUNS["enumerated"], tmp_path / "run.npz"
    train(max_passes=500, checkpoint=path, callback=lambda progress: progress.passes == 2)
    first = load_solution(path, multiclass(D, K)).trace
    found = train(checkpoint=path, resume=True)
    trace = found.trace
    for name in TIMES:
        column = getattr(trace, name)
        np.testing.assert_array_equal(column[:2], getattr(first, name))
        assert (np.diff(column) >= 0).all()
    assert found.statistics.seconds["total"] >= trace.seconds[-1] > first.seconds[-1] > 0


@pytest.mark.thorough
def test_a_run_that_was_started_from_a_solution(tmp_path):
    """The trace of before stays in front, and another start is another run."""
    train, path = RUNS["grown"], tmp_path / "run.npz"
    start = train(max_passes=2)
    whole = train(start=start)
    train(start=start, checkpoint=path, callback=lambda progress: progress.passes == 3)
    found = train(start=start, checkpoint=path, resume=True)
    assert_same_end(whole, found)
    assert len(found.trace.seconds) == 2 + found.statistics.passes
    message = "of another run: other start. Give"
    for other in (None, start._replace(C=2 * start.C)):  # multipliers are scaled by C / C before
        refused(message, train, start=other, checkpoint=path, resume=True)


def test_a_run_that_has_ended_is_not_run_again(tmp_path):
    train, path = RUNS["grown"], tmp_path / "run.npz"
    whole = train(checkpoint=path, resume=True)  # no file yet: a new run
    before = path.read_bytes()

    def never(progress):
        raise AssertionError("a round was made")

    again = train(checkpoint=path, resume=True, callback=never)
    assert_same_end(whole, again)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "change, message",
    [
        ({"C": 51.0}, r"of another run: C was 50.0, is 51.0\. Give what it was made with"),
        ({"tolerance": 1e-3}, "tolerance was 0.0001, is 0.001"),
        ({"max_passes": 30}, "max_passes was 25, is 30"),
        ({"epsilon": 0.1}, "epsilon was None, is 0.1"),
        ({"formulation": "svm1"}, "formulation.name was 'svm1_margin', is 'svm1'"),
        ({"settings": GROWN._replace(seed=3)}, r"run: settings.seed was 0, is 3\."),
        ({"inputs": X + 1e-6}, r"run: other inputs\."),
        ({"outputs": Y[::-1]}, r"run: other outputs\."),
        ({"example_weights": np.ones(N)}, r"run: other example_weights\."),
        ({"problem": multiclass(D, K, loss=2 - 2 * np.eye(K))}, r"run: other problem\."),
    ],
)
def test_another_run_is_refused(change, message, tmp_path, ended):
    given = {
        "problem": multiclass(D, K), "inputs": X, "outputs": Y, "formulation": "svm1_margin",
        "C": C, "settings": GROWN, "tolerance": 1e-4, "max_passes": 25,
    }  # fmt: skip
    refused(message, fit, **{**given, **change}, checkpoint=ended, resume=True)
    assert ended.exists()


def test_another_version_or_machine_is_refused(ended, monkeypatch):
    """On another number of cores digits ended with other bits."""
    with monkeypatch.context() as patched:
        patched.setattr(jax, "__version__", "9.8.7")
        with refused(f"jax was '{jax.version.__version__}', is '9.8.7'"):
            RUNS["grown"](checkpoint=ended, resume=True)
    cores = resuming._cores()
    monkeypatch.setattr(resuming, "_cores", lambda: 4096)
    with refused(f"another run: cores was {cores}, is 4096. Give"):
        RUNS["grown"](checkpoint=ended, resume=True)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """The files of a run of round 4, with round 3 before it, and what the run ends as."""
    path = tmp_path_factory.mktemp("kept") / "run.npz"
    train = RUNS["grown"]
    whole = train()
    train(checkpoint=path, checkpoint_seconds=0, callback=lambda progress: progress.passes == 4)
    return path, whole


@pytest.fixture
def ended(kept, tmp_path):
    """A copy of both files."""
    path = tmp_path / "run.npz"
    shutil.copy(kept[0], path)
    shutil.copy(previous_of(kept[0]), previous_of(path))
    return path


def cut_off(path):
    path.write_bytes(path.read_bytes()[:-200])


def bit_flipped(path):
    content = bytearray(path.read_bytes())
    with np.load(path) as stored:
        content[content.find(stored["found.state.sets.multipliers"].tobytes()) + 50] ^= 4
    path.write_bytes(bytes(content))


@pytest.mark.parametrize(
    ("damage", "words"),
    [(cut_off, "is damaged"), (bit_flipped, "is damaged"), (Path.unlink, "is not there")],
)
def test_of_a_damaged_file_the_one_before_is_used(damage, words, kept, ended):
    damage(ended)
    with pytest.warns(RuntimeWarning, match=f"{words}.*goes on from .*previous, after round 3"):
        found = RUNS["grown"](checkpoint=ended, resume=True, checkpoint_seconds=3600)
    assert_same_end(kept[1], found)
    # what was damaged did not take the place of what is whole
    assert load_solution(previous_of(ended), multiclass(D, K)).statistics.passes == 3


def test_where_nothing_is_whole_the_run_does_not_begin_anew_in_silence(ended):
    cut_off(ended)
    bit_flipped(previous_of(ended))
    with refused(r"run.npz does not end .*previous .*None is whole: delete them"):
        RUNS["grown"](checkpoint=ended, resume=True)
    previous_of(ended).unlink()
    with refused("run.npz does not end .*None is whole: delete them"):
        RUNS["grown"](checkpoint=ended, resume=True)


def test_files_that_hold_no_run_are_refused(tmp_path):
    path, whole = tmp_path / "run.npz", RUNS["grown"](max_passes=2)
    for save in (lambda: save_solution(path, whole), lambda: save_weights(path, whole.weights)):
        save()
        with refused("holds no run to resume.*start=load_solution"):
            RUNS["grown"](checkpoint=path, resume=True)


def test_a_path_of_several_C_is_not_resumed(tmp_path):
    with refused("resume=True is for fit"):
        next(
            fit_path(multiclass(D, K), X, Y, "svm1", [1.0], checkpoint=tmp_path / "a", resume=True)
        )


def test_a_checkpoint_on_the_way_is_a_solution_too(kept):
    found = load_solution(kept[0], multiclass(D, K))
    assert found.status is Status.STOPPED and found.statistics.passes == 4
    assert math.isfinite(found.gap) and math.isfinite(found.certificate.primal)
    assert found.primal >= kept[1].dual and found.dual <= kept[1].primal


class Two(Processes):
    """The first of two processes, the other of which holds these rounds."""

    def __init__(self, other=()):
        super().__init__()
        self.numbers, self.other = (0, 1), [[[number, False] for number in other], []]

    def agree(self, act):
        return act()

    def gather(self, own):
        return [own, self.other]


class Held(NamedTuple):
    round: tuple[int, bool]
    damaged: bool = False


def found(tmp_path, own, other):
    """(round, newer) of a process whose files hold these rounds; 0 is damaged, None is missing."""
    files = dict(zip(("run.process0", "run.process0.previous"), own, strict=True))

    def read(path):
        number = files[path.name]
        if number is None:
            raise FileNotFoundError
        if number == 0:
            raise DamagedFile(f"{path.name} is damaged")
        return Held((number, False))

    end = last_whole(Two(other), tmp_path / "run.process0", read)
    return None if end is None else (end.round[0], end.damaged)


@pytest.mark.parametrize(
    ("own", "other", "expected", "warned"),
    [
        ((7, 5), (7, 5), (7, False), None),
        ((7, 5), (5, 3), (5, True), "rounds. The run goes on from .*previous, after"),
        ((5, 3), (7, 5), (5, False), None),
        ((0, 5), (7, 5), (5, True), "is damaged"),
        ((None, None), (), None, None),
        ((3, None), (), None, "The run begins anew"),
        ((None, None), (3,), None, "process 0 holds none; process 1 holds round 3"),
    ],
)
def test_the_last_round_that_both_hold(tmp_path, recwarn, own, other, expected, warned):
    assert found(tmp_path, own, other) == expected
    words = " ".join(str(each.message) for each in recwarn)
    assert re.search(warned, words) if warned else not words


@pytest.mark.parametrize(("own", "other"), [((7, 5), ()), ((7, 5), (6, 4)), ((0, 0), (7, 5))])
def test_no_round_in_common_is_refused(tmp_path, own, other):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of damaged files
        refused("hold no round in common: process 0", found, tmp_path, own, other)


def test_files_of_another_number_of_processes_are_refused(tmp_path):
    checkpoint = tmp_path / "run.npz"
    assert path_of(checkpoint, ALONE) == checkpoint
    assert path_of(checkpoint, Two()) == tmp_path / "run.npz.process0"
    for name in ("run.npz.previous", "other.npz.process7"):
        (tmp_path / name).touch()
    check_number(checkpoint, ALONE)
    (tmp_path / "run.npz.process1").touch()
    check_number(checkpoint, Two())
    with refused(r"another number of processes than 1.*run.npz.process1"):
        check_number(checkpoint, ALONE)
    (tmp_path / "run.npz.process2.previous").touch()
    with refused("number of processes than 2: .*process2.previous"):
        check_number(checkpoint, Two())
    (tmp_path / "run.npz.process2.previous").unlink()
    checkpoint.touch()
    with refused("number of processes than 2: .*run.npz. Resume"):
        check_number(checkpoint, Two())


CASE = random_case(3, n=36)


def classes_in_blocks(settings=SUBSPACE, formulation="svm1_margin", C=20.0, **options):
    """A training in blocks, with the programs of `test_fit_in_blocks`, to be given more options."""

    def train(**more):
        return fit_in_blocks(
            CASE.problem(), CASE.x, CASE.y, formulation, C,
            **{"settings": settings, "tolerance": 1e-4, "blocks": 3, "max_passes": 40}
            | options | more,
        )  # fmt: skip

    return train


BLOCK_RUNS = {
    "grown": classes_in_blocks(),
    "grown, in files": classes_in_blocks(block_bytes=1),
    "slots that double": classes_in_blocks(SUBSPACE._replace(capacity=2)),
    "enumerated": classes_in_blocks(SUBSPACE._replace(working_sets="enumerated")),
}


@pytest.mark.parametrize(
    "name", thorough_after(1, ["grown, in files", "slots that double", "enumerated"])
)
def test_a_run_that_is_killed_again_and_again(x64, name, tmp_path, monkeypatch):
    train, path = BLOCK_RUNS[name], tmp_path / "run.npz"
    whole = train()
    assert whole.statistics.passes > 3
    assert_same_end(whole, killed_again_and_again(train, path, monkeypatch))
    assert_same_end(whole, train(checkpoint=path, resume=True)), "the end is read again"
    assert_same(whole.weights, load_weights(path, CASE.problem()))


@pytest.mark.thorough
def test_an_error_in_the_middle_of_a_round_costs_that_round(x64, tmp_path, monkeypatch):
    """The planes of the last whole round are still there."""
    path, train = tmp_path / "run.npz", BLOCK_RUNS["grown, in files"]
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


def keep(train, path, rounds, **options):
    """Have checkpoints of so many rounds."""

    def kill(progress):
        if progress.passes == rounds:
            raise Killed

    with pytest.raises(Killed):
        train(checkpoint=path, checkpoint_seconds=0, callback=kill, **options)


@pytest.mark.parametrize("what", ["planes", "missing planes"])
def test_a_damaged_checkpoint_and_the_one_before(x64, what, tmp_path):
    """Damaged files that name planes are those of the tests above."""
    path, train = tmp_path / "run.npz", BLOCK_RUNS["grown"]
    keep(train, path, 3)
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


def test_planes_that_nobody_asks_for_are_removed(x64, tmp_path):
    path, train = tmp_path / "run.npz", BLOCK_RUNS["grown, in files"]
    keep(train, path, 4)
    assert len(list(planes_folder(path).iterdir())) == 6
    train(checkpoint=path)  # another run in its place; its end has no planes
    assert len(list(planes_folder(path).iterdir())) in (0, 3), "those of the checkpoint before"
    train(checkpoint=path)
    assert not planes_folder(path).exists()


def test_checkpoints_of_other_runs_are_refused(x64, tmp_path):
    path, train = tmp_path / "run.npz", BLOCK_RUNS["grown"]
    keep(train, path, 2)
    refused("blocks was 3, is 4", train, checkpoint=path, resume=True, blocks=4)
    x = CASE.x.copy()
    x[5, 0] += 1
    problem = CASE.problem()
    options = {"settings": SUBSPACE, "tolerance": 1e-4, "max_passes": 40, "checkpoint": path}
    with refused("other inputs"):
        fit_in_blocks(problem, x, CASE.y, C=20.0, blocks=3, resume=True, **options)
    refused("blocks was 3, is None", fit, problem, CASE.x, CASE.y, C=20.0, resume=True, **options)
    refused("is of fit_in_blocks", load_solution, path, problem)
    refused("folder is .*leave folder out", train, checkpoint=path, folder=tmp_path)
    shutil.rmtree(planes_folder(path))
    with refused("None is whole: delete them to begin anew", error=DamagedFile):
        train(checkpoint=path, resume=True)
