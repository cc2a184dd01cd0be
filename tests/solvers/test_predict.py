"""What `predict` takes, what it refuses, and the order of what it returns."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

import jaxstruct as js
from jaxstruct.chains.structure import chain, chain_inputs
from jaxstruct.multiclass.structure import KernelInput, kernel_multiclass, multiclass
from tests.lib.refusals import refused

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
