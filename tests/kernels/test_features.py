"""Coordinates of kernels: inner products are kernel values."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct.kernels import gaussian, gram_matrix, kernel_features, linear, polynomial
from jaxstruct.kernels.features import features_of, gram_factor
from tests.lib.refusals import refused


@pytest.mark.parametrize("kernel", [linear(), polynomial(2), gaussian(1.5)])
def test_inner_products_of_anchors_and_of_new_points_with_them(x64: None, kernel) -> None:
    random = np.random.default_rng(1)
    anchors, points = random.normal(size=(8, 3)), random.normal(size=(2, 5, 3))
    features = kernel_features(kernel, anchors)
    own, new = jax.jit(lambda *all: [features_of(features, each) for each in all])(anchors, points)
    assert own.shape == (8, features.size) and new.shape == (2, 5, features.size)
    own, new, flat = np.asarray(own), np.asarray(new), points.reshape(10, 3)
    np.testing.assert_allclose(own @ own.T, gram_matrix(kernel, anchors), atol=1e-9)
    found = new.reshape(10, -1) @ own.T
    np.testing.assert_allclose(found, gram_matrix(kernel, flat, anchors), atol=1e-9)


def test_a_factor_gives_the_gram_matrix_back(x64: None) -> None:
    points = np.random.default_rng(0).normal(size=(7, 3))
    gram = points @ points.T  # of rank 3
    factor = gram_factor(gram)
    assert factor.shape == (7, 3)
    np.testing.assert_allclose(gram @ factor @ factor.T @ gram, gram, atol=1e-10)
    assert gram_factor(gram, tolerance=0.9).shape == (7, 1)
    assert gram_factor(gram.astype(np.float32)).dtype == np.float32


def test_errors_name_what_does_not_fit() -> None:
    refused("gram: not positive semi-definite", gram_factor, np.diag([1.0, -1.0]))
    refused("zero throughout", gram_factor, np.zeros((2, 2)))
    refused("tolerance", gram_factor, np.eye(2), tolerance=-1.0)
    with refused("expected 3 as in X|features"):
        features_of(kernel_features(linear(), jnp.eye(3)), jnp.ones((2, 4)))
