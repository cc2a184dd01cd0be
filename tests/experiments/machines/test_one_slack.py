"""The one-slack solver against the independent QP, in explicit and kernel spaces."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.machines.one_slack.fit import fit_one_slack
from jaxstruct.core.buckets import Buckets
from jaxstruct.core.status import Status
from jaxstruct.multiclass.structure import kernel_inputs, kernel_multiclass, multiclass
from jaxstruct.solvers.predict import predict
from tests.lib.refusals import refused
from tests.solvers.cases import padded_rows
from tests.truth.quadratic_program import primal_value, solve_primal

LINEAR_PENALTY = ("svm1", "svm1_slack", "svm1_margin")
N, K, D = 21, 4, 5


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def data(seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(N, D))
    y = np.argmax(X @ random.normal(size=(D, K)) + random.normal(size=(N, K)), 1).astype(np.int32)
    matrix = random.integers(1, 4, size=(K, K)) * (1.0 - np.eye(K))
    return X, y, matrix


def joint_features(X):
    return np.einsum("nd,yz->nydz", X, np.eye(K)).reshape(len(X), K, -1)


@pytest.mark.parametrize("C", [0.5, 40.0])
@pytest.mark.parametrize("formulation", LINEAR_PENALTY)
def test_reaches_the_optimum_of_the_n_slack_problem(formulation, C):
    X, y, matrix = data()
    problem = multiclass(D, K, loss=matrix, dtype="float64")
    truth = solve_primal(formulation, joint_features(X), matrix[y], y, C)
    found = fit_one_slack(problem, X, y, formulation, C, tolerance=1e-8, batch=8)
    assert found.status is Status.CONVERGED
    assert found.primal == pytest.approx(truth.objective, rel=1e-7)
    assert found.dual == pytest.approx(truth.objective, rel=1e-7)
    w = np.asarray(found.weights["weights"])
    exact = primal_value(formulation, w.ravel(), joint_features(X), matrix[y], y, C)
    assert exact == pytest.approx(found.primal, rel=1e-12)
    np.testing.assert_allclose(w.ravel(), truth.w, atol=1e-3 * np.linalg.norm(truth.w))
    np.testing.assert_allclose(found.slack.mean(), truth.slack.mean(), rtol=1e-3)


def test_weights_that_are_no_coordinates_are_refused():
    X, y, _ = data(1)
    inputs = kernel_inputs(jnp.asarray(X @ X.T))
    refused("no coordinates", fit_one_slack, kernel_multiclass(N, K, dtype="float64"), inputs, y)


def test_no_loss_anywhere_is_solved_by_zero():
    X, y, _ = data()
    found = fit_one_slack(multiclass(D, K, loss=np.zeros((K, K)), dtype="float64"), X, y)
    assert found.status is Status.CONVERGED and found.primal == found.dual == 0
    assert not np.asarray(found.weights["weights"]).any()


def test_dual_rises_primal_bounds_and_each_pass_adds_one_plane():
    X, y, matrix = data(3)
    problem = multiclass(D, K, loss=matrix, dtype="float64")
    optimum = solve_primal("svm1_margin", joint_features(X), matrix[y], y, 20.0).objective
    seen = []
    found = fit_one_slack(
        problem, X, y, "svm1_margin", 20.0, tolerance=1e-6, callback=lambda p: seen.append(p)
    )
    duals = [progress.info.dual for progress in seen]
    assert duals[0] == 0 and np.all(np.diff(duals) >= -1e-12)
    rounding = 1e-10 * optimum  # of the referee
    assert all(p.info.primal + rounding >= optimum >= p.info.dual - rounding for p in seen)
    assert seen[0].info.primal == pytest.approx(20.0 * matrix[y].max(1).mean())
    statistics = found.statistics
    assert statistics.planes_added == sum(p.info.planes_added for p in seen) >= len(seen) - 1
    assert statistics.oracle_calls == N * statistics.passes == N * len(seen)
    assert statistics.planes_evicted == sum(p.info.planes_evicted for p in seen)
    assert statistics.planes_kept == found.state.planes.occupied.sum() - 1
    assert np.array_equal(found.slack, seen[-1].info.example_slack[:N])


def test_small_capacity_evicts_idle_planes_and_still_converges():
    X, y, matrix = data()
    problem = multiclass(D, K, loss=matrix, dtype="float64")
    roomy = fit_one_slack(problem, X, y, "svm1_margin", 40.0, tolerance=1e-5)
    assert roomy.statistics.planes_evicted == 0
    capacity = roomy.statistics.support_planes + 8
    assert capacity < roomy.statistics.planes_added
    tight = fit_one_slack(problem, X, y, "svm1_margin", 40.0, tolerance=1e-5, capacity=capacity)
    assert tight.status is Status.CONVERGED and tight.statistics.planes_evicted > 0
    assert tight.primal == pytest.approx(roomy.primal, rel=2e-5)
    assert np.all(np.diff(tight.statistics.history.dual) >= 0)


def test_planes_that_all_carry_weight_are_full_not_lost():
    X, y, matrix = data()
    problem = multiclass(D, K, loss=matrix, dtype="float64")
    optimum = solve_primal("svm1_margin", joint_features(X), matrix[y], y, 40.0).objective
    full = fit_one_slack(problem, X, y, "svm1_margin", 40.0, tolerance=1e-9, capacity=4)
    assert full.status is Status.WORKING_SET_FULL and "raise capacity" in full.message
    assert np.all(full.state.planes.multipliers[1:] > 0)
    assert full.dual < optimum < full.primal


@pytest.mark.parametrize("batch", [4, 32])
def test_buckets_reach_the_same_optimum_in_the_order_of_the_examples(batch):
    """Sparse rows padded to different widths; weights, so that a wrong place would show."""
    X, y, matrix = data(8)
    problem = multiclass(D, K, loss=matrix, dtype="float64")
    order = np.random.default_rng(0).permutation(N)
    index = tuple(np.split(order, [9, 14]))
    rows = tuple(padded_rows(X[own], D + number) for number, own in enumerate(index))
    weights = np.random.default_rng(1).choice([0.0, 0.5, 2.0], N)
    found = fit_one_slack(
        problem,
        Buckets(rows, index),
        Buckets(tuple(y[own] for own in index), index),
        "svm1_slack",
        7.0,
        tolerance=1e-8,
        example_weights=weights,
        batch=batch,
    )
    truth = solve_primal("svm1_slack", joint_features(X), matrix[y], y, 7.0, weights)
    assert found.status is Status.CONVERGED
    assert found.primal == pytest.approx(truth.objective, rel=2e-8)
    assert found.statistics.oracle_calls == found.statistics.passes * np.sum(weights > 0)
    w, psi = np.asarray(found.state.weights["weights"]).ravel(), joint_features(X)
    margins = (psi[np.arange(N), y][:, None] - psi) @ w
    slack = np.maximum(0, np.max(matrix[y] * (1 - margins), axis=1))
    np.testing.assert_allclose(found.slack, slack, atol=1e-9)
    np.testing.assert_array_equal(predict(problem, found, X), np.argmax(psi @ w, axis=1))
    assert repr(found).startswith("Solution(status=CONVERGED, formulation='svm1_slack'")


def test_epsilon_rule_bounds_the_joint_slack():
    X, y, matrix = data(6)
    problem = multiclass(D, K, loss=matrix, dtype="float64")
    optimum = solve_primal("svm1_margin", joint_features(X), matrix[y], y, 10.0).objective
    last = []
    found = fit_one_slack(
        problem, X, y, "svm1_margin", 10.0, tolerance=None, epsilon=0.01, callback=last.append
    )
    info = last[-1].info
    assert found.status is Status.EPSILON and info.slack <= info.known + 0.01
    assert all(p.info.slack > p.info.known + 0.01 for p in last[:-1])
    assert info.primal <= optimum + 10.0 * 0.01 + 1e-9


def test_another_c_and_formulation_compile_nothing_in_float32():
    X, y, matrix = data()
    problem = multiclass(D, K, loss=matrix, dtype="float32")
    first = fit_one_slack(problem, X, y, "svm1_margin", 2.0, tolerance=1e-4)
    second = fit_one_slack(problem, X, y, "svm1_slack", 30.0, tolerance=1e-4)
    assert first.status is Status.CONVERGED and second.status is Status.CONVERGED
    assert first.statistics.compilations == 5  # dual, w, plane, its size, its place
    assert second.statistics.compilations == 0
    assert first.weights["weights"].dtype == np.float32
    truth = solve_primal("svm1_slack", joint_features(X), matrix[y], y, 30.0)
    assert second.primal == pytest.approx(truth.objective, rel=1.1e-4)
    assert second.dual == pytest.approx(truth.objective, rel=1.1e-4)
    assert np.mean(predict(problem, second.weights, X) == y) > 0.7


def test_callback_stops_and_limits_are_reported():
    X, y, matrix = data()
    problem = multiclass(D, K, loss=matrix, dtype="float64")
    stopped = fit_one_slack(problem, X, y, callback=lambda progress: progress.passes == 3)
    assert stopped.status is Status.STOPPED and stopped.statistics.passes == 3
    short = fit_one_slack(problem, X, y, max_passes=2, tolerance=1e-9)
    assert short.status is Status.PASS_LIMIT and short.statistics.passes == 2
    huge = fit_one_slack(problem, X * 1e200, y, max_passes=5)
    assert huge.status is Status.NOT_FINITE


@pytest.mark.parametrize(
    "change, message",
    [
        ({"formulation": "svm2_slack"}, "squared slacks.*only a sum of slacks that is linear"),
        ({"formulation": "svm0"}, "no slack.*or use fit"),
        ({"formulation": "hinge"}, "formulation is 'hinge'"),
        ({"capacity": 1}, "capacity must be an integer of at least 2"),
        ({"capacity": 8.0}, "capacity must be an integer"),
        ({"batch": 0}, "batch must be at least 1"),
        ({"C": -1.0}, "C must be finite and > 0"),
        ({"tolerance": None}, "at least one stopping rule"),
        ({"outputs": np.full(N, K)}, "expected 0..3"),
        ({"inputs": np.full((N, D), np.nan)}, "NaN"),
        ({"example_weights": np.ones(3)}, "example_weights must be"),
    ],
)
def test_refusals_name_the_argument(change, message):
    X, y, _ = data()
    given = {"problem": multiclass(D, K, dtype="float64"), "inputs": X, "outputs": y}
    refused(message, fit_one_slack, **(given | change))
