"""Binary machines with a bias against an independent QP, and by every route."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

import jaxstruct as js
from experiments.machines import binary
from experiments.machines.binary import decision_values, fit_binary
from jaxstruct import kernels, multiclass
from jaxstruct.core.status import Status
from tests.lib.refusals import refused
from tests.truth.chapter_two import binary_optimum

N, D = 24, 4
RNG = np.random.default_rng(5)
X = RNG.normal(size=(N, D)) + 3.0
SIGNS = np.where(RNG.random((N, 3)) < 0.5, 1, -1)
SIGNS[:, 1] *= RNG.random(N) < 0.8  # machine 1 leaves a fifth out
SPLIT = X - X.mean(0)
HARD = np.where(SPLIT @ np.array([[1.0, 0, 2], [-1, 1, 0], [0, 1, 1], [1, 0, -1]]) > 0.3, 1, -1)
FEW = np.zeros((N, 3), int)
FEW[:5, 0], FEW[5:9, 0], FEW[:4, 1], FEW[9:12, 1] = 1, -1, 1, -1
FEW[20:, 2], FEW[4:7, 2] = 1, -1
EXACT = {"dtype": "float64", "tolerance": 1e-10}
GRAM = X @ X.T


def optima(formulation, x, signs, C):
    found = (binary_optimum(formulation, x, own, C) for own in signs.T)
    return map(np.array, zip(*found, strict=True))


@pytest.mark.parametrize(
    "formulation, C",
    [("svm0", 1.0), ("svm1", 2.0), ("svm1", 500.0), ("svm2", 2.0), ("svm2", 500.0)],
)
def test_the_optimum_is_that_of_the_quadratic_program(x64, formulation, C):
    signs = HARD if formulation == "svm0" else SIGNS
    objective, w, b = optima(formulation, X, signs, C)
    found = fit_binary(X, signs, formulation, C, **EXACT)
    assert found.status is Status.CONVERGED
    np.testing.assert_allclose(found.primal, objective, rtol=1e-8)
    np.testing.assert_allclose(found.dual, objective, rtol=1e-8)
    np.testing.assert_allclose(found.weights["weights"], w.T, atol=2e-4 * np.abs(w).max())
    margins = signs * decision_values(found, X)
    assert np.all(found.alpha >= 0) and np.allclose((found.alpha * found.signs).sum(1), 0)
    expansion = X.T @ (found.alpha * found.signs).T
    np.testing.assert_allclose(found.weights["weights"], expansion, atol=1e-9)  # (2.12)
    slack = 0.0 if formulation == "svm0" else found.slack.T
    kkt = found.alpha.T * (margins - 1 + slack) * (signs != 0)  # (2.13), (2.14)
    assert np.abs(kkt).max() < 1e-4 * found.alpha.max()
    if formulation == "svm0":
        np.testing.assert_allclose(found.margin_bound, 1 / np.linalg.norm(w, axis=1), rtol=1e-6)


@pytest.mark.thorough
@pytest.mark.parametrize("formulation", ["svm1", "svm2"])
def test_every_kind_of_input_and_every_route_is_one_machine(x64, formulation, monkeypatch):
    sparse = js.from_scipy(csr_array(np.where(np.abs(X) < 2, 0.0, X)))
    wanted = fit_binary(np.where(np.abs(X) < 2, 0.0, X), SIGNS, formulation, 9.0, **EXACT)
    few = fit_binary(X, FEW, formulation, 9.0, **EXACT)
    kernel = multiclass.kernel_inputs(GRAM)
    by_kernel = fit_binary(kernel, FEW, formulation, 9.0, **EXACT)
    np.testing.assert_allclose(by_kernel.primal, few.primal, rtol=1e-9)
    values = decision_values(by_kernel, kernel)
    np.testing.assert_allclose(values, decision_values(few, X), atol=1e-3)
    for own in (by_kernel, few):
        assert own.members.shape == (3, 9) and np.all(own.members[1, 7:] == N)
    by_rows = fit_binary(sparse, SIGNS, formulation, 9.0, number_of_features=D, **EXACT)
    np.testing.assert_allclose(by_rows.primal, wanted.primal, rtol=1e-9)
    monkeypatch.setattr(binary, "PART", 6)  # from here on in parts
    for inputs, signs, other in ((sparse, SIGNS, wanted), (X, FEW, few)):
        parts = fit_binary(inputs, signs, formulation, 9.0, number_of_features=D, **EXACT)
        assert parts.status is Status.CONVERGED
        np.testing.assert_allclose(parts.primal, other.primal, rtol=1e-9)
        np.testing.assert_allclose(parts.weights["bias"], other.weights["bias"], atol=1e-3)


def test_the_bias_is_not_regularised(x64):
    shifted = fit_binary(X + 100.0, SIGNS, "svm1", 5.0, **EXACT)
    here = fit_binary(X, SIGNS, "svm1", 5.0, **EXACT)
    np.testing.assert_allclose(shifted.primal, here.primal, rtol=1e-7)


def test_a_gaussian_kernel_is_solved_by_its_values(x64):
    gram = np.asarray(kernels.gram_matrix(kernels.gaussian(1.5), X))
    root = np.linalg.cholesky(gram + 1e-12 * np.eye(N))
    objective, _, _ = optima("svm1", root, SIGNS, 40.0)
    found = fit_binary(multiclass.kernel_inputs(gram), SIGNS, "svm1", 40.0, **EXACT)
    np.testing.assert_allclose(found.primal, objective, rtol=1e-8)


def test_no_hyperplane_is_said_so_and_others_still_converge():
    signs = HARD.copy()
    signs[:, 1] = np.where(np.arange(N) % 2, 1, -1)
    found = fit_binary(np.float32(X), signs, "svm0")
    assert found.statuses == (Status.CONVERGED, Status.NOT_SEPARABLE, Status.CONVERGED)
    assert found.status is Status.NOT_SEPARABLE and found.primal[1] == np.inf
    spread = np.linalg.norm(X - X.mean(0), axis=1).max()
    assert found.margin_bound[1] < 1e-3 * spread < found.margin_bound[0]


def test_support_vectors_carry_the_machine():
    refused(r"signs\[:, 0\] has no -1", fit_binary, X, np.ones(N))
    found = fit_binary(X, SIGNS, "svm1", 5.0)
    carried = found.alpha[2] > 0
    assert carried.sum() < N
    rows = (found.members, found.alpha, found.signs, found.slack)
    example, alpha, signs, slack = (row[2][carried] for row in rows)
    own = X[example].T @ (alpha * signs)
    np.testing.assert_allclose(own, found.weights["weights"][:, 2], atol=1e-4)
    np.testing.assert_allclose(slack[alpha < 5.0 / N], 0, atol=5e-2)


def test_a_run_that_is_cut_short_still_says_its_gap(monkeypatch):
    monkeypatch.setattr(binary, "STEPS", -39)  # 1000 - 39 * 24 = 64
    found = fit_binary(X, np.where(np.arange(N) % 2, 1, -1), "svm1", 1e5, max_passes=1)
    assert found.status is Status.PASS_LIMIT and found.gap[0] > 0
    assert found.steps[0] <= 64
