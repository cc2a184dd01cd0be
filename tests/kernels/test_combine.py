"""Propositions 1 to 4: combinations are kernels, with the features that the proofs build."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct.kernels import (
    direct_sum,
    gaussian,
    linear,
    pairwise_gram,
    polynomial,
    precomputed,
    product,
    tensor_product,
    weighted_sum,
)
from jaxstruct.kernels.input import check_positive_semidefinite
from tests.lib.refusals import refused

RNG = np.random.default_rng(0)
X1, X2 = RNG.normal(size=(12, 3)), RNG.normal(size=(12, 4))


def squares(X):
    """Features of <x, z>^2."""
    return np.einsum("ni,nj->nij", X, X).reshape(len(X), -1)


def gram64(kernel, X):
    return np.asarray(pairwise_gram(kernel, X))


PROPOSITIONS = {
    "1, weighted sum": (
        X1, partial(weighted_sum, coefficients=[0.5, 3.0]),
        np.hstack([np.sqrt(0.5) * X1, np.sqrt(3.0) * squares(X1)]),
    ),
    "2, product": (X1, product, np.einsum("ni,nj->nij", X1, squares(X1)).reshape(len(X1), -1)),
    "3, tensor product": (
        (X1, X2), lambda two: tensor_product(*two),
        np.einsum("ni,nj->nij", X1, squares(X2)).reshape(len(X1), -1),
    ),
    "4, direct sum": ((X1, X2), lambda two: direct_sum(*two), np.hstack([X1, squares(X2)])),
}  # fmt: skip
"""Points, how two kernels are combined, and the features of the combination of those below."""


@pytest.mark.parametrize("proposition", PROPOSITIONS)
def test_a_combination_has_the_features_of_its_proposition(x64, proposition):
    points, combine, features = PROPOSITIONS[proposition]
    kernel = combine([linear(), polynomial(2, 0.0)])
    np.testing.assert_allclose(gram64(kernel, points), features @ features.T, rtol=1e-12)
    mixed = combine([gaussian(0.7), polynomial(3, 0.2)])
    check_positive_semidefinite(gram64(mixed, points), proposition, 1e-10)


def test_a_difference_is_no_kernel_so_the_checks_above_can_fail():
    with jax.enable_x64(True):
        difference = gram64(linear(), X1) - gram64(gaussian(1.0), X1)
        refused("semi-definite", check_positive_semidefinite, difference, "difference", 1e-10)


@pytest.mark.parametrize("jit", [False, True])
def test_combinations_nest_and_take_plain_functions(jit):
    def first(x, z):
        return x[0] * z[0]

    kernel = weighted_sum([product([first, linear()]), gaussian(1.0)], [2.0, 1.0])
    call = jax.jit(lambda k, x, z: k(x, z)) if jit else (lambda k, x, z: k(x, z))
    x, z = X1[0].astype(np.float32), X1[1].astype(np.float32)
    want = 2 * x[0] * z[0] * (x @ z) + np.exp(-np.sum((x - z) ** 2) / 2)
    got = call(kernel, x, z)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_errors():
    with refused("coefficients: got 1, expected one for each of 2"):
        weighted_sum([linear(), linear()], [1.0])
    with refused(r"coefficients\[1\] must be .*, got -1.0"):
        weighted_sum([linear(), linear()], [1.0, -1.0])
    refused("kernels must be a non-empty", product, [])
    refused("kernels must be a non-empty", lambda: product(linear()))
    refused("kernel must be a function .*, got 1.0", lambda: tensor_product(1.0, linear()))
    with refused("x: got .*expected a pair"):
        direct_sum(linear(), linear())(jnp.ones(2), jnp.ones(2))
    with refused("x': got tuple, expected a pair"):
        direct_sum(linear(), precomputed(np.eye(2)))((jnp.ones(2), 0), (jnp.ones(2), 0, 1))
