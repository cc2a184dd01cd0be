"""Checkpoints on the way: when they are written, what is in them, and what a full disk does."""

from __future__ import annotations

import errno
import os
import re
import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct.core import archive
from jaxstruct.core.status import Status
from jaxstruct.multiclass.structure import multiclass
from jaxstruct.solvers.checkpoints import session as checkpoint_writer
from jaxstruct.solvers.checkpoints.run_state import check_checkpoint, load_solution
from jaxstruct.solvers.checkpoints.session import GOES_ON
from jaxstruct.solvers.fit import fit
from jaxstruct.solvers.settings import Settings
from tests.lib.refusals import refused

N, K, D, C = 19, 5, 3, 5.0
SWEEPS = Settings(variant="subspace", cached_sweeps=4)
GROWN = SWEEPS._replace(working_sets="grown")
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(N, D))
Y = RANDOM.integers(0, K, N).astype(np.int32)


def train(problem, settings=SWEEPS, **options):
    return fit(problem, X, Y, "svm1_margin", C, settings=settings, **options)


@pytest.fixture
def usual_signals():
    """Python's own handler of Ctrl-C, which programs in the background are made to ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield signal.default_int_handler, signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGINT, before)


def stopper(passes, error=None):
    """A callback that ends the run after so many passes."""

    def stop(progress):
        if progress.passes < passes:
            return False
        if error is not None:
            raise error
        return True

    return stop


def test_a_run_started_from_a_checkpoint_ends_at_the_same_optimum(tmp_path):
    path = tmp_path / "deep" / "run.npz"
    with jax.enable_x64(True):
        problem = multiclass(D, K, dtype="float64")
        whole = train(problem, GROWN, tolerance=1e-6, max_passes=500)
        with pytest.raises(KeyboardInterrupt):
            train(problem, GROWN, tolerance=1e-6, checkpoint=path, checkpoint_seconds=3600,
                  callback=stopper(3, KeyboardInterrupt))  # fmt: skip
        kept = load_solution(path, problem)
        assert kept.statistics.passes == 3 and kept.primal > whole.primal > whole.dual > kept.dual
        assert (kept.status, kept.message) == (Status.STOPPED, GOES_ON)
        assert kept.statistics.seconds["total"] > 0 and np.isfinite(kept.certificate.primal)
        more = train(problem, GROWN, tolerance=1e-6, max_passes=500, start=kept,
                     checkpoint=path)  # fmt: skip
        end = load_solution(path, problem)
    assert whole.status is more.status is end.status is Status.CONVERGED
    assert more.primal == pytest.approx(whole.primal, rel=2e-6) == end.primal
    np.testing.assert_allclose(
        more.weights["weights"], whole.weights["weights"], atol=2 * (2e-6 * whole.primal) ** 0.5
    )
    np.testing.assert_array_equal(end.weights["weights"], more.weights["weights"])
    assert len(more.trace.seconds) == 3 + more.statistics.passes


def test_a_checkpoint_is_written_when_its_time_has_come(tmp_path, monkeypatch):
    clock, seen, path = [0.0], [], tmp_path / "run.npz"
    monkeypatch.setattr(checkpoint_writer.time, "monotonic", lambda: clock[0])

    def written(name, file, previous, ready):
        seen.append((clock[0], file.found.statistics.passes, file.found.message == GOES_ON))
        assert previous == tmp_path / "run.npz.previous"

    monkeypatch.setattr(checkpoint_writer, "write_checkpoint", written)

    def tick(progress):
        clock[0] += 10

    found = train(multiclass(D, K), max_passes=7, tolerance=1e-5, callback=tick,
                  checkpoint=path, checkpoint_seconds=25)  # fmt: skip
    assert found.statistics.passes == 7
    assert seen == [(30, 4, True), (60, 7, True), (70, 7, False)] or seen == [
        (30, 4, True), (70, 7, False)
    ]  # fmt: skip


def full_disk(monkeypatch, holds):
    """A disk with room for so many checkpoints, and half of one more."""
    written, save = [], archive.dump

    def dump(file, *given, **options):
        save(file, *given, **options)
        written.append(file)
        if len(written) > holds:
            file.truncate(file.tell() // 2)
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(archive, "dump", dump)
    return written


def test_a_full_disk_costs_checkpoints_and_not_the_run(tmp_path, monkeypatch):
    """It is reported on the way and at the end, once each; the file of before stays alone."""
    problem, path = multiclass(D, K), tmp_path / "run.npz"
    whole = train(problem, max_passes=7, tolerance=1e-5)
    written = full_disk(monkeypatch, 2)
    with pytest.warns(RuntimeWarning) as warned:
        found = train(problem, max_passes=7, tolerance=1e-5, checkpoint=path, checkpoint_seconds=0)
    messages = [str(warning.message) for warning in warned]
    assert len(written) == 7 and len(messages) == 2
    why = rf"\(\[Errno 28\] No space left on device: '{path}'\)"
    start = f"checkpoint {path} could not be written "
    end = "; the file holds round 2 of this run"
    assert re.fullmatch(f"{start}after round 3 {why}. The run goes on{end}", messages[0])
    assert re.fullmatch(f"{start}at the end .* {why}. .* save_solution{end}", messages[1])
    assert {warning.filename for warning in warned} == {__file__}
    np.testing.assert_array_equal(found.weights["weights"], whole.weights["weights"])
    assert load_solution(path, problem).statistics.passes == 2
    assert {file.name for file in tmp_path.iterdir()} == {"run.npz", "run.npz.previous"}
    monkeypatch.undo()
    again = train(problem, max_passes=7, tolerance=1e-5, checkpoint=path, resume=True)
    np.testing.assert_array_equal(again.weights["weights"], whole.weights["weights"])


def test_a_disk_that_has_room_again_is_warned_of_again(tmp_path, monkeypatch):
    problem, path, save = multiclass(D, K), tmp_path / "run.npz", archive.dump
    written = []

    def dump(file, *given, **options):
        written.append(file)
        if len(written) in (1, 2, 4):
            raise OSError(errno.EDQUOT, "Disk quota exceeded")
        save(file, *given, **options)

    monkeypatch.setattr(archive, "dump", dump)
    with pytest.warns(RuntimeWarning) as warned:
        train(problem, max_passes=6, tolerance=1e-5, checkpoint=path, checkpoint_seconds=0)
    rounds = [re.findall(r"round \d|nothing", str(warning.message)) for warning in warned]
    assert rounds == [["round 1", "nothing"], ["round 4", "round 3"]]


def test_a_folder_that_nobody_can_write_to_is_reported_before_training(tmp_path):
    (tmp_path / "file").write_text("")
    with refused("checkpoint: nothing .*file.*: ", error=OSError):
        train(multiclass(D, K), checkpoint=tmp_path / "file" / "run.npz", callback=stopper(1))


def test_half_a_file_of_a_killed_run_is_removed(tmp_path):
    for name in (".run.npz.0123abcd.part", ".run.npz.0123.part", ".run2npz.0123abcd.part"):
        (tmp_path / name).write_text("half")
    train(multiclass(D, K), max_passes=1, checkpoint=tmp_path / "run.npz")
    names = {file.name for file in tmp_path.iterdir()}
    assert names == {"run.npz", ".run.npz.0123.part", ".run2npz.0123abcd.part"}


ENDS = {
    "ctrl-c": KeyboardInterrupt, "sigterm": SystemExit, "swallowed": SystemExit,
    "error": ZeroDivisionError,
}  # fmt: skip


@pytest.mark.parametrize("kind", ENDS)
def test_what_ends_a_run_leaves_a_checkpoint_and_a_word(tmp_path, kind, capsys, usual_signals):
    """Also a signal that other code makes an error of, as JAX where it compares arguments."""
    problem, path = multiclass(D, K), tmp_path / "run.npz"

    def end(progress):
        if progress.passes == 3:
            if kind == "error":
                raise ZeroDivisionError("mine")
            try:
                os.kill(os.getpid(), signal.SIGINT if kind == "ctrl-c" else signal.SIGTERM)
            except SystemExit:
                if kind == "swallowed":
                    raise ValueError("metadata fields of pytree") from None
                raise

    with pytest.raises(ENDS[kind]) as ended:
        train(problem, tolerance=1e-5, checkpoint=path, callback=end)
    words = (
        f"{path} holds this run after round 3; the same call with resume=True goes on from there"
    )
    assert ended.value.__notes__ == [words]
    assert capsys.readouterr().err == (words + "\n" if ENDS[kind] is SystemExit else "")
    if ENDS[kind] is SystemExit:
        assert ended.value.code == 143
    assert load_solution(path, problem).statistics.passes == 3
    assert usual_signals == (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))


def test_a_second_interrupt_leaves_at_once(tmp_path, monkeypatch, usual_signals):
    """It ends the saving that the first began; what was there before stays."""
    problem, path = multiclass(D, K), tmp_path / "run.npz"
    train(problem, max_passes=2, checkpoint=path)
    before = path.read_bytes()

    def dump(file, *given, **options):
        file.write(b"half")
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("nobody comes here")

    monkeypatch.setattr(archive, "dump", dump)
    with pytest.raises(KeyboardInterrupt):
        train(problem, checkpoint=path, callback=stopper(2, KeyboardInterrupt))
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_kept_at_the_end_of_an_interrupted_run_is_said(tmp_path, monkeypatch):
    full_disk(monkeypatch, 0)
    with pytest.raises(KeyboardInterrupt) as ended:
        train(
            multiclass(D, K), checkpoint=tmp_path / "a.npz", callback=stopper(2, KeyboardInterrupt)
        )
    [words] = ended.value.__notes__
    assert words.startswith("The last rounds could not be kept ([Errno 28] No space left")
    assert words.endswith("a.npz holds nothing of this run yet")
    assert not list(tmp_path.iterdir())


def test_a_run_that_its_callback_stops_may_go_on(tmp_path):
    """The file holds the round, not the certificate that the stopped run was given."""
    problem, path = multiclass(D, K), tmp_path / "run.npz"
    whole = train(problem, GROWN, tolerance=1e-5)
    part = train(problem, GROWN, tolerance=1e-5, checkpoint=path, callback=stopper(3))
    assert part.status is Status.STOPPED and part.message != GOES_ON
    more = train(problem, GROWN, tolerance=1e-5, checkpoint=path, resume=True)
    assert more.status is Status.CONVERGED
    np.testing.assert_array_equal(more.weights["weights"], whole.weights["weights"])
    assert more.statistics.oracle_calls == whole.statistics.oracle_calls


@pytest.mark.parametrize(
    "options, message",
    [
        ({"checkpoint": 3}, "checkpoint must be the path of a file, got 3"),
        ({"checkpoint": ""}, "checkpoint must be the path of a file, got ''"),
        ({"checkpoint": "."}, "checkpoint . is a folder: name a file in it"),
        ({"resume": True}, "resume=True needs checkpoint=, the file of the run to go on with"),
        ({"checkpoint": "a", "resume": 1}, "resume must be True or False, got 1"),
        ({"checkpoint_seconds": -1}, "checkpoint_seconds must be finite and >= 0, got -1"),
        ({"checkpoint_seconds": "1"}, "checkpoint_seconds must be finite and >= 0, one number"),
    ],
)
def test_refusals(options, message):
    refused(message, lambda: train(multiclass(D, K), **options))


def test_weights_that_no_file_can_hold_are_refused_before_training(tmp_path):
    problem = multiclass(D, K)
    half = {name: leaf.astype(jnp.bfloat16) for name, leaf in problem.initial_weights.items()}
    with refused("bfloat16.*cast bfloat16 to float32"):
        check_checkpoint(tmp_path / "run.npz", 60.0, False, problem._replace(initial_weights=half))
