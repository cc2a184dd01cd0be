"""What `fit` refuses, and that the message names the argument and says what came."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from jax.tree_util import Partial

from jaxstruct import Model, Oracles, Padding, Settings, fit, make_problem, predict
from jaxstruct.core.buckets import Buckets
from jaxstruct.core.types import SparseFeatures
from jaxstruct.multiclass.structure import kernel_inputs, kernel_multiclass, multiclass
from jaxstruct.solvers import warm_start
from jaxstruct.solvers.n_slack import run as one_device
from tests.lib.refusals import refused
from tests.solvers.cases import FULL

X = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
Y = np.array([0, 1, 2, 0, 1, 2], np.int32)
HALF = (1 - np.eye(3)) / 2
UNSWEPT = Settings(variant="subspace", working_sets="grown", cached_sweeps=0, certify_every=1)
NAN, INFINITE = X.copy(), X.copy()
NAN[4, 1], INFINITE[2, 0] = np.nan, -np.inf
INDICES, ONES = np.array([[0, 1]] * 6, np.int32), np.ones((6, 2), np.float32)


def refuse(match, *, inputs=X, outputs=Y, **options):
    with refused(match, error=(ValueError, TypeError)):
        fit(multiclass(3, 3), inputs, outputs, **options)


@pytest.mark.parametrize(
    "options, match",
    [
        ({"inputs": NAN}, "inputs has a NaN or an infinity, first in example 4"),
        ({"inputs": INFINITE}, "inputs has a NaN or an infinity, first in example 2"),
        ({"inputs": SparseFeatures(INDICES, ONES * np.nan)}, "inputs has a NaN"),
        (  # their squared norm would be another than that of their sum
            {"inputs": SparseFeatures(np.where(np.arange(6)[:, None] == 3, 1, INDICES), ONES)},
            r"inputs.indices\[3\] names feature 1 twice",
        ),
        ({"inputs": X[:0], "outputs": Y[:0]}, "training set is empty"),
        ({"inputs": X[:, :2]}, r"inputs must be \[n, number_of_features = 3\], got .* \(6, 2\)"),
        ({"inputs": X[:5]}, "inputs has 5 examples, outputs has 6"),
        ({"inputs": np.float32(3.0)}, "inputs must be arrays with a leading axis"),
        ({"inputs": ()}, "inputs must be arrays with a leading axis"),
        ({"inputs": (X, X[:4])}, r"inputs must agree in their leading axis, got shapes .*\(4, 3\)"),
        ({"inputs": X + 1j}, "inputs .*complex"),
        ({"outputs": Y + 1}, r"outputs\[2\] is 3: expected 0..2, the classes; enc"),
        ({"outputs": Y - 1}, r"outputs\[0\] is -1: expected 0..2"),
        ({"outputs": Y.astype(float)}, "outputs must be .n. integers, got float64"),
        ({"tolerance": 1e-6}, "tolerance 1e-06 is below what float32 certifies .*float64"),
        ({"tolerance": None}, "tolerance and epsilon are both None"),
        ({"max_passes": 0}, "max_passes must be at least 1, got 0"),
        ({"formulation": "SVM1"}, "formulation is 'SVM1'; choose one of svm0, svm1"),
        ({"example_weights": np.ones(5)}, r"example_weights must be \[n = 6\], got shape \(5,\)"),
        ({"settings": {"variant": "full"}}, "settings must be Settings.*got {'variant': 'full'}"),
        ({"callback": 3}, "callback must be a function of a Progress, got 3"),
        ({"start": {"weights": np.zeros((3, 3))}}, "start must be a Solution of fit, got dict"),
    ],
)
def test_arguments(options, match):
    refuse(match, **options)


@pytest.mark.parametrize("name", ["C", "tolerance", "epsilon", "min_margin"])
def test_numbers_above_0(name):
    for value in (0.0, -0.1, float("nan"), float("inf")):
        refuse(f"{name} must be finite and > 0, got {value}", **{name: value})
    refuse(f"{name} must be finite and > 0, one number, got '1'", **{name: "1"})


@pytest.mark.parametrize(
    "options, match",
    [
        ({"variant": "both"}, "variant is 'both'; choose one of"),
        ({"capacity": 1}, "capacity must be at least 2, got 1"),
        ({"oracle_batch": 0}, "oracle_batch must be at least 1, got 0"),
        ({"group": -2}, "group must be at least 1, got -2"),
        ({"group": 12, "oracle_batch": 32}, "group must divide oracle_batch, got 12 and 32"),
        ({"capacity": 16, "max_capacity": 8}, "max_capacity"),
        ({"cached_sweeps": -1}, "cached_sweeps"),
        ({"warm_passes": -1}, "warm_passes"),
        ({"certify_every": 0}, "certify_every must be at least 1, got 0"),
        ({"chunks": 0}, "chunks must be at least 1, got 0"),
        ({"active": -1}, "active must be at least 0, got -1"),
        ({"active": 2}, "active must be 0 .all slots. or at least 3, got 2"),
        ({"working_sets": "enumerated"}, "cached_sweeps is 0"),
    ],
)
def test_settings(options, match):
    settings = Settings(variant="subspace", working_sets="grown", cached_sweeps=0, warm_passes=1)
    refuse(match, settings=settings._replace(**options))


def test_kernel_inputs():
    problem, gram = kernel_multiclass(6, 3), X @ X.T
    refused("inputs must be a KernelInput .see kernel_inputs.", fit, problem, X, Y)
    with refused(r"inputs.row must be \[n, anchors = 6\], got .* \(5, 5\)"):
        fit(problem, kernel_inputs(gram[:5, :5]), Y[:5])
    refused("gram is 5 x 6: without self_kernel", kernel_inputs, gram[:5])
    refused("gram must be a matrix", kernel_inputs, gram[0])
    refused(r"self_kernel must be \[n = 6\]", kernel_inputs, gram, self_kernel=np.ones(5))
    for anchor in (np.zeros(6), np.zeros((6, 1), int)):  # made by hand
        given = kernel_inputs(gram)._replace(anchor=anchor)
        refused(r"anchor must be .n = 6. integers, got", fit, problem, given, Y)


MODEL, ORACLES = Model(len, len, len, len), Oracles(contenders=len, output=len)


@pytest.mark.parametrize(
    "given, match",
    [
        ({"model": MODEL._replace(score=3)}, "score must be a function, got int"),
        ({"model": MODEL._replace(loss=None)}, "model.loss must be a function"),
        ({"model": ORACLES}, "model must be a jaxstruct.Model, got Oracles"),
        ({"space": len}, "space must be a jaxstruct.Space, got builtin_function"),
        ({"oracles": ORACLES._replace(output=None)}, "contenders and output go together"),
        ({"oracles": ORACLES._replace(level_losses=len)}, "level_losses and best_by_level go tog"),
        ({"oracles": Oracles(best_wrong=len)}, "oracles must find a violated output"),
        ({"padding": len}, "padding must be a Padding .* got builtin_function"),
        ({"padding": Padding(price="a")}, "padding.price must be .* integer, got 'a'"),
        ({"padding": Padding(price=-1)}, "padding.price must be at least 0, got -1"),
        ({"padding": Padding(output_sizes=3)}, "output_sizes must be a function, got 3"),
        ({"padding": Padding(size=None)}, "padding.size must be a function, got None"),
        ({"padding": Padding(complete="x")}, "padding.complete must be a function, got 'x'"),
        ({"initial_weights": {}}, "initial_weights must be a pytree of floating-point"),
        ({"initial_weights": np.zeros(2, int)}, "initial_weights must be a pytree of floating"),
    ],
)
def test_make_problem(given, match):
    whole = {"initial_weights": np.zeros(2), "model": MODEL, "oracles": ORACLES} | given
    refused(match, make_problem, **whole)


def test_any_integers_and_tables_of_one_type_work_and_are_left_as_they_were():
    x, y, weights, problem = X.copy(), Y.copy(), np.ones(6), multiclass(3, 3)
    wanted = fit(problem, x, y, "svm1", 10.0, example_weights=weights, settings=FULL)
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(y, Y)
    assert (weights == 1).all() and not np.asarray(problem.initial_weights["weights"]).any()
    for given in ((X, Y.astype(np.int64)), (X, Y.astype(np.uint8)), (Frame(X), Frame(Y))):
        solution = fit(problem, *given, "svm1", 10.0, settings=FULL)
        assert (solution.primal, solution.dual) == (wanted.primal, wanted.dual)


def test_without_sweeps_every_round_is_an_exact_pass():
    solution = fit(multiclass(3, 3), X, Y, "svm1", 5.0, settings=UNSWEPT)
    assert solution.status.solved and solution.statistics.passes > 1
    assert solution.statistics.oracle_calls == 2 * len(Y) * solution.statistics.passes


def test_training_inputs_that_are_no_anchors():
    """Such inputs dropped every update, and ended CONVERGED with P = D = 10 at w = 0."""
    problem, gram = kernel_multiclass(6, 3), X @ X.T
    strangers = kernel_inputs(gram, self_kernel=np.diagonal(gram))
    with refused(r"inputs.anchor\[0\] is 6: expected one of the 6 anchors, since"):
        fit(problem, strangers, Y, "svm1", 10.0)
    good, order = kernel_inputs(gram), np.arange(6)
    with refused(r"inputs.anchor\[1\] is -1: expected one of the 6 anch"):
        fit(problem, good._replace(anchor=np.where(order == 1, -1, order)), Y, "svm1", 10.0)
    with refused(r"inputs.self_kernel\[0\] is .* its anchor 5"):
        fit(problem, good._replace(anchor=order[::-1]), Y, "svm1", 10.0)
    solution = fit(problem, good, Y, "svm1", 10.0)
    wanted = fit(multiclass(3, 3), X, Y, "svm1", 10.0, settings=FULL)
    assert solution.status.solved and solution.primal == pytest.approx(wanted.primal, rel=2e-3)
    predicted = predict(problem, solution.weights, strangers)  # prediction takes them
    np.testing.assert_array_equal(predicted, predict(problem, solution.weights, good))


@pytest.mark.parametrize(
    "arguments, options, match",
    [
        ((3, 3.0), {}, "number_of_classes must be at least 2, a Python integer, got 3.0"),
        ((3, 1), {}, "number_of_classes must be at least 2, got 1"),
        ((3, 3), {"loss": np.zeros((2, 2))}, r"loss must be \[k = 3, k = 3\]"),
        ((3, 3), {"loss": np.ones((3, 3))}, r"loss\[0, 0\] is 1.0: expected 0 on the diagonal"),
        ((3, 3), {"loss": np.eye(3) - 1}, "is -1.0: expected finite numbers >= 0: one row"),
        ((3, 3), {"output_features": np.ones((2, 4))}, r"must be \[number_of_classes = 3, p\]"),
        (
            (3, 3),
            {"output_features": np.full((3, 2), np.inf)},
            "features.0, 0. is inf: expected finite",
        ),
        ((3, 3), {"dtype": "float16"}, 'dtype must be "float32" or "float64", got .float16.'),
    ],
)
def test_options_of_multiclass(arguments, options, match):
    refused(match, multiclass, *arguments, **options)
    with refused(match.replace("number_of_features", "number_of_anchors")):
        kernel_multiclass(*arguments, **options)


class Frame:
    """A table as pandas has them: a shape and `__array__`, mixed columns as objects."""

    def __init__(self, table):
        self.table = table
        self.shape = table.shape

    def __array__(self, dtype=None, copy=None):
        return self.table if dtype is None else self.table.astype(dtype)


@pytest.mark.parametrize(
    "inputs, outputs, match",
    [
        (None, Y, "inputs must be arrays with a leading axis of examples, got None"),
        (X.tolist(), Y, "inputs must be arrays .* got list .* numpy.asarray"),
        (X, Y.tolist(), "outputs must be arrays .* got list .0, 1, 2, 0, 1, 2.*numpy.asarray"),
        ([[1.0, 2.0], [3.0]], Y[:2], "inputs must be arrays .*a store with jaxstruct.ragged"),
        ([X[0], X[1], X[2]], Y[:3], "inputs must be one array .* got list: numpy.stack"),
        (["a tale of two cities"] * 100_000, Y, "inputs must be arrays .* encode text"),
        (X, ["red", "green"] * 3, "outputs must be arrays .* encode text and labels"),
        (
            Frame(X.astype(object)),
            Y,
            "inputs must hold real numbers, got dtype object.*numpy.asarray",
        ),
        (scipy.sparse.csr_matrix(X), Y, r"inputs is a SciPy .* jaxstruct.from_scipy\(inputs\)"),
    ],
)
def test_containers(inputs, outputs, match):
    refused(match, fit, multiclass(3, 3), inputs, outputs)


class Encoding:
    def problem(self):
        raise AssertionError("not called here")


@pytest.mark.parametrize(
    "arguments, match",
    [
        ((None, X, Y), "problem must be a Prob"),
        ((X, Y, multiclass(3, 3)), "it is the first argument, before the examples"),
        ((X, Y), "missing 1 req"),
        ((Encoding().problem, X, Y), "problem must be a Problem .*: call it, since it makes"),
    ],
)
def test_the_problem_comes_first(arguments, match):
    refused(match, fit, *arguments, error=(ValueError, TypeError))


def test_problems_without_checks_of_their_own():
    """Outputs are integers: a float would be cut off in silence."""
    plain = multiclass(3, 3)._replace(check=Partial(lambda inputs, outputs: None))
    for outputs, match in (
        (Y + 0.5, "outputs must be integers, got float64 of shape .6,."),
        (Y.astype(np.int64) + 2**33, "outputs must fit int32, got int64 in 8589934592.."),
        (np.array([2**32 - 1] * 6, np.uint32), "outputs must fit int32, got uint32"),
    ):
        refused(match, fit, plain, X, outputs)
    assert fit(plain, X, Y.astype(np.uint64), "svm1", 10.0, settings=UNSWEPT).status.solved


def test_a_start_is_looked_at_before_anything_runs(monkeypatch):
    """No program of the solver is called for a start that does not fit."""
    problem = multiclass(3, 3)
    start = fit(problem, X, Y, "svm1", 10.0, settings=FULL)
    other_solver = start._replace(details=None)

    def never(*_):
        raise AssertionError("a pass ran before the check")

    for module, name in (
        (one_device, "oracle_program"),
        (one_device, "newton_program"),
        (one_device, "sweeps_program"),
        (warm_start, "rebuilt_weights"),
    ):
        monkeypatch.setattr(module, name, never)
    other, more = (np.array([5, 4, 3, 2, 1, 0]),), (np.tile(X, (9, 1)), np.tile(Y, 9))
    moved = Buckets((X,), other), Buckets((Y,), other)
    for given, examples, of, form, match in (
        (start, moved, problem, "svm1", "start is of other outputs"),
        (start, more, problem, "svm1", r"other buckets: it has \[6\] a bucket, these are \[54\]"),
        (start, (X, Y), multiclass(3, 3, loss=HALF), "svm1", "start is of another problem: its"),
        (start, (X[::-1], Y[::-1]), problem, "svm1", "start is of other outputs, .* example 0:"),
        (start, (X, np.append(Y[:5], 0)), problem, "svm1", "other outputs, first of example 5"),
        (start, (X, Y), problem, "svm2", "start solved svm1, not svm2"),
        (start, (X, Y), multiclass(3, 5), "svm1", r"weights of start must be .*\[3, 5\]"),
        (other_solver, (X, Y), problem, "svm1", "must be a Solution of fit, got one with NoneType"),
    ):
        refused(match, fit, of, *examples, form, 10.0, start=given, settings=FULL)
