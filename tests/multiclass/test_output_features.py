"""Output features against their definitions, and propositions 19 to 23, corollary 4 on them."""

from __future__ import annotations

import builtins
import math

import jax
import numpy as np
import pytest

from jaxstruct.kernels import (
    gaussian,
    gram_matrix,
    linear,
    pairwise_gram,
    precomputed,
    tensor_product,
)
from jaxstruct.kernels.input import check_positive_semidefinite
from jaxstruct.multiclass.output_features import (
    class_kernel,
    description_features,
    similarity_features,
    taxonomy_features,
)
from jaxstruct.multiclass.structure import multiclass
from jaxstruct.multiclass.taxonomy import taxonomy_from_parents, taxonomy_from_paths
from tests.lib.refusals import refused

TREE = taxonomy_from_paths(
    {"a": ("top", "left"), "b": ("top", "left"), "c": ("top", "right"), "d": ("top",)}
)
TEXTS = ["red apple pie", "green apple", "blue sky sky", "apple apple pie pie"]
RNG = np.random.default_rng(0)


def similarity(k=4):
    factor = RNG.normal(size=(k, k))
    return factor @ factor.T


def all_features():
    return {
        "canonical": np.eye(4),
        "tree": taxonomy_features(TREE),
        "weighted": taxonomy_features(TREE, lambda depth: 0.5**depth, normalise=True),
        "texts": description_features(TEXTS, 0.5),
        "similarity": similarity_features(similarity()),
    }


def joint_feature(x, row):
    """Phi(x) (x) Lambda(y): entry i + (j - 1) d is x_i lambda_j (4.2)."""
    return np.concatenate([weight * x for weight in row])


def test_taxonomy_features_count_shared_ancestors():
    features = taxonomy_features(TREE)
    assert features.dtype == np.float64 and features.shape == (4, len(TREE.names))
    # a, b share top and left; c, d share the top alone with the others; d has two nodes only
    want = [[3, 2, 1, 1], [2, 3, 1, 1], [1, 1, 3, 1], [1, 1, 1, 2]]
    np.testing.assert_array_equal(class_kernel(features), want)


def test_a_flat_taxonomy_gives_the_canonical_features():
    flat = taxonomy_from_parents(dict.fromkeys("xyz"), "xyz")
    np.testing.assert_array_equal(taxonomy_features(flat), np.eye(3))


def test_node_weights_in_three_forms():
    depth = {"top": 0, "left": 1, "right": 1, "d": 1, "a": 2, "b": 2, "c": 2}
    named = {name: 2.0 ** -depth[name] for name in depth}
    array = [named[name] for name in TREE.names]
    want = taxonomy_features(TREE) * np.array(array)
    for weights in (named, array, lambda level: 2.0**-level):
        np.testing.assert_array_equal(taxonomy_features(TREE, weights), want)
    assert class_kernel(want)[0, 1] == 1 + 1 / 4
    unit = taxonomy_features(TREE, named, normalise=True)
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, rtol=1e-15)
    np.testing.assert_allclose(unit * np.linalg.norm(want, axis=1)[:, None], want, rtol=1e-15)


def hand_tf_idf(texts):
    words = sorted({word for text in texts for word in text.split()})
    table = np.zeros((len(texts), len(words)))
    for j, word in enumerate(words):
        holding = sum(word in text.split() for text in texts)
        idf = math.log((1 + len(texts)) / (1 + holding)) + 1
        table[:, j] = [text.split().count(word) * idf for text in texts]
    return table / np.linalg.norm(table, axis=1, keepdims=True)


def test_descriptions_are_tf_idf_beside_the_identity():
    table = hand_tf_idf(TEXTS)
    features = description_features(TEXTS, identity_weight=0.5)
    assert features.dtype == np.float64
    np.testing.assert_allclose(features, np.hstack([table, 0.5 * np.eye(4)]), rtol=1e-12)
    np.testing.assert_allclose(
        class_kernel(features), table @ table.T + 0.25 * np.eye(4), rtol=1e-12, atol=1e-15
    )
    np.testing.assert_allclose(description_features(TEXTS, 0.0), table, rtol=1e-12)


def test_descriptions_pass_options_and_allow_an_empty_text_beside_the_identity():
    features = description_features(["the apple", "the"], 1.0, {"stop_words": ["the"]})
    np.testing.assert_array_equal(features, [[1, 1, 0], [0, 0, 1]])
    with refused(r"texts\[1\]: got 'the', which holds no term"):
        description_features(["the apple", "the"], 0.0, {"stop_words": ["the"]})


def test_without_scikit_learn_the_extra_is_named(monkeypatch):
    real = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.startswith("sklearn"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    refused(r"jaxstruct\[experiments\]", description_features, TEXTS, error=ImportError)


def test_similarity_features_give_the_similarity_back():
    for rank in (1, 2, 5):
        factor = RNG.normal(size=(5, rank))
        given = factor @ factor.T
        features = similarity_features(given)
        assert features.shape == (5, rank)
        np.testing.assert_allclose(class_kernel(features), given, rtol=1e-12, atol=1e-13)
        largest = np.abs(features).argmax(axis=0)
        assert np.all(features[largest, np.arange(rank)] > 0)
    np.testing.assert_array_equal(similarity_features(np.zeros((3, 3))), np.zeros((3, 1)))


@pytest.mark.parametrize("name", ["canonical", "tree", "weighted", "texts", "similarity"])
def test_proposition_21_the_joint_kernel_is_the_tensor_product(name):
    features = all_features()[name]
    with jax.enable_x64(True):
        X, y = RNG.normal(size=(8, 3)), RNG.integers(0, 4, 8)
        explicit = np.stack([joint_feature(x, features[c]) for x, c in zip(X, y, strict=True)])
        L = precomputed(class_kernel(features))
        joint = gram_matrix(tensor_product(linear(), L), (X, y))
        np.testing.assert_allclose(joint, explicit @ explicit.T, rtol=1e-11, atol=1e-12)
        deep = np.asarray(pairwise_gram(tensor_product(gaussian(1.0), L), (X, y)))
        check_positive_semidefinite(deep, "J", 1e-10)


@pytest.mark.parametrize("name", ["canonical", "tree", "weighted", "texts", "similarity"])
def test_proposition_22_the_score_is_a_weighted_sum_of_class_feature_scores(name):
    features = all_features()[name]
    w, x = RNG.normal(size=(features.shape[1], 3)), RNG.normal(size=3)
    for row in features:
        want = sum(row[r] * (w[r] @ x) for r in range(len(w)))
        np.testing.assert_allclose(w.reshape(-1) @ joint_feature(x, row), want, rtol=1e-11)
    if name == "canonical":  # proposition 19
        np.testing.assert_allclose(features @ w @ x, w @ x, rtol=1e-14)


@pytest.mark.parametrize("name", ["canonical", "tree", "weighted", "texts"])
def test_proposition_23_for_features_that_are_not_negative(name):
    features = all_features()[name]
    S = np.linalg.norm(features, axis=1).max()
    for x in RNG.normal(size=(5, 3)):
        rows = [joint_feature(x, row) for row in features]
        bound = 2 * (x @ x) * S**2 * (1 + 1e-12)
        assert max(np.sum((a - b) ** 2) for a in rows for b in rows) <= bound


def test_proposition_23_needs_similarities_above_zero():
    """Lambda(1) = -Lambda(2): the distance is 4 R^2 S^2, which is the bound that always holds."""
    features = similarity_features([[1.0, -1.0], [-1.0, 1.0]])
    x = np.array([3.0, 4.0])
    a, b = (joint_feature(x, row) for row in features)
    np.testing.assert_allclose(np.sum((a - b) ** 2), 4 * 25, rtol=1e-14)


@pytest.mark.parametrize("name", ["canonical", "tree", "weighted", "texts", "similarity"])
def test_corollary_4_features_beside_the_identity_add_no_power(name):
    """Thesis, corollary 4 (JMLR, 23): Lambda = (Lambda~', Lambda^c')' scores what Lambda^c does.

    Every w~ has a w of the same scores, v_y = sum_r lambda_r(y) v~_r, and every w a w~.
    """
    tilde, k, d = all_features()[name], 4, 3
    both = np.concatenate([tilde, np.eye(k)], axis=1)
    with jax.enable_x64(True):
        large = multiclass(d, k, output_features=both, dtype="float64")
        small = multiclass(d, k, dtype="float64")
        (leaf,), shape = jax.tree.flatten(large.initial_weights)
        (plain,), flat_shape = jax.tree.flatten(small.initial_weights)
        x, y = RNG.normal(size=(5, d)), np.arange(k)

        def scores(problem, w):
            theta = jax.vmap(problem.model.potentials, (None, 0))(w, x)
            return np.asarray(
                jax.vmap(jax.vmap(problem.model.score, (None, 0)), (0, None))(theta, y)
            )

        given = RNG.normal(size=(tilde.shape[1] + k, d))  # v~_r, a row each
        combined = both @ given  # v_y
        of_large = jax.tree.unflatten(shape, [_as_leaf(given, leaf)])
        of_small = jax.tree.unflatten(flat_shape, [_as_leaf(combined, plain)])
        assert np.abs(scores(large, of_large)).max() > 0.1
        np.testing.assert_allclose(scores(small, of_small), scores(large, of_large), atol=1e-12)
        back = np.concatenate([np.zeros((tilde.shape[1], d)), combined])
        again = jax.tree.unflatten(shape, [_as_leaf(back, leaf)])
        np.testing.assert_allclose(scores(large, again), scores(small, of_small), atol=1e-12)


def _as_leaf(rows, leaf):
    """Vectors, one a row, in the way that the weights hold them."""
    return jax.numpy.asarray(rows if leaf.shape == rows.shape else rows.T, leaf.dtype)


@pytest.mark.smoke
def test_proposition_20_the_distance_of_two_classes():
    """|Psi(x, y) - Psi(x, y')|^2 <= 2 |x|^2 for the canonical features, reached by y != y'."""
    x = RNG.normal(size=(5, 3))
    with jax.enable_x64(True):
        problem = multiclass(3, 4, dtype="float64")
        y_true, planes = np.arange(5) % 4, np.tile(np.arange(4), (5, 1))
        found = np.asarray(jax.vmap(problem.space.plane_norms)(x, y_true, planes))
        gram = jax.vmap(problem.space.plane_gram)(x, y_true, planes, planes[:, 1])
    apart = np.eye(4)[y_true][:, None] - np.eye(4)
    wanted = np.einsum("nkc,nc->nk", apart, apart[:, 1]) * np.sum(x**2, axis=1)[:, None]
    np.testing.assert_allclose(gram, wanted, atol=1e-12)
    bound = 2 * np.sum(x**2, axis=1)[:, None] * np.ones(4)
    assert (found <= bound * (1 + 1e-12)).all()
    np.testing.assert_allclose(found, np.where(planes == y_true[:, None], 0, bound), rtol=1e-12)


def test_what_does_not_fit_is_refused():
    weights = {"top": 1, "left": 1, "a": 1, "right": 1, "d": 1, "c": 1, "z": 1}
    refused(r"missing \['b'.*not in the taxonomy \['z'\]", taxonomy_features, TREE, weights)
    refused("is 0.0: .* for node 'top'", taxonomy_features, TREE, lambda depth: float(depth))
    refused(r"node_weights must be \[nodes = 7\]", taxonomy_features, TREE, [1.0, 2.0])
    refused("taxonomy must be a Taxonomy", taxonomy_features, {"a": None})
    refused("normalise must be True or False", taxonomy_features, TREE, normalise="no")
    refused("texts must be a non-empty sequence of str", description_features, ["a b", None])
    refused("texts: no terms", description_features, ["", ""])
    refused("identity_weight must be finite and >= 0, got -1", description_features, TEXTS, -1)
    refused("vectoriser_options must be a mapping", description_features, ["a b"], 1.0, 3)
    wrong = {"nope": 1}
    refused("vectoriser_options: scikit-learn", description_features, ["a b"], 1.0, wrong)
    refused(
        "similarity: not positive.*eigenvalue -1", similarity_features, [[1.0, 2.0], [2.0, 1.0]]
    )
    refused("similarity: not symmetric", similarity_features, [[1.0, 2.0], [0.0, 1.0]])
    refused("tolerance must be finite", similarity_features, np.eye(2), "x")
    refused(r"features must be \[k, p\] numbers, got .* \(3,\)", class_kernel, np.zeros(3))
