"""Coordinates of kernels: inner products are kernel values; span features of a grammar."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxstruct as js
from jaxstruct.kernels import gaussian, gram_matrix, kernel_features, linear, polynomial
from jaxstruct.kernels.features import features_of, gram_factor
from tests.lib.refusals import refused
from tests.trees import structure_cases as trees


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


def spans_of(sentences: np.ndarray) -> np.ndarray:
    """[n, T, T, 4]: the tags at both ends of each span, its width, and one."""
    n, T = sentences.shape
    first, last = np.indices((T, T))
    ends = [sentences[:, first], sentences[:, last]]
    width = np.broadcast_to((last - first).astype(float), (n, T, T))
    return np.stack([*ends, width, np.ones((n, T, T))], axis=-1)


@pytest.mark.thorough
def test_a_node_weight_is_a_kernelised_function_of_x_and_the_span(x64: None) -> None:
    """Thesis 4.5.1: with a linear kernel the machine of explicit features, on unseen spans too."""
    grammar, (x, y) = trees.grammar(0), trees.examples(0)
    spans = spans_of(np.maximum(np.asarray(x.terminals), 0).astype(float))
    real = (np.arange(4)[:, None] < np.arange(4))[None] & (
        np.arange(4)[None, None] < np.asarray(x.length)[:, None, None]
    )
    anchors = np.unique(spans[real], axis=0)
    objectives, weights = [], []
    unseen = np.random.default_rng(0).normal(size=(5, 4))
    for kernel in (None, linear()):
        features = None if kernel is None else kernel_features(kernel, anchors)
        shown = spans if features is None else np.asarray(features_of(features, spans))
        problem = js.trees.weighted_grammar(grammar, span_features=shown.shape[-1], dtype="float64")
        given = x._replace(spans=shown)
        solution = js.baselines.fit_random_field(problem, given, y, C=10.0, tolerance=1e-7)
        assert solution.status is js.Status.CONVERGED
        objectives.append(solution.primal)
        seen = unseen if features is None else features_of(features, unseen)
        weights.append(np.asarray(seen) @ np.asarray(solution.weights["spans"]))
    np.testing.assert_allclose(objectives[1], objectives[0], rtol=1e-9)
    np.testing.assert_allclose(weights[1], weights[0], atol=1e-5)
    assert np.abs(weights[0]).max() > 0.1


def test_errors_name_what_does_not_fit() -> None:
    refused("gram: not positive semi-definite", gram_factor, np.diag([1.0, -1.0]))
    refused("zero throughout", gram_factor, np.zeros((2, 2)))
    refused("tolerance", gram_factor, np.eye(2), tolerance=-1.0)
    with refused("expected 3 as in X|features"):
        features_of(kernel_features(linear(), jnp.eye(3)), jnp.ones((2, 4)))
