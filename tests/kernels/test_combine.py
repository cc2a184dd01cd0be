"""Propositions 1 to 4: combinations are kernels, with the features that the proofs build."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct.kernels import (
    Parts,
    convolution,
    direct_sum,
    equality,
    gaussian,
    gram_matrix,
    linear,
    pairwise_gram,
    polynomial,
    precomputed,
    product,
    spectrum,
    tensor_product,
    weighted_sum,
    windows,
)
from jaxstruct.kernels.input import check_positive_semidefinite
from tests.kernels.string_examples import encoded, random_texts
from tests.lib.refusals import refused

RNG = np.random.default_rng(0)
X1, X2 = RNG.normal(size=(12, 3)), RNG.normal(size=(12, 4))


def squares(X):
    """Features of <x, z>^2."""
    return np.einsum("ni,nj->nij", X, X).reshape(len(X), -1)


pairwise, gram = jax.jit(pairwise_gram), jax.jit(gram_matrix)


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
    np.testing.assert_allclose(pairwise(kernel, points), features @ features.T, rtol=1e-12)
    mixed = combine([gaussian(0.7), polynomial(3, 0.2)])
    check_positive_semidefinite(np.asarray(pairwise(mixed, points)), proposition, 1e-10)


def test_a_difference_is_no_kernel_so_the_checks_above_can_fail():
    with jax.enable_x64(True):
        difference = np.subtract(pairwise(linear(), X1), pairwise(gaussian(1.0), X1))
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


def test_combinations_that_are_refused():
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


WORDS = random_texts(4, 7)


def test_equal_windows_are_the_spectrum() -> None:
    strings, kernel = encoded(WORDS), convolution(windows(2), [equality()] * 2)
    want = gram_matrix(spectrum(2), strings)
    assert np.asarray(want).max() > 2
    np.testing.assert_array_equal(gram(kernel, strings), want)
    np.testing.assert_array_equal(pairwise(kernel, strings), want)


def test_letters_that_are_alike_count_in_part() -> None:
    similarity = 0.5 * np.eye(4) + 0.5
    kernel = convolution(windows(2), [precomputed(similarity)] * 2)
    got = np.asarray(pairwise(kernel, encoded(["ab", "ac", "bab"])))
    np.testing.assert_allclose(got[0, :2], [1, 0.5])
    np.testing.assert_allclose(got[0, 2], 0.25 + 1)


def two_halves(x):
    """Three ways to cut [4] numbers in two components, the last one padding full of nan."""
    first = jnp.stack([x[:2], x[2:], jnp.full(2, jnp.nan)])
    second = jnp.stack([x[2:], x[:2], jnp.full(2, jnp.nan)])
    return Parts((first, second), jnp.array([1.0, 0.5, 0.0]))


def test_it_is_the_double_sum_over_decompositions(x64) -> None:
    X = np.random.default_rng(0).normal(size=(5, 4))
    kernels = [linear(), gaussian(1.5)]
    kernel = convolution(two_halves, kernels)
    cuts = [[(x[:2], x[2:], 1.0), (x[2:], x[:2], 0.5)] for x in X]
    want = [
        [
            sum(
                v * w * (a @ p) * np.exp(-np.sum((b - q) ** 2) / (2 * 1.5**2))
                for a, b, v in s for p, q, w in t
            )
            for t in cuts
        ]
        for s in cuts
    ]  # fmt: skip
    np.testing.assert_allclose(pairwise(kernel, X), want, rtol=1e-10)
    np.testing.assert_allclose(gram(kernel, X), want, rtol=1e-10)
    np.testing.assert_allclose(gram(kernel, X[:2], X), np.array(want)[:2], rtol=1e-10)


def test_one_decomposition_is_the_tensor_product() -> None:
    def pair(x):
        return Parts((x[0][None], x[1][None]), jnp.ones(1))

    rng = np.random.default_rng(1)
    X = (rng.normal(size=(4, 3)), rng.normal(size=(4, 2)))
    np.testing.assert_allclose(
        gram(convolution(pair, [linear(), gaussian(1.0)]), X),
        gram(tensor_product(linear(), gaussian(1.0)), X), rtol=1e-5,
    )  # fmt: skip


def test_equality_looks_at_all_entries() -> None:
    a = {"x": jnp.arange(3), "y": jnp.ones(())}
    assert equality()(a, a) == 1
    assert equality()(a, {"x": jnp.arange(3), "y": jnp.zeros(())}) == 0


def test_decompositions_that_are_refused() -> None:
    refused("decompose: got int, expected a function", lambda: convolution(3, [linear()]))
    refused("kernels must be a non-empty sequence", lambda: convolution(windows(2), []))
    one = jax.tree.map(lambda leaf: leaf[0], encoded(["ab"]))
    with refused(r"got 2 components, expected 1, one for each kernel"):
        convolution(windows(2), [equality()])(one, one)
    with refused(r"decompose\(x\) must be a Parts"):
        convolution(lambda x: x, [equality()])(one, one)
    wrong = convolution(lambda x: Parts((x,), np.ones(3)), [linear()])
    with refused(r"got weights of shape \(3,\) and components of leading"):
        wrong(np.ones((2, 2)), np.ones((2, 2)))
