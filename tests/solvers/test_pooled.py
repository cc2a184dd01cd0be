"""The pooled solver against the independent QP, against `fit`, and at the door."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct.kernels import gaussian, linear, precomputed, tensor_product
from jaxstruct.multiclass.structure import multiclass
from jaxstruct.solvers.fit import fit
from jaxstruct.solvers.loop.status import Status
from jaxstruct.solvers.pooled import dual as pooled_dual
from jaxstruct.solvers.pooled.fit import decision, fit_pooled, joint_gram, joint_rows
from jaxstruct.solvers.settings import Settings
from tests.truth.quadratic_program import FORMULATIONS, solve_primal

N, K, D = 14, 4, 3


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def on_concatenations(a, b):
    """A joint kernel that is no product of one on inputs and one on outputs: mixed terms remain."""
    first, second = (jnp.concatenate([x, y, jnp.outer(x, y).ravel()]) for x, y in (a, b))
    return gaussian(2.0)(first, second)


def data(seed=0):
    random = np.random.default_rng(seed)
    X, Y = random.normal(size=(N, D)), random.normal(size=(K, 2))
    scores = X @ random.normal(size=(D, 2)) @ Y.T + 0.5 * random.normal(size=(N, K))
    truths = np.argmax(scores, axis=1)
    matrix = random.integers(1, 4, size=(K, K)) * (1.0 - np.eye(K))
    return X, Y, truths, matrix


def eigen_features(gram):
    """Psi [n, k, D] with <Psi, Psi'> = gram."""
    n, k = gram.shape[:2]
    values, vectors = np.linalg.eigh(gram.reshape(n * k, n * k))
    return (vectors * np.sqrt(np.maximum(values, 0))).reshape(n, k, n * k)


@pytest.mark.parametrize("C", [1.0, 300.0])
@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_a_joint_kernel_that_is_no_product_agrees_with_the_quadratic_program(formulation, C):
    X, Y, truths, matrix = data()
    gram = np.asarray(joint_gram(on_concatenations, X, Y))
    features, losses = eigen_features(gram), matrix[truths]
    np.testing.assert_allclose(
        np.einsum("iyd,jzd->iyjz", features, features), gram, rtol=0, atol=1e-12
    )
    truth = solve_primal(formulation, features, losses, truths, C)
    found = fit_pooled(gram, losses, truths, formulation, C, tolerance=1e-9)
    assert found.status is Status.CONVERGED
    assert found.primal == pytest.approx(truth.objective, rel=1e-7)
    assert found.dual == pytest.approx(truth.objective, rel=1e-7)
    assert found.dual <= truth.objective * (1 + 1e-10) <= found.primal * (1 + 2e-10)
    w = np.einsum("iy,iyd->d", found.alpha, features[np.arange(N), truths][:, None] - features)
    np.testing.assert_allclose(w, truth.w, atol=1e-4 * np.linalg.norm(truth.w))
    np.testing.assert_allclose(found.slack, truth.slack, atol=1e-4 * (1 + truth.slack.max()))
    rows = gram[:, :, found.support.example, found.support.output]
    np.testing.assert_allclose(
        decision(found, rows), features @ truth.w, atol=1e-4 * np.abs(features @ truth.w).max()
    )
    assert found.working_set.sum() < N * (K - 1) or formulation == "svm0"
    assert len(repr(found)) < 250 and repr(found).startswith(
        f"PooledSolution(status=CONVERGED, formulation='{formulation}', C={C:g}, primal="
    )


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_agrees_with_fit_on_linear_multiclass(formulation):
    random = np.random.default_rng(3)
    X = random.normal(size=(N, 20))
    truths = random.integers(0, K, size=N).astype(np.int32)
    matrix = data()[3]
    kernel = tensor_product(linear(), precomputed(np.eye(K)))
    gram = joint_gram(kernel, X, np.arange(K))
    found = fit_pooled(gram, matrix[truths], truths, formulation, 5.0)
    problem = multiclass(20, K, loss=matrix, dtype="float64")
    full = Settings(variant="full")
    other = fit(problem, X, truths, formulation, 5.0, tolerance=1e-8, settings=full)
    assert found.status is Status.CONVERGED and other.status is Status.CONVERGED
    assert found.primal == pytest.approx(other.primal, rel=3e-8)
    rows = joint_rows(kernel, (X[found.support.example], found.support.output), X[:5], np.arange(K))
    np.testing.assert_allclose(
        decision(found, rows), X[:5] @ np.asarray(other.weights["weights"]), atol=2e-3
    )


def test_joint_gram_calls_the_kernel_on_every_pair():
    X, Y, _, _ = data()
    gram, call = joint_gram(on_concatenations, X[:3], Y, block=5), jax.jit(on_concatenations)
    for i, y, j, z in np.ndindex(3, K, 3, K):
        assert gram[i, y, j, z] == pytest.approx(float(call((X[i], Y[y]), (X[j], Y[z]))), abs=1e-14)
    rows = joint_rows(on_concatenations, (X[[2, 0]], Y[[1, 3]]), X[:3], Y)
    np.testing.assert_allclose(rows, np.stack([gram[:, :, 2, 1], gram[:, :, 0, 3]], -1), atol=1e-14)


def test_the_dual_never_falls_and_stays_below_the_optimum():
    X, Y, truths, matrix = data(1)
    gram = joint_gram(on_concatenations, X, Y)
    best = fit_pooled(gram, matrix[truths], truths, "svm1_slack", 50.0).primal
    duals = []
    for passes in range(1, 30, 4):
        found = fit_pooled(
            gram, matrix[truths], truths, "svm1_slack", 50.0, max_passes=passes, sweeps=1
        )
        assert found.status is Status.PASS_LIMIT and found.primal >= best * (1 - 1e-8)
        assert found.multipliers.min() >= 0
        assert found.multipliers.sum(axis=1).max() <= 50.0 / N * (1 + 1e-12)
        duals.append(found.dual)
    assert np.all(np.diff(duals) > 0) and duals[-1] <= best


def test_weights_of_examples_are_repetitions_and_zero_leaves_out():
    X, Y, truths, matrix = data(2)
    gram = np.asarray(joint_gram(on_concatenations, X, Y))
    weights = np.ones(N)
    weights[2], weights[5] = 2.0, 0.0
    found = fit_pooled(gram, matrix[truths], truths, "svm2_margin", 7.0, example_weights=weights)
    kept = np.append(np.delete(np.arange(N), 5), 2)  # as many as before
    again, truths = gram[kept][:, :, kept], truths[kept]
    other = fit_pooled(again, matrix[truths], truths, "svm2_margin", 7.0)
    assert found.primal == pytest.approx(other.primal, rel=3e-8)
    assert np.all(found.alpha[5] == 0)


def test_epsilon_rule_leaves_no_constraint_above_it():
    X, Y, truths, matrix = data(4)
    gram = joint_gram(on_concatenations, X, Y)
    found = fit_pooled(
        gram, matrix[truths], truths, "svm1_margin", 20.0, tolerance=None, epsilon=0.05
    )
    assert found.status is Status.EPSILON
    assert found.certificate.violation <= 0.05
    assert found.gap <= 2 * 20.0 * 0.05


def test_no_loss_anywhere_is_solved_by_zero():
    X, Y, truths, _ = data()
    gram = joint_gram(on_concatenations, X, Y)
    found = fit_pooled(gram, np.zeros((N, K)), truths, "svm2_margin")
    assert found.status is Status.CONVERGED and found.primal == found.dual == 0
    assert found.support.coefficient.size == 0 and not decision(found, np.zeros((2, K, 0))).any()


def test_data_that_cannot_be_separated_end_as_such():
    X, Y, _, matrix = data()
    gram = np.asarray(joint_gram(on_concatenations, X, Y))
    twice = np.concatenate([np.arange(4), np.arange(4)])  # the same inputs with other labels
    truths = np.array([0, 1, 2, 3, 1, 2, 3, 0])
    found = fit_pooled(gram[twice][:, :, twice], matrix[truths], truths, "svm0")
    assert found.status is Status.NOT_SEPARABLE and found.primal == np.inf


def test_float32_runs_to_what_it_certifies_and_compiles_once():
    X, Y, truths, matrix = data()
    gram = np.asarray(joint_gram(on_concatenations, X, Y), np.float32)
    first = fit_pooled(gram, matrix[truths], truths, "svm1_margin", 5.0, tolerance=1e-4)
    compiled = pooled_dual.pool_sweeps._cache_size()
    second = fit_pooled(gram, matrix[truths], truths, "svm2_slack", 8.0, tolerance=1e-4)
    assert pooled_dual.pool_sweeps._cache_size() == compiled
    assert first.status is Status.CONVERGED and second.status is Status.CONVERGED


def test_jit_changes_nothing():
    X, Y, truths, matrix = data()
    gram, losses = np.asarray(joint_gram(on_concatenations, X[:3], Y)), matrix[truths[:3]]
    run = partial(fit_pooled, gram, losses, truths[:3], max_passes=2, sweeps=1)
    fast = run()
    with jax.disable_jit():
        slow = run()
    assert fast.dual > 0
    np.testing.assert_allclose(slow.multipliers, fast.multipliers, atol=1e-12)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"gram": np.eye(N * K).reshape(N, K, N * K)}, r"gram must be \[n, k, n, k\]"),
        ({"gram": -np.eye(N * K).reshape(N, K, N, K)}, "gram: not positive semi-definite"),
        ({"gram": np.ones((N, K, N, K), int)}, "gram must be floating"),
        ({"gram": np.eye(N * K, dtype=np.float32).reshape(N, K, N, K)}, "use float64"),
        ({"losses": np.ones((N, 1))}, "k >= 2 outputs"),
        ({"losses": np.ones((N, K))}, "0 at the true outputs"),
        ({"truths": np.full(N, K)}, r"truths must lie in 0\.\.3, got 4"),
        ({"truths": np.zeros(N)}, "truths must be .* integers"),
        ({"example_weights": np.ones(2)}, "example_weights must be"),
        ({"example_weights": np.zeros(N)}, "not be all zero"),
        ({"formulation": "svm3"}, "formulation is 'svm3'"),
        ({"C": 0.0}, "C must be a positive"),
        ({"tolerance": None}, "at least one stopping rule"),
        ({"sweeps": 0}, "sweeps must be at least 1"),
    ],
)
def test_the_door_names_the_argument(change, message):
    truths = np.zeros(N, int)
    losses = np.ones((N, K))
    losses[:, 0] = 0
    given = {"gram": np.eye(N * K).reshape(N, K, N, K), "losses": losses, "truths": truths}
    with pytest.raises(ValueError, match=message):
        fit_pooled(**(given | change))


def test_decision_refuses_other_rows():
    X, Y, truths, matrix = data()
    gram = joint_gram(on_concatenations, X, Y)
    found = fit_pooled(gram, matrix[truths], truths)
    with pytest.raises(ValueError, match="one kernel value a support pair"):
        decision(found, gram.reshape(N, K, -1))
