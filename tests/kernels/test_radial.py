"""A Gaussian in another kernel's feature space."""

from __future__ import annotations

import numpy as np

from jaxstruct.kernels import (
    gaussian,
    gram_matrix,
    linear,
    normalised,
    pairwise_gram,
    radial,
    spectrum,
)
from tests.kernels.string_examples import encoded, random_texts
from tests.lib.refusals import refused


def test_of_the_linear_kernel_it_is_the_gaussian(x64) -> None:
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(4, 3)), rng.normal(size=(5, 3))
    want = gram_matrix(gaussian(0.7), X, Z)
    np.testing.assert_allclose(gram_matrix(radial(linear(), 0.7), X, Z), want, rtol=1e-10)
    np.testing.assert_allclose(pairwise_gram(radial(linear(), 0.7), X, Z), want, rtol=1e-10)


def test_of_strings_it_falls_with_the_distance(x64) -> None:
    strings, inner = encoded(random_texts(9, 7)), normalised(spectrum(2))
    values = np.asarray(gram_matrix(inner, strings))
    own = np.diag(values)
    want = np.exp(-(own[:, None] - 2 * values + own) / (2 * 0.5**2))
    got = gram_matrix(radial(inner, 0.5), strings)
    np.testing.assert_allclose(got, want, rtol=1e-10)
    assert 0.01 < np.asarray(got).min() < 0.5


def test_what_does_not_fit_is_refused() -> None:
    refused("sigma must be finite and > 0, got 0.0", lambda: radial(linear(), 0.0))
