"""The k-spectrum, kernel and sparse counts, against enumeration of substrings."""

from __future__ import annotations

import numpy as np
import pytest

from jaxstruct.kernels import gram_matrix, linear, pairwise_gram, spectrum
from jaxstruct.kernels.spectrum import spectrum_features
from tests.kernels.string_examples import (
    ALPHABET,
    WIDTH,
    encoded,
    gram_of,
    random_texts,
    substrings_of,
)
from tests.lib.refusals import refused

TEXTS = random_texts(2, 7)
COUNTS = [substrings_of(text) for text in TEXTS]


@pytest.mark.parametrize("length", [1, 3])
def test_it_is_the_sum_over_substrings_of_k_letters(length) -> None:
    want, strings = gram_of(COUNTS, lambda u: float(len(u) == length)), encoded(TEXTS)
    assert want.max() > 2
    np.testing.assert_array_equal(gram_matrix(spectrum(length), strings), want)
    np.testing.assert_array_equal(pairwise_gram(spectrum(length), strings), want)


def test_sparse_counts_are_those_of_the_substrings() -> None:
    strings, k = encoded(TEXTS), 2
    features = spectrum_features(strings, k, 4)
    assert features.indices.shape == features.values.shape == (7, WIDTH - k + 1)
    for text, indices, values in zip(COUNTS, *map(np.asarray, features), strict=True):
        want = {
            4 * ALPHABET.index(u[0]) + ALPHABET.index(u[1]): n
            for u, n in text.items()
            if len(u) == k
        }  # fmt: skip
        real = values != 0
        assert dict(zip(indices[real].tolist(), values[real].tolist(), strict=True)) == want
        assert (np.diff(indices[real]) > 0).all() and (indices[~real] == 16).all()
    np.testing.assert_array_equal(
        gram_matrix(linear(), features, num_features=16), gram_matrix(spectrum(k), strings)
    )


def test_strings_shorter_than_k_have_no_features() -> None:
    strings = encoded(["ab", ""])
    assert not np.asarray(gram_matrix(spectrum(3), strings)).any()
    features = spectrum_features(encoded(["ab"]), WIDTH + 1, 4)
    assert features.indices.tolist() == [[4 ** (WIDTH + 1)]] and not features.values.any()


def test_what_does_not_fit_is_refused() -> None:
    refused("length must be at least 1, got 0", spectrum, 0)
    with refused("which 32 bits do not hold: shorten length"):
        spectrum_features(encoded(["a"]), 8, 20)
    refused(r"got letters 0..3, expected 0..2", lambda: spectrum_features(encoded(["ad"]), 2, 3))
