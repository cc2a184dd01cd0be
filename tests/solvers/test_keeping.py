"""Checkpoints on the way: when they are written, what is in them, and runs that go on from one."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct.core.files import write_file
from jaxstruct.multiclass.structure import multiclass
from jaxstruct.solvers import checkpoint_files, keeping
from jaxstruct.solvers.checkpoints import load_solution
from jaxstruct.solvers.fit import fit
from jaxstruct.solvers.keeping import GOES_ON
from jaxstruct.solvers.settings import Settings
from jaxstruct.solvers.status import Status

N, K, D, C = 19, 5, 3, 5.0
SWEEPS = Settings(variant="subspace", cached_sweeps=4)
GROWN = SWEEPS._replace(working_sets="grown")
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(N, D))
Y = RANDOM.integers(0, K, N).astype(np.int32)


def train(problem, settings=SWEEPS, **options):
    return fit(problem, X, Y, "svm1_margin", C, settings=settings, **options)


def stopper(passes, error=None):
    """A callback that ends the run after so many passes."""

    def stop(progress):
        if progress.passes < passes:
            return False
        if error is not None:
            raise error
        return True

    return stop


@pytest.mark.parametrize("settings", [SWEEPS, GROWN])
def test_a_resumed_run_ends_as_one_that_was_not_interrupted(tmp_path, settings):
    path = tmp_path / "deep" / "run.npz"
    with jax.enable_x64(True):
        problem = multiclass(D, K, dtype="float64")
        whole = train(problem, settings, tolerance=1e-6, max_passes=500)
        with pytest.raises(KeyboardInterrupt):
            train(problem, settings, tolerance=1e-6, checkpoint=path, checkpoint_seconds=3600,
                  callback=stopper(3, KeyboardInterrupt))  # fmt: skip
        kept = load_solution(path, problem)
        assert kept.statistics.passes == 3 and kept.primal > whole.primal > whole.dual > kept.dual
        assert (kept.status, kept.message) == (Status.STOPPED, GOES_ON)
        assert kept.statistics.seconds["total"] > 0 and np.isfinite(kept.certificate.primal)
        more = train(problem, settings, tolerance=1e-6, max_passes=500, start=kept,
                     checkpoint=path)  # fmt: skip
        end = load_solution(path, problem)
    assert whole.status is more.status is end.status is Status.CONVERGED
    assert more.primal == pytest.approx(whole.primal, rel=2e-6) == end.primal
    np.testing.assert_allclose(
        more.weights["weights"], whole.weights["weights"], atol=2 * (2e-6 * whole.primal) ** 0.5
    )
    np.testing.assert_array_equal(end.weights["weights"], more.weights["weights"])
    assert len(more.trace.seconds) == 3 + more.statistics.passes


@pytest.mark.parametrize("settings", [SWEEPS, GROWN])
def test_checkpoints_change_nothing_of_a_run(tmp_path, settings):
    """Not even where a pass is made for one, since no round was certified yet."""
    problem, path = multiclass(D, K), tmp_path / "run.npz"
    plain = train(problem, settings, max_passes=6)
    kept = train(problem, settings, max_passes=6, checkpoint=path, checkpoint_seconds=0)
    for a, b in zip(plain.trace[3:], kept.trace[3:], strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(plain.weights["weights"], kept.weights["weights"])
    assert plain.statistics.oracle_calls == kept.statistics.oracle_calls


def test_a_checkpoint_is_written_when_its_time_has_come(tmp_path, monkeypatch):
    clock, seen, path = [0.0], [], tmp_path / "run.npz"
    monkeypatch.setattr(keeping.time, "monotonic", lambda: clock[0])

    def written(name, solution):
        seen.append((clock[0], solution.statistics.passes, solution.message == GOES_ON))

    monkeypatch.setattr(keeping, "save_solution", written)

    def tick(progress):
        clock[0] += 10

    found = train(multiclass(D, K), max_passes=7, tolerance=1e-5, callback=tick,
                  checkpoint=path, checkpoint_seconds=25)  # fmt: skip
    assert found.statistics.passes == 7
    assert seen == [(30, 4, True), (60, 7, True), (70, 7, False)] or seen == [
        (30, 4, True), (70, 7, False)
    ]  # fmt: skip


def test_a_checkpoint_is_whole_or_as_it_was(tmp_path, monkeypatch):
    """An error in the middle of writing leaves the file of before, and no other."""
    problem, path = multiclass(D, K), tmp_path / "run.npz"
    train(problem, max_passes=2, checkpoint=path)
    before = path.read_bytes()

    def broken(name, content):
        def half(file):
            file.write(b"half")
            raise OSError("no space left")

        return write_file(name, half)

    monkeypatch.setattr(checkpoint_files, "write_file", broken)
    with pytest.raises(OSError, match="no space left"):
        train(problem, max_passes=3, checkpoint=path, checkpoint_seconds=0)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "options, message",
    [
        ({"checkpoint": 3}, "checkpoint must be the path of a file, got 3"),
        ({"checkpoint": ""}, "checkpoint must be the path of a file, got ''"),
        ({"checkpoint": "."}, "checkpoint . is a folder: name a file in it"),
        ({"checkpoint_seconds": -1}, "checkpoint_seconds must be finite and >= 0, got -1"),
        ({"checkpoint_seconds": "1"}, "checkpoint_seconds must be finite and >= 0, one number"),
    ],
)
def test_the_door(options, message):
    with pytest.raises(ValueError, match=message) as error:
        train(multiclass(D, K), **options)
    assert "\n" not in str(error.value)


def test_weights_that_no_file_can_hold_are_refused_before_training(tmp_path):
    problem = multiclass(D, K)
    half = {name: leaf.astype(jnp.bfloat16) for name, leaf in problem.initial_weights.items()}
    with pytest.raises(ValueError, match="bfloat16.*cast bfloat16 to float32"):
        keeping.check_checkpoint(tmp_path / "run.npz", 60.0, problem._replace(initial_weights=half))
