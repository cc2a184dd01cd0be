"""Checkpoints: exact round trips, resumed runs, and files that do not fit."""

from __future__ import annotations

from typing import NamedTuple

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
_SETS, _COURSE = "found.state.sets.", "found.statistics.history."
_OUTPUTS, _ROWS = f"{_SETS}outputs[0]", "found.details.rows"
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
            problem,
            *data(),
            formulation,
            C,
            max_passes=4,
            tolerance=1e-5,
            settings=Settings(variant=variant),
        )
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


class Marked(NamedTuple):
    """An output of two parts."""

    label: np.ndarray
    marks: np.ndarray


def _of_parts(problem, wrap, unwrap):
    """`multiclass` with outputs in a container."""
    return make_problem(
        problem.initial_weights,
        Model(
            potentials=problem.model.potentials,
            score=Partial(lambda theta, y: problem.model.score(theta, unwrap(y))),
            decode=lambda theta: wrap(problem.model.decode(theta)),
            loss=lambda a, b: problem.model.loss(unwrap(a), unwrap(b)),
        ),
        Oracles(
            contenders=lambda theta, y: problem.oracles.contenders(theta, unwrap(y)),
            output=lambda trace, level: wrap(problem.oracles.output(trace, level)),
        ),
    )


def test_outputs_in_containers_keep_their_structure(tmp_path):
    X, y = data()
    path = tmp_path / "run.npz"

    def wrapped(kind):
        def wrap(label):
            marks = jnp.stack([label, label + 1], -1)
            return kind(label, marks)

        return wrap

    cases = [
        (lambda a, b: {"label": a, "more": (b, [b])}, lambda y: y["label"], False),
        (Marked, lambda y: y.label, True),
    ]
    settings = SWEEPS._replace(checked_examples=0)
    for kind, unwrap, named in cases:
        problem = _of_parts(multiclass(D, K), wrapped(kind), unwrap)
        outputs = wrapped(kind)(jnp.asarray(y))
        solution = fit(problem, X, outputs, C=C, max_passes=2, settings=settings)
        save_solution(path, solution)
        if named:
            refused("pass outputs=", load_solution, path, problem)
        loaded = load_solution(path, problem, outputs if named else None)
        assert_same(loaded, solution)
        again = fit(problem, X, outputs, C=C, max_passes=1, start=loaded, settings=settings)
        assert again.dual >= solution.dual * (1 - 1e-6)


def test_a_failed_write_leaves_the_old_file(saved, monkeypatch):
    path, problem, solution = saved

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
        (lambda h, a: a.pop(f"{_SETS}multipliers"), "sets.multipliers'.*not there"),
        (lambda h, a: a.pop("found.slack"), "found.slack'.*not there"),
        (lambda h, a: a.pop(f"{_COURSE}dual"), "found.statistics.history.dual'.*not there"),
        (
            lambda h, a: a.update({f"{_COURSE}dual": a[f"{_COURSE}dual"][:-1]}),
            r"trace does not .*shapes \[\(3,\), \(3,\), \(3,\), \(3,\), \(2,\)",
        ),
        (
            lambda h, a: a.update({f"{_COURSE}dual": a[f"{_COURSE}dual"].astype(int)}),
            "trace does not hold together",
        ),
        (lambda h, a: a.pop("weights.by_path.['weights']"), "weights'.*not there"),
        (
            lambda h, a: h["weights"]["record"][1]["by_path"].update(dict=[["['bias']", 1]]),
            r"another structure: got .*bias.*, expected .*weights",
        ),
        (lambda h, a: a.pop(_OUTPUTS), "outputs.*not there"),
        (
            lambda h, a: a.update({_OUTPUTS: a[_OUTPUTS][:-1]}),
            r"outputs are \[\(23, 4\)\], expected .* \[N, K\] = \(24, 4\)",
        ),
        (lambda h, a: a.pop(_ROWS), "rows'.*not there"),
        (lambda h, a: a.update({_ROWS: a[_ROWS][:-1]}), r"has rows \(23,\), expected \[24\]"),
        (
            lambda h, a: a.update({_ROWS: np.maximum(a[_ROWS], 0)}),
            "has rows .*every example once and -1 on padding",
        ),
        (
            lambda h, a: a.update({f"{_SETS}losses": a[f"{_SETS}losses"][:, :3]}),
            r"expected \[N, K\] = \(24, 3\)",
        ),
        (
            lambda h, a: a.update({f"{_SETS}scales": a[f"{_SETS}scales"].astype("f2")}),
            r"its floats are \['float16', 'float32'\]",
        ),
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


def test_an_untouched_rewrite_is_read(saved):
    path, problem, solution = saved
    rewritten(path, lambda header, arrays: None)
    assert_same(load_solution(path, problem), solution)


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
