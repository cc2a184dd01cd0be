"""Matrices of string kernels: tiles, halves, padding, positive semi-definite, compiled once."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from jaxstruct.kernels import (
    encode_strings,
    gram_matrix,
    linear,
    mismatch,
    normalised,
    pairwise_gram,
    spectrum,
    string_grams,
    subsequences,
    substrings,
)
from jaxstruct.kernels.input import check_positive_semidefinite
from tests.kernels.string_examples import ALPHABET, WIDTH, encoded, random_texts

KERNELS = {
    "subsequences": subsequences(3, 0.6),
    "substrings": substrings(0.8),
    "spectrum": spectrum(2),
    "mismatch": mismatch(3, 1, 4),
}
TEXTS = random_texts(6, 7)


@pytest.mark.parametrize("name", KERNELS)
def test_halves_tiles_and_padding_change_nothing(name, monkeypatch, x64) -> None:
    kernel, strings = KERNELS[name], encoded(TEXTS)
    want = np.asarray(gram_matrix(kernel, strings))
    copy = jax.tree.map(np.array, strings)
    np.testing.assert_allclose(gram_matrix(kernel, strings, copy), want, rtol=1e-12)
    wide = encode_strings(TEXTS, ALPHABET, WIDTH + 3)
    np.testing.assert_allclose(gram_matrix(kernel, wide), want, rtol=1e-12)
    dirt = wide._replace(letters=np.where(wide.letters < 0, 1, wide.letters))
    np.testing.assert_allclose(gram_matrix(kernel, dirt, strings), want, rtol=1e-12)
    monkeypatch.setattr(string_grams, "LANES", 3)
    string_grams._tiles.clear_cache()
    np.testing.assert_allclose(gram_matrix(kernel, strings), want, rtol=1e-12)
    np.testing.assert_allclose(gram_matrix(kernel, strings, copy), want, rtol=1e-12)
    string_grams._tiles.clear_cache()


@pytest.mark.parametrize("name", KERNELS)
def test_random_strings_give_kernel_matrices(name, x64) -> None:
    strings = encoded(random_texts(7, 60))
    for kernel in (KERNELS[name], normalised(KERNELS[name])):
        gram = np.asarray(gram_matrix(kernel, strings))
        check_positive_semidefinite(gram, name, 1e-10)
        assert np.linalg.matrix_rank(gram) > 10


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


def test_single_precision_is_enough_for_a_kernel_matrix() -> None:
    gram = gram_matrix(normalised(subsequences(3, 0.01)), encoded(random_texts(8, 60)))
    assert gram.dtype == np.float32
    check_positive_semidefinite(np.asarray(gram), "gram", 1e-6)


def test_another_decay_compiles_nothing() -> None:
    strings = encoded(TEXTS)
    gram_matrix(subsequences(3, 0.5), strings)
    count = string_grams._tiles._cache_size()
    gram_matrix(subsequences(3, 0.25), strings)
    assert string_grams._tiles._cache_size() == count


def test_no_strings_give_an_empty_matrix() -> None:
    none = encode_strings([], ALPHABET, WIDTH)
    assert gram_matrix(spectrum(2), none, encoded(TEXTS)).shape == (0, 7)
