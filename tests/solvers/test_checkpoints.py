"""Checkpoints: exact round trips, files that do not fit, when they are written, full disks."""

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
from jaxstruct.core.archive import DamagedFile
from jaxstruct.core.status import Status
from jaxstruct.multiclass.structure import kernel_multiclass, multiclass
from jaxstruct.solvers.checkpoints import session as checkpoint_writer
from jaxstruct.solvers.checkpoints.run_state import (
    CHECKPOINT,
    Checkpoint,
    check_checkpoint,
    load_solution,
    load_weights,
    save_solution,
    save_weights,
)
from jaxstruct.solvers.checkpoints.session import GOES_ON
from jaxstruct.solvers.fit import fit
from jaxstruct.solvers.predict import predict
from jaxstruct.solvers.settings import Settings
from tests.lib.equality import assert_same
from tests.lib.refusals import refused

N, K, D = 16, 4, 5
C = 8.0
_SETS = "found.state.sets."
SWEEPS = Settings(variant="subspace", cached_sweeps=1)  # quick to compile


def data(seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(N, D))
    y = np.argmax(X @ random.normal(size=(D, K)) + random.normal(size=(N, K)), 1).astype(np.int32)
    return X, y


@pytest.fixture
def saved(tmp_path):
    """(path, problem, solution) of a short float32 run."""
    problem, path = multiclass(D, K), tmp_path / "run.npz"
    solution = fit(problem, *data(), "svm1", C, max_passes=3, tolerance=1e-5, settings=SWEEPS)
    save_solution(path, solution)
    return path, problem, solution


def rewritten(path, change):
    """The file with change(header, arrays) applied."""
    file = Checkpoint(path)
    change(file.header, file.arrays)
    archive.write(path, CHECKPOINT, file.header, file.arrays)


def fields(header, *names):
    """The fields of a record within records of what was found."""
    own = header["found"]["record"][1]
    for name in names:
        own = own[name]["record"][1]
    return own


@pytest.mark.parametrize(
    ("variant", "formulation", "dtype"),
    [("subspace", "svm0", "float32"), ("full", "svm1_margin", "float64")],
)
def test_every_leaf_comes_back_bit_by_bit(tmp_path, variant, formulation, dtype):
    with jax.enable_x64(dtype == "float64"):
        problem = multiclass(D, K, dtype=dtype)
        solution = fit(
            problem, *data(), formulation, C, max_passes=4, tolerance=1e-5,
            settings=SWEEPS._replace(variant=variant),
        )  # fmt: skip
        save_solution(tmp_path / "run.npz", solution)
        loaded = load_solution(tmp_path / "run.npz", problem)
    assert_same(solution, loaded, kinds=True)
    assert isinstance(loaded.status, Status)
    assert loaded.statistics._fields == solution.statistics._fields


@pytest.mark.smoke
def test_weights_alone_predict_the_same(tmp_path, saved):
    path, problem, solution = saved
    alone = tmp_path / "weights.npz"
    save_weights(alone, solution.weights)
    for file in (alone, path):  # a solution's file holds its weights
        weights = load_weights(file, problem)
        assert_same(solution.weights, weights, kinds=True)
        np.testing.assert_array_equal(
            predict(problem, weights, data()[0]), predict(problem, solution.weights, data()[0])
        )
    refused("holds weights alone: read it with load_weights", load_solution, alone, problem)


def test_outputs_in_containers_keep_their_structure(saved):
    """Of dicts, tuples and lists; those in records are said, in `test_known`."""
    path, problem, solution = saved
    (labels,) = (sets := solution.state.sets).outputs
    both = labels, [jnp.asarray(np.asarray(labels) + 1)]
    sets = sets._replace(outputs=({"label": labels, "more": both},))
    wrapped = solution._replace(state=solution.state._replace(sets=sets))
    save_solution(path, wrapped)
    assert_same(wrapped, load_solution(path, problem), kinds=True)


def test_a_failed_write_leaves_the_old_file(saved, monkeypatch):
    """And what is written again is the same."""
    path, problem, solution = saved
    rewritten(path, lambda header, arrays: None)

    def broken(stream, *given, **options):
        stream.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(archive, "dump", broken)
    with refused("disk full", error=OSError):
        save_weights(path, solution.weights)
    monkeypatch.undo()
    assert_same(solution, load_solution(path, problem), kinds=True)
    assert [file.name for file in path.parent.iterdir()] == ["run.npz"]
    save_weights(path, solution.weights)  # and a whole write replaces it
    assert_same(solution.weights, load_weights(path, problem), kinds=True)


def test_files_of_another_kind_are_refused(tmp_path):
    problem, path = multiclass(D, K), tmp_path / "other.npz"
    with pytest.raises(FileNotFoundError):
        load_solution(path, problem)
    np.savez(path, weights=np.zeros((D, K)))
    with refused("does not end in its digest", error=DamagedFile):
        load_weights(path, problem)
    with open(path, "w+b") as stream:
        archive.dump(stream, CHECKPOINT._replace(format="other"), {}, {})
    with refused("is of no format 'jaxstruct-checkpoint'"):
        load_weights(path, problem)
    path.write_text("plain text")
    with refused("is no checkpoint, or cut off: write one with save_sol", error=DamagedFile):
        load_weights(path, problem)


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda h, a: h.update(version=1), "is of version 1 .* this jaxstruct reads 8"),
        (lambda h, a: h.pop("found"), "does not hold together: 'found'"),
        (lambda h, a: h.update(found=None), "has no solution"),
        (lambda h, a: fields(h).pop("formulation"), "solution does not hold .*its fields are"),
        (lambda h, a: fields(h).update(C="eight"), "C is a str"),
        (lambda h, a: fields(h, "status").update(name="DONE"), "status does not .*'DONE'"),
        (lambda h, a: fields(h, "certificate").pop("primal"), "certificate does not .*its fields"),
        (lambda h, a: fields(h, "state").update(momentum=None), "state does not .*momentum"),
        (lambda h, a: a.pop("found.slack"), "found.slack'.*not there"),
        (lambda h, a: a.pop("weights.by_path.['weights']"), "weights'.*not there"),
        (
            lambda h, a: h["weights"]["record"][1]["by_path"].update(dict=[["['bias']", 1]]),
            r"another structure: got .*bias.*, expected .*weights",
        ),
        (lambda h, a: a.pop(f"{_SETS}outputs[0]"), "outputs.*not there"),
        (
            lambda h, a: a.update({f"{_SETS}gram[0]": a[f"{_SETS}gram[0]"].astype("f8")}),
            r"sets.gram\[0\] is in float64, which JAX is not set to hold",
        ),
    ],
)
def test_files_that_lack_or_bend_something_are_refused(saved, change, message):
    path, problem, _ = saved
    rewritten(path, change)
    refused(message, load_solution, path, problem)


def test_another_problem_is_refused(saved):
    path, _, _ = saved
    for load in (load_solution, load_weights):
        with refused(r"of float32 \(5, 4\), the problem has .*\(5, 6\)"):
            load(path, multiclass(D, K + 2))
        with refused("another structure.*coefficients"):
            load(path, kernel_multiclass(N, K))
        with jax.enable_x64(True), pytest.raises(ValueError, match="the problem has float64"):
            load(path, multiclass(D, K, dtype="float64"))


def test_saving_refuses_what_it_cannot_hold(tmp_path, saved):
    _, _, solution = saved
    with refused("must be a Solution of fit, got dict"):
        save_solution(tmp_path / "x.npz", solution.weights)
    refused("bfloat16", save_weights, tmp_path / "x.npz", {"w": np.zeros(3, jnp.bfloat16)})
    refused("has no arrays", save_weights, tmp_path / "x.npz", {})
    assert not (tmp_path / "x.npz").exists()


MACHINE = multiclass(D, K)
GROWN = SWEEPS._replace(working_sets="grown", cached_sweeps=4, capacity=4)
RANDOM = np.random.default_rng(0)
ROWS, CLASSES = RANDOM.normal(size=(N, D)), RANDOM.integers(0, K, N).astype(np.int32)


def train(problem, settings=SWEEPS, **options):
    return fit(problem, ROWS, CLASSES, "svm1_margin", 5.0, settings=settings, **options)


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


def test_a_checkpoint_is_written_when_its_time_has_come(tmp_path, monkeypatch):
    clock, seen, path = [0.0], [], tmp_path / "run.npz"
    monkeypatch.setattr(checkpoint_writer.time, "monotonic", lambda: clock[0])

    def written(name, file, previous, ready):
        seen.append((clock[0], file.found.statistics.passes, file.found.message == GOES_ON))
        assert previous == tmp_path / "run.npz.previous"

    monkeypatch.setattr(checkpoint_writer, "write_checkpoint", written)

    def tick(progress):
        clock[0] += 10

    found = train(MACHINE, max_passes=7, tolerance=1e-5, callback=tick,
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
    problem, path = MACHINE, tmp_path / "run.npz"
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
    problem, path, save = MACHINE, tmp_path / "run.npz", archive.dump
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
        train(MACHINE, checkpoint=tmp_path / "file" / "run.npz", callback=stopper(1))


def test_half_a_file_of_a_killed_run_is_removed(tmp_path):
    for name in (".run.npz.0123abcd.part", ".run.npz.0123.part", ".run2npz.0123abcd.part"):
        (tmp_path / name).write_text("half")
    train(MACHINE, max_passes=1, checkpoint=tmp_path / "run.npz")
    names = {file.name for file in tmp_path.iterdir()}
    assert names == {"run.npz", ".run.npz.0123.part", ".run2npz.0123abcd.part"}


ENDS = {
    "ctrl-c": KeyboardInterrupt, "sigterm": SystemExit, "swallowed": SystemExit,
    "error": ZeroDivisionError,
}  # fmt: skip


@pytest.mark.parametrize("kind", ENDS)
def test_what_ends_a_run_leaves_a_checkpoint_and_a_word(tmp_path, kind, capsys, usual_signals):
    """Also a signal that other code makes an error of, as JAX where it compares arguments."""
    problem, path = MACHINE, tmp_path / "run.npz"

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
    problem, path = MACHINE, tmp_path / "run.npz"
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
        train(MACHINE, checkpoint=tmp_path / "a.npz", callback=stopper(2, KeyboardInterrupt))
    [words] = ended.value.__notes__
    assert words.startswith("The last rounds could not be kept ([Errno 28] No space left")
    assert words.endswith("a.npz holds nothing of this run yet")
    assert not list(tmp_path.iterdir())


def test_a_run_that_its_callback_stops_may_go_on(tmp_path):
    """The file holds the round, not the certificate that the stopped run was given."""
    problem, path = MACHINE, tmp_path / "run.npz"
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
    refused(message, lambda: train(MACHINE, **options))


def test_weights_that_no_file_can_hold_are_refused_before_training(tmp_path):
    half = {"weights": np.zeros((D, K), jnp.bfloat16)}
    with refused("bfloat16.*cast bfloat16 to float32"):
        check_checkpoint(tmp_path / "run.npz", 60.0, False, MACHINE._replace(initial_weights=half))
