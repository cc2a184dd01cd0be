"""Checkpoints: exact round trips, resumed runs, and files that do not fit."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

from jaxstruct.core import archive
from jaxstruct.core.archive import DamagedFile
from jaxstruct.core.contract import Model, Oracles
from jaxstruct.core.problem import make_problem
from jaxstruct.core.status import Status
from jaxstruct.multiclass.structure import kernel_multiclass, multiclass
from jaxstruct.solvers.checkpoints.run_state import (
    CHECKPOINT,
    Checkpoint,
    load_solution,
    load_weights,
    save_solution,
    save_weights,
)
from jaxstruct.solvers.fit import fit
from jaxstruct.solvers.predict import predict
from jaxstruct.solvers.settings import Settings
from tests.lib.refusals import refused

N, K, D = 21, 4, 5
C = 8.0
_SETS = "found.state.sets."
SWEEPS = Settings(variant="subspace", cached_sweeps=1)  # quick to compile


def data(seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(N, D))
    y = np.argmax(X @ random.normal(size=(D, K)) + random.normal(size=(N, K)), 1).astype(np.int32)
    return X, y


def assert_same(first, second):
    assert jax.tree.structure(first) == jax.tree.structure(second)
    for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        assert isinstance(b, type(a))  # np.float64 is a float
        assert np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_array_equal(a, b)


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


@pytest.mark.parametrize("variant", ["subspace", "full"])
@pytest.mark.parametrize("formulation", ["svm0", "svm1_margin", "svm2_slack"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_leaf_comes_back_bit_by_bit(tmp_path, variant, formulation, dtype):
    with jax.enable_x64(dtype == "float64"):
        problem = multiclass(D, K, dtype=dtype)
        solution = fit(
            problem, *data(), formulation, C, max_passes=4, tolerance=1e-5,
            settings=Settings(variant=variant),
        )  # fmt: skip
        save_solution(tmp_path / "run.npz", solution)
        loaded = load_solution(tmp_path / "run.npz", problem)
    assert_same(loaded, solution)
    assert isinstance(loaded.status, Status)
    assert loaded.statistics._fields == solution.statistics._fields


@pytest.mark.smoke
def test_weights_alone_predict_the_same(tmp_path, saved):
    path, problem, solution = saved
    alone = tmp_path / "weights.npz"
    save_weights(alone, solution.weights)
    for file in (alone, path):  # a solution's file holds its weights
        weights = load_weights(file, problem)
        assert_same(weights, solution.weights)
        np.testing.assert_array_equal(
            predict(problem, weights, data()[0]), predict(problem, solution.weights, data()[0])
        )
    refused("holds weights alone: read it with load_weights", load_solution, alone, problem)


def test_outputs_in_containers_keep_their_structure(tmp_path):
    """Of dicts, tuples and lists; those in records are said, in `test_true_numbers`."""

    def wrap(label):
        marks = jnp.stack([label, label + 1], -1)
        return {"label": label, "more": (marks, [marks])}

    X, y = data()
    model, oracles = (part := multiclass(D, K)).model, part.oracles
    problem = make_problem(
        part.initial_weights,
        Model(
            potentials=model.potentials,
            score=Partial(lambda theta, y: model.score(theta, y["label"])),
            decode=lambda theta: wrap(model.decode(theta)),
            loss=lambda a, b: model.loss(a["label"], b["label"]),
        ),
        Oracles(
            contenders=lambda theta, y: oracles.contenders(theta, y["label"]),
            output=lambda trace, level: wrap(oracles.output(trace, level)),
        ),
    )
    options = {"C": C, "settings": SWEEPS._replace(checked_examples=0)}
    solution = fit(problem, X, wrap(jnp.asarray(y)), max_passes=2, **options)
    save_solution(tmp_path / "run.npz", solution)
    loaded = load_solution(tmp_path / "run.npz", problem)
    assert_same(loaded, solution)
    again = fit(problem, X, wrap(jnp.asarray(y)), max_passes=1, start=loaded, **options)
    assert again.dual >= solution.dual * (1 - 1e-6)


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
    assert_same(load_solution(path, problem), solution)
    assert [file.name for file in path.parent.iterdir()] == ["run.npz"]
    save_weights(path, solution.weights)  # and a whole write replaces it
    assert_same(load_weights(path, problem), solution.weights)


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
    refused("bfloat16", save_weights, tmp_path / "x.npz", {"w": jnp.zeros(3, jnp.bfloat16)})
    refused("has no arrays", save_weights, tmp_path / "x.npz", {})
    assert not (tmp_path / "x.npz").exists()
