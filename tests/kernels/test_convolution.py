"""Convolution kernels: known kernels as decompositions, the fast way, weights and padding."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.kernels import (
    Parts,
    convolution,
    equality,
    gaussian,
    gram_matrix,
    linear,
    pairwise_gram,
    precomputed,
    spectrum,
    tensor_product,
    windows,
)
from tests.kernels.string_examples import encoded, random_texts
from tests.lib.refusals import refused

TEXTS = random_texts(4, 7)


def test_equal_windows_are_the_spectrum() -> None:
    strings, kernel = encoded(TEXTS), convolution(windows(2), [equality()] * 2)
    want = gram_matrix(spectrum(2), strings)
    assert np.asarray(want).max() > 2
    np.testing.assert_array_equal(gram_matrix(kernel, strings), want)
    np.testing.assert_array_equal(pairwise_gram(kernel, strings), want)


def test_letters_that_are_alike_count_in_part() -> None:
    similarity = 0.5 * np.eye(4) + 0.5
    kernel = convolution(windows(2), [precomputed(similarity)] * 2)
    got = np.asarray(pairwise_gram(kernel, encoded(["ab", "ac", "bab"])))
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
    np.testing.assert_allclose(pairwise_gram(kernel, X), want, rtol=1e-10)
    np.testing.assert_allclose(gram_matrix(kernel, X), want, rtol=1e-10)
    np.testing.assert_allclose(gram_matrix(kernel, X[:2], X), np.array(want)[:2], rtol=1e-10)


def test_one_decomposition_is_the_tensor_product() -> None:
    def pair(x):
        return Parts((x[0][None], x[1][None]), jnp.ones(1))

    rng = np.random.default_rng(1)
    X = (rng.normal(size=(4, 3)), rng.normal(size=(4, 2)))
    np.testing.assert_allclose(
        gram_matrix(convolution(pair, [linear(), gaussian(1.0)]), X),
        gram_matrix(tensor_product(linear(), gaussian(1.0)), X), rtol=1e-5,
    )  # fmt: skip


def test_equality_looks_at_all_entries() -> None:
    a = {"x": jnp.arange(3), "y": jnp.ones(())}
    assert equality()(a, a) == 1
    assert equality()(a, {"x": jnp.arange(3), "y": jnp.zeros(())}) == 0


def test_what_does_not_fit_is_refused() -> None:
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
