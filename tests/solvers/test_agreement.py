"""The optimum of every formulation against an independent QP, along paths, and predictions."""

from __future__ import annotations

from itertools import cycle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

import jaxstruct as js
from jaxstruct import Status, fit, fit_path, predict
from jaxstruct.chains.structure import chain, chain_inputs
from jaxstruct.multiclass.structure import KernelInput, kernel_multiclass, multiclass
from jaxstruct.solvers.objective.formulations import FORMULATIONS
from jaxstruct.solvers.warm_start import restart
from tests.lib.refusals import refused
from tests.solvers.cases import (
    GROWN,
    SOFT,
    SUBSPACE,
    WAYS,
    assert_optimal,
    case_for,
    dense_beta,
    enumerated_problem,
    flat,
    random_case,
)
from tests.truth.quadratic_program import dual_value

CLOSE = 1e-8
FINE = 2e-9


def assert_best(predicted, scores):
    """Predictions are argmaxes; two planes of one example may tie at the optimum."""
    chosen = scores[np.arange(len(predicted)), predicted]
    assert (chosen >= scores.max(axis=1) - 1e-3 * np.abs(scores).max()).all()
    assert (predicted == scores.argmax(axis=1)).mean() > 0.8


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_full_variant(x64, formulation, way):
    number = list(FORMULATIONS).index(formulation) + list(WAYS).index(way)
    n, C = ((9, 0.01), (16, 1.0), (16, 1000.0))[number % 3]
    case = case_for(formulation, seed=n, n=n)
    solution = case.fit(formulation, C, tolerance=FINE, settings=WAYS[way])
    assert_optimal(solution, case.truth(formulation, C), CLOSE)


@pytest.mark.parametrize("formulation, way", [*zip(FORMULATIONS, cycle(WAYS), strict=False)])
def test_float32_to_its_finest_tolerance(formulation, way):
    case, C = case_for(formulation, seed=5), 100.0 if way == "grown" else 0.01
    solution = case.fit(formulation, C, "float32", tolerance=1e-5, settings=WAYS[way])
    assert solution.weights["weights"].dtype == "float32"
    truth, rounding = case.truth(formulation, C), 0.0
    if solution.status is Status.ROUNDING:  # the run says that its dtype hides the gap
        rounding = solution.certificate.rounding / truth.objective
        assert C == 100.0 and 0.5e-5 < rounding < 1e-3
        solution = solution._replace(status=Status.CONVERGED)
    assert_optimal(solution, truth, 1.2e-5 + rounding)


@pytest.mark.parametrize("formulation", ["svm1", "svm2_slack", "svm1_slack"])
def test_seven_functions_suffice(x64, formulation):
    """Psi written down, and no hooks: the same optimum as with those of multiclass.

    The full variant has that of `test_known`.
    """
    case, settings = random_case(6, output_features=3), SUBSPACE._replace(checked_examples=0)
    C = 0.3
    truth = case.truth(formulation, C)
    for problem, x in ((case.problem(), case.x), enumerated_problem(case)):
        solution = fit(problem, x, case.y, formulation, C, tolerance=FINE, settings=settings)
        assert_optimal(solution, truth, CLOSE)
        assert_best(predict(problem, solution.weights, x), case.psi() @ truth.w)


def test_integer_inputs_are_features_like_any_other(x64):
    """Grey levels often come as bytes; 16 * 16 does not fit in one."""
    case = random_case(10)
    levels = np.clip(np.round(np.abs(case.x) * 12), 0, 200).astype(np.uint8)
    exact = case._replace(x=levels.astype(float)).truth("svm1", 0.01)
    solution = case._replace(x=levels).fit("svm1", 0.01, tolerance=1e-7, settings=SUBSPACE)
    assert_optimal(solution, exact, 1e-7)
    norms = (levels.astype(float) ** 2).sum(axis=1)
    found = np.asarray(solution.state.sets.gram[0])  # |delta Psi_i(y)|^2 = 2 |x_i|^2
    np.testing.assert_allclose(found[:12, 1, 1], 2 * norms, rtol=1e-12)


def test_one_example_of_two_classes(x64):
    case = random_case(11, n=1, k=2)
    for formulation in SOFT:
        solution = case.fit(formulation, 30.0, tolerance=FINE, settings=GROWN)
        assert_optimal(solution, case.truth(formulation, 30.0), CLOSE)


def test_duplicates_and_contradictions(x64):
    """Every example twice, and the same inputs once more with another label."""
    case = random_case(12, n=4)
    x, y = np.tile(case.x, (3, 1)), np.concatenate([case.y, case.y, (case.y + 1) % 4])
    twice = case._replace(x=x, y=y.astype(np.int32))
    for formulation in SOFT:
        for C in (1.0, 100.0):
            solution = twice.fit(formulation, C, tolerance=FINE, settings=GROWN)
            assert_optimal(solution, twice.truth(formulation, C), CLOSE)


UP_AND_DOWN = (0.01, 1.0, 100.0, 0.5)


@pytest.mark.parametrize("formulation, way", [*zip(SOFT, cycle(WAYS), strict=False)])
def test_a_path_gives_the_cold_optima(x64, formulation, way):
    case = random_case(1)
    path = fit_path(
        case.problem(), case.x, case.y, formulation, UP_AND_DOWN, tolerance=1e-8, settings=WAYS[way]
    )
    for C, solution in zip(UP_AND_DOWN, path, strict=True):
        truth = case.truth(formulation, C)
        assert solution.C == C
        assert_optimal(solution, truth, 1e-8)


def start_of(case, formulation, solution, C, weights=None):
    """The state that a run from `solution` begins with: (dual value by the slow truth, state)."""
    state = restart(case.run(formulation, C, GROWN, weights=weights), solution, C)
    beta = dense_beta(state.sets, len(case.y), 4)
    return dual_value(formulation, beta, *case.listed(), C, weights), state


@pytest.mark.parametrize("C", [0.02, 2.0])
@pytest.mark.parametrize("formulation", SOFT)
def test_the_start_is_feasible_and_worth_something(x64, formulation, C):
    case = random_case(2)
    solution = case.fit(formulation, 2.0, tolerance=1e-8, settings=GROWN)
    start, state = start_of(case, formulation, solution, C)
    assert start.feasible, start.violation
    assert 0 < start.value <= case.optimum(formulation, C) * (1 + 1e-9)
    np.testing.assert_allclose(flat(state.weights), start.w, atol=1e-10)
    old, new = (dense_beta(each.sets, len(case.y), 4) for each in (solution.state, state))
    np.testing.assert_allclose(new / new.sum(), old / old.sum(), atol=1e-9)  # all in one proportion
    if C == 2.0:
        assert start.value >= solution.dual * (1 - 1e-9)


def test_new_example_weights_leave_the_start_feasible(x64):
    """svm1's caps are C v_i / n: multipliers above a smaller cap would certify a wrong dual."""
    case = random_case(4)
    solution = case.fit("svm1", 5.0, tolerance=1e-8, settings=GROWN)
    weights = np.where(np.arange(12) % 2, 0.1, 1.0)
    start, _ = start_of(case, "svm1", solution, 5.0, weights)
    assert start.feasible, start.violation
    again = case.fit(
        "svm1", 5.0, tolerance=1e-8, settings=GROWN, start=solution, example_weights=weights
    )
    optimum = case.optimum("svm1", 5.0, weights)
    assert again.dual <= optimum * (1 + 1e-9)
    assert again.primal == pytest.approx(optimum, rel=1e-7)


D, K = 3, 4
X = np.random.default_rng(0).normal(size=(7, D)).astype(np.float32)
W = {"weights": jnp.asarray(np.random.default_rng(1).normal(size=(D, K)), jnp.float32)}
BEST = np.argmax(X @ np.asarray(W["weights"]), axis=1)
PROBLEM = multiclass(D, K)


@pytest.mark.smoke
def test_solutions_stand_for_their_weights():
    y = BEST.astype(np.int32)
    solution = js.fit(PROBLEM, X, y, C=10.0)
    found = js.predict(PROBLEM, solution, X)
    np.testing.assert_array_equal(found, js.predict(PROBLEM, solution.weights, X))


@pytest.mark.smoke
@pytest.mark.parametrize(
    "inputs, match",
    [
        (
            scipy.sparse.csr_matrix(X),
            r"inputs is a SciPy sparse matrix of shape \(7, 3\): convert it "
            r"with jaxstruct.from_scipy\(inputs\)",
        ),
        (X[:, :2], r"inputs must be \[n, number_of_features = 3\], got .* \(7, 2\)"),
        (X * np.nan, "inputs has a NaN or an infinity, first in example 0"),
        (X[:0], "inputs is empty: there is nothing to predict"),
        (None, "inputs must be arrays with a leading axis of examples, got None"),
    ],
)
def test_inputs_that_do_not_fit(inputs, match):
    refused(match, js.predict, PROBLEM, W, inputs)


@pytest.mark.parametrize(
    "weights, match",
    [
        (W["weights"], "weights must be a pytree as problem.initial_weights, dict .*float32.3, 4"),
        ({"weights": W["weights"][:, :2]}, r"weights must be .*\[3, 4\].* got .*\[3, 2\].*another"),
        ({"weights": np.zeros((D, K), int)}, "weights must be .*float32.* got .*int64"),
        (None, "weights must be a pytree .* got NoneType"),
        (X, "weights must be a pytree"),
    ],
)
def test_weights_that_do_not_fit(weights, match):
    refused(match, js.predict, PROBLEM, weights, X)


def test_arguments_in_another_order():
    for arguments in ((W, PROBLEM, X), (X, PROBLEM, W), (None, W, X)):
        refused("problem must be a Problem", js.predict, *arguments)
    refused("inputs must be", js.predict, PROBLEM, X, W)
    refused("batch must be at least 1", js.predict, PROBLEM, W, X, batch=0)


def test_weights_of_another_precision(x64):
    weights = {"weights": np.asarray(W["weights"], np.float64)}
    refused("weights must be .*float32.* got .*float64", js.predict, PROBLEM, weights, X)
    with jax.enable_x64(False):  # where jax has float32 only, it is what it takes them for
        np.testing.assert_array_equal(js.predict(PROBLEM, weights, X), BEST)


def test_structures_check_inputs_without_outputs():
    """Kernel values of inputs that are no anchors are to predict with; chains check lengths."""
    problem = kernel_multiclass(5, K)
    strangers = KernelInput(X @ X[:5].T, np.full(7, 5, np.int32), np.sum(X * X, axis=1))
    assert js.predict(problem, problem.initial_weights, strangers).shape == (7,)
    with refused("inputs must be a KernelInput .see kernel_inputs."):
        js.predict(problem, problem.initial_weights, X)
    labels = chain(D, 2)
    words = chain_inputs(X[None], np.array([7]))
    assert js.predict(labels, labels.initial_weights, words).shape == (1, 7)
    with refused(r"inputs.length\[0\] is 9: expected 0..7"):
        js.predict(labels, labels.initial_weights, words._replace(length=np.array([9])))
    refused("inputs must be a ChainInput", js.predict, labels, labels.initial_weights, X[None])
