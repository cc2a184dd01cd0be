"""The mismatch kernel against all words of k letters, one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from jaxstruct.kernels import gram_matrix, mismatch, pairwise_gram, spectrum
from jaxstruct.kernels.substrings import shared_neighbours
from tests.kernels.string_examples import ALPHABET, encoded, random_texts
from tests.lib.refusals import refused

TEXTS = random_texts(3, 7)


def distance(u, v) -> int:
    return sum(a != b for a, b in zip(u, v, strict=True))


def by_words(text: str, k: int, m: int) -> list[int]:
    """phi_u of every word u."""
    windows = [text[i : i + k] for i in range(len(text) - k + 1)]
    words = itertools.product(ALPHABET, repeat=k)
    return [sum(distance(u, window) <= m for window in windows) for u in words]


@pytest.mark.parametrize(("k", "m"), [(3, 1), (3, 2), (1, 0)])
def test_it_is_the_sum_over_all_words(k, m) -> None:
    features = np.array([by_words(text, k, m) for text in TEXTS], float)
    kernel, strings = mismatch(k, m, 4), encoded(TEXTS)
    np.testing.assert_array_equal(gram_matrix(kernel, strings), features @ features.T)
    np.testing.assert_array_equal(pairwise_gram(kernel, strings), features @ features.T)


@pytest.mark.parametrize("letters", [1, 2, 4])
def test_shared_neighbours_are_counted(letters) -> None:
    k, m = 3, 1
    words = list(itertools.product(range(letters), repeat=k))
    first = words[0]
    for d, count in enumerate(shared_neighbours(k, m, letters)):
        others = [word for word in words if distance(first, word) == d]
        for other in others[:1]:
            near = [u for u in words if distance(u, first) <= m and distance(u, other) <= m]
            assert count == len(near)


def test_without_mismatches_it_is_the_spectrum() -> None:
    strings = encoded(TEXTS)
    np.testing.assert_array_equal(
        gram_matrix(mismatch(3, 0, 4), strings), gram_matrix(spectrum(3), strings)
    )
    assert not np.asarray(gram_matrix(mismatch(9, 1, 4), strings)).any()


def test_what_does_not_fit_is_refused() -> None:
    refused("mismatches must be at most 1, got 2", mismatch, 2, 2, 4)
