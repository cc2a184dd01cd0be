"""Resumed runs end bit by bit as those that were not stopped; what does not fit is refused."""

from __future__ import annotations

import math
import shutil

import jax
import numpy as np
import pytest

from jaxstruct.chains.structure import chain, chain_inputs
from jaxstruct.core.buckets import Buckets
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.status import Status
from jaxstruct.multiclass.structure import multiclass
from jaxstruct.solvers.checkpoints import resuming
from jaxstruct.solvers.checkpoints.run_state import (
    load_solution,
    previous_of,
    save_solution,
    save_weights,
)
from jaxstruct.solvers.checkpoints.session import CheckpointSession
from jaxstruct.solvers.fit import fit, fit_path
from jaxstruct.solvers.settings import Settings
from tests.lib.refusals import refused
from tests.lib.thorough import thorough_after

N, K, D, C = 40, 5, 3, 50.0
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(N, D))
Y = RANDOM.integers(0, K, N).astype(np.int32)
SWEEPS = Settings(variant="subspace", cached_sweeps=4)
GROWN = SWEEPS._replace(working_sets="grown", capacity=2, max_capacity=16)
ROOM = GROWN._replace(capacity=8)
"""Slots enough from the counters: every number of slots compiles programs of its own."""
TIMES = ("seconds", "processor_seconds", "compile_seconds")


def classes(settings, formulation="svm1_margin", C=C, **options):
    """A training of classes with these settings, to be given more options."""

    def train(**more):
        return fit(
            multiclass(D, K), X, Y, formulation, C, settings=settings,
            **{"tolerance": 1e-4, **options, **more},
        )  # fmt: skip

    return train


def sequences(**more):
    """Label sequences from a ragged store."""
    random = np.random.default_rng(1)
    offsets = np.concatenate([[0], np.cumsum(random.integers(1, 6, 24))])
    labels = random.integers(0, 3, offsets[-1]).astype(np.int32)
    features = (random.normal(size=(offsets[-1], 4)) + np.eye(3, 4)[labels]).astype(np.float32)
    inputs, outputs = chain_inputs(Ragged(features, offsets)), Ragged(labels, offsets, -1)
    return fit(chain(4, 3), inputs, outputs, C=20.0, settings=ROOM, tolerance=1e-2, **more)


def buckets(settings=ROOM, **more):
    """Classes in two buckets, their examples at random."""
    order = np.random.default_rng(2).permutation(N)
    index = order[:25], order[25:]
    inputs, outputs = (Buckets(tuple(data[own] for own in index), index) for data in (X, Y))
    return fit(multiclass(D, K), inputs, outputs, C=C, settings=settings, tolerance=1e-3, **more)


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
    assert jax.tree.structure(both[0]) == jax.tree.structure(both[1])
    for a, b in zip(*map(jax.tree.leaves, both), strict=True):
        assert np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_array_equal(a, b)
    for name in set(whole.trace._fields) - set(TIMES):
        np.testing.assert_array_equal(getattr(whole.trace, name), getattr(found.trace, name))
    kept = set(whole.statistics._fields) - {"seconds", "history", "compilations"}
    for name in kept:
        assert getattr(whole.statistics, name) == getattr(found.statistics, name), name


RUNS = {
    "enumerated": classes(SWEEPS),
    "grown": classes(GROWN, max_passes=25),
    "full": classes(Settings(variant="full", working_sets="grown", capacity=4), max_passes=12),
    "auto": classes(Settings(cached_sweeps=1), "svm2", 2000.0, tolerance=1e-5, max_passes=60),
    "hard": classes(SWEEPS, "svm0", max_passes=8),
    "sequences": sequences,
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


@pytest.mark.parametrize("damage", [cut_off, bit_flipped])
def test_of_a_damaged_file_the_one_before_is_used(damage, kept, ended):
    damage(ended)
    with pytest.warns(RuntimeWarning, match="is damaged.*goes on from .*previous, after round 3"):
        found = RUNS["grown"](checkpoint=ended, resume=True, checkpoint_seconds=3600)
    assert_same_end(kept[1], found)
    # what was damaged did not take the place of what is whole
    assert load_solution(previous_of(ended), multiclass(D, K)).statistics.passes == 3


def test_of_a_missing_file_the_one_before_is_used(kept, ended):
    ended.unlink()
    with pytest.warns(RuntimeWarning, match="run.npz is not there. The run goes on from"):
        assert_same_end(kept[1], RUNS["grown"](checkpoint=ended, resume=True))


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
