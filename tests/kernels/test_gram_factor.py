"""Factors of Gram matrices."""

from __future__ import annotations

import numpy as np

from jaxstruct.kernels.features import gram_factor


def test_a_factor_gives_the_gram_matrix_back(x64: None) -> None:
    points = np.random.default_rng(0).normal(size=(7, 3))
    gram = points @ points.T  # of rank 3
    factor = gram_factor(gram)
    assert factor.shape == (7, 3)
    np.testing.assert_allclose(gram @ factor @ factor.T @ gram, gram, atol=1e-10)
    assert gram_factor(gram, tolerance=0.9).shape == (7, 1)
    assert gram_factor(gram.astype(np.float32)).dtype == np.float32
