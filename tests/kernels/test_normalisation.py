"""Normalised kernels: the diagonal is 1, points without features have 0."""

from __future__ import annotations

import numpy as np
import pytest

from jaxstruct.kernels import gram_matrix, linear, normalised, pairwise_gram, subsequences
from tests.kernels.string_examples import encoded, random_texts

TEXTS = random_texts(5, 7)


def test_values_are_cosines(x64) -> None:
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(4, 3)), rng.normal(size=(5, 3))
    lengths = [np.linalg.norm(each, axis=1) for each in (X, Z)]
    want = X @ Z.T / np.outer(*lengths)
    np.testing.assert_allclose(gram_matrix(normalised(linear()), X, Z), want, rtol=1e-12)
    np.testing.assert_allclose(pairwise_gram(normalised(linear()), X, Z), want, rtol=1e-12)


@pytest.mark.parametrize("decay", [0.01, 1.0])
def test_strings_without_a_subsequence_have_no_direction(decay, x64) -> None:
    strings, kernel = encoded(TEXTS), normalised(subsequences(3, decay))
    gram = np.asarray(gram_matrix(kernel, strings))
    long = np.array([len(text) >= 3 for text in TEXTS])
    assert 1 < long.sum() < len(TEXTS)
    np.testing.assert_allclose(np.diag(gram), long.astype(float), rtol=1e-12)
    assert not gram[~long].any() and (gram <= 1 + 1e-12).all()
    np.testing.assert_allclose(pairwise_gram(kernel, strings), gram, rtol=1e-12)
