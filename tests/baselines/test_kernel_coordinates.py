"""Kernel random fields: on linear kernels the linear ones, on others those of a Cholesky factor."""

from __future__ import annotations

import numpy as np
import pytest

import jaxstruct as js
from jaxstruct import Status, predict
from jaxstruct.baselines import certify_random_field, fit_random_field
from jaxstruct.chains import chain
from jaxstruct.chains.potentials import ChainInput
from jaxstruct.kernels import gaussian, gram_matrix, linear
from jaxstruct.multiclass import kernel_inputs, kernel_multiclass, multiclass
from tests.baselines.sequences import PLAIN, Sequences, flat, random_sequences
from tests.baselines.test_conditional_random_field import all_outputs
from tests.chains.structure_cases import kernel_token_inputs
from tests.lib.refusals import refused

DATA = random_sequences(0, n=8, T=4, d=3, S=3)
NEW = random_sequences(1, n=8, T=4, d=3, S=3)
REAL = np.arange(4) < DATA.length[:, None]
ANCHORS = DATA.tokens[REAL]
M = len(ANCHORS)
PLACES = np.full(REAL.shape, -1)
PLACES[REAL] = np.arange(M)
C = 5.0


def inputs_of(kernel, data: Sequences, places: np.ndarray) -> ChainInput:
    return kernel_token_inputs(kernel, data.tokens, data.length, ANCHORS, places)


def new_inputs(kernel) -> ChainInput:
    return inputs_of(kernel, NEW, np.where(NEW.y >= 0, M, -1))


def test_with_a_linear_kernel_it_is_the_linear_field(x64: None) -> None:
    """The same objective, and the same labels of sequences that did not train."""
    plain = DATA.problem(PLAIN, dtype="float64")
    best = fit_random_field(plain, DATA.inputs(), DATA.y, C, tolerance=1e-8)
    kernel = chain(M, 3, **PLAIN, dtype="float64")
    x = inputs_of(linear(), DATA, PLACES)
    found = fit_random_field(kernel, x, DATA.y, C, tolerance=1e-8)
    assert found.status is Status.CONVERGED
    assert found.weights["emissions"].shape == (M, 3)
    np.testing.assert_allclose(found.objective, best.objective, rtol=1e-10)
    lifted = ANCHORS.T @ found.weights["emissions"]
    np.testing.assert_allclose(lifted, best.weights["emissions"], atol=1e-6)
    np.testing.assert_array_equal(
        predict(kernel, found, new_inputs(linear())), predict(plain, best, NEW.inputs())
    )


@pytest.mark.thorough
def test_a_gaussian_kernel(x64: None) -> None:
    """Against scipy's optimum over features that are the rows of a Cholesky factor of K."""
    kernel, problem = gaussian(1.0), chain(M, 3, **PLAIN, dtype="float64")
    gram = np.asarray(gram_matrix(kernel, ANCHORS))
    factor = np.linalg.cholesky(gram + 1e-13 * np.eye(M))
    tokens = np.zeros((*REAL.shape, M))
    tokens[REAL] = factor
    w, objective = all_outputs(DATA._replace(tokens=tokens), PLAIN).optimum(C)
    x, seen = inputs_of(kernel, DATA, PLACES), []
    found = fit_random_field(
        problem, x, DATA.y, C, tolerance=1e-8, callback=lambda one: seen.append(one.weights)
    )
    assert found.status is Status.CONVERGED and 0 <= found.gap < 1e-8
    np.testing.assert_allclose(found.objective, objective, rtol=1e-9)
    coefficients = np.linalg.solve(factor.T, w[: 3 * M].reshape(M, 3))  # L u = K B, B = L^-T u
    np.testing.assert_allclose(gram @ found.weights["emissions"], gram @ coefficients, atol=1e-5)
    np.testing.assert_array_equal(flat(seen[-1]), flat(found.weights))
    again = certify_random_field(problem, found.weights, x, DATA.y, C)
    np.testing.assert_allclose([again.primal, again.dual], objective, rtol=1e-9)


@pytest.mark.parametrize("described", [False, True])
def test_kernel_logistic_regression_with_class_features(x64: None, described: bool) -> None:
    random = np.random.default_rng(3)
    x, new = random.normal(size=(12, 4)), random.normal(size=(6, 4))
    y = np.arange(12) % 3
    features = random.normal(size=(3, 2)) if described else None
    plain = multiclass(4, 3, output_features=features, dtype="float64")
    options = dict(tolerance=1e-8)
    best = fit_random_field(plain, x, y, C, **options)
    problem = kernel_multiclass(12, 3, output_features=features, dtype="float64")
    found = fit_random_field(problem, kernel_inputs(x @ x.T), y, C, **options)
    np.testing.assert_allclose(found.objective, best.objective, rtol=1e-9)
    rows = kernel_inputs(new @ x.T, self_kernel=np.sum(new * new, axis=1))
    np.testing.assert_array_equal(predict(problem, found, rows), predict(plain, best, new))


def test_anchors_that_do_not_train_have_no_coefficient(x64: None) -> None:
    x = inputs_of(linear(), DATA, PLACES)
    some, y = js.take(x, np.arange(6)), DATA.y[:6]
    plain = DATA.problem(PLAIN, dtype="float64")
    best = fit_random_field(plain, js.take(DATA.inputs(), np.arange(6)), y, C, tolerance=1e-8)
    found = fit_random_field(chain(M, 3, **PLAIN, dtype="float64"), some, y, C, tolerance=1e-8)
    np.testing.assert_allclose(found.objective, best.objective, rtol=1e-9)
    trained = int(DATA.length[:6].sum())
    assert np.abs(found.weights["emissions"][:trained]).max() > 0.01
    np.testing.assert_array_equal(found.weights["emissions"][trained:], 0)


def test_values_of_no_kernel_are_refused() -> None:
    gram = np.array([[1.0, 2.0], [2.0, 1.0]])
    with refused("not positive semi-definite"):
        fit_random_field(kernel_multiclass(2, 2), kernel_inputs(gram), np.arange(2))
