"""Gapped subsequences: against the recursive definition and enumeration of index tuples."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from jaxstruct.kernels import gram_matrix, pairwise_gram, subsequences
from jaxstruct.kernels.substrings import subsequence_features
from tests.kernels.string_examples import (
    ALPHABET,
    encoded,
    gram_of,
    lodhi,
    random_texts,
    subsequences_of,
)
from tests.lib.refusals import refused

TEXTS = random_texts(0, 7)
DECAY = 0.6


@pytest.mark.parametrize("length", [1, 3])
def test_it_is_the_recursion_of_lodhi(length, x64) -> None:
    got = gram_matrix(subsequences(length, DECAY), encoded(TEXTS))
    want = [[lodhi(s, t, length, DECAY) for t in TEXTS] for s in TEXTS]
    assert np.asarray(want).max() > 1 and got.dtype == np.float64
    np.testing.assert_allclose(got, want, rtol=1e-12)


def test_it_is_the_sum_over_index_tuples(x64) -> None:
    strings = encoded(TEXTS)
    features = {q: [subsequences_of(text, q, DECAY) for text in TEXTS] for q in (1, 2, 3)}
    want = {q: gram_of(each) for q, each in features.items()}
    np.testing.assert_allclose(gram_matrix(subsequences(3, DECAY), strings), want[3], rtol=1e-12)
    shorter = gram_matrix(subsequences(3, DECAY, shortest=1), strings)
    np.testing.assert_allclose(shorter, want[1] + want[2] + want[3], rtol=1e-12)
    np.testing.assert_allclose(pairwise_gram(subsequences(3, DECAY), strings), want[3], rtol=1e-12)


def test_explicit_features_have_the_same_products(x64) -> None:
    strings = encoded(TEXTS)
    features = subsequence_features(strings, 3, DECAY, 4)
    assert features.shape == (7, 64)
    np.testing.assert_allclose(
        features @ features.T, gram_matrix(subsequences(3, DECAY), strings), rtol=1e-12
    )
    word = TEXTS.index(max(TEXTS, key=len))
    for text, weight in subsequences_of(TEXTS[word], 3, DECAY).items():
        index = sum(ALPHABET.index(c) * 4 ** (2 - i) for i, c in enumerate(text))
        np.testing.assert_allclose(features[word, index], weight, rtol=1e-12)


def test_the_decay_is_a_leaf_that_can_be_differentiated() -> None:
    s, t = (jax.tree.map(lambda leaf, i=i: leaf[i], encoded(["abcab", "acb"])) for i in (0, 1))
    value = jax.jit(lambda decay: subsequences(2, decay)(s, t))
    step = 1e-3
    slope = (value(DECAY + step) - value(DECAY - step)) / (2 * step)
    np.testing.assert_allclose(jax.grad(value)(DECAY), slope, rtol=1e-3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 0.5), "length must be at least 1, got 0"),
        ((2, 1.5), "decay must be > 0 and <= 1, got 1.5"),
        ((2, 0.0), "decay must be finite and > 0, got 0.0"),
        ((10, 0.01), r"decay: got 0.01, whose power 2 length = 20 is below what float32 holds"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, message) -> None:
    refused(message, subsequences, *arguments)


def test_features_that_are_many_are_refused() -> None:
    with refused(r"is 3200000 features of subsequences, expected at most"):
        subsequence_features(encoded(["a"]), 5, 0.5, 20)
    refused("shortest must be at most 2, got 3", subsequences, 2, 0.5, shortest=3)
