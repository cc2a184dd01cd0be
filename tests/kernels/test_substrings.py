"""Substrings of all lengths, and the k-spectrum, against their enumeration."""

from __future__ import annotations

import numpy as np
import pytest

from jaxstruct.kernels import gram_matrix, pairwise_gram, spectrum, substrings
from tests.kernels.string_examples import encoded, gram_of, random_texts, substrings_of
from tests.lib.refusals import refused

TEXTS = random_texts(1, 7)
COUNTS = [substrings_of(text) for text in TEXTS]


@pytest.mark.parametrize(
    ("kernel", "weight"),
    [
        (substrings(), lambda u: 1.0),
        (substrings(0.7), lambda u: 0.7 ** (2 * len(u))),
        (substrings(shortest=2, longest=3), lambda u: float(2 <= len(u) <= 3)),
        (substrings(1.0, shortest=4), lambda u: float(len(u) >= 4)),
        (spectrum(1), lambda u: float(len(u) == 1)),
        (spectrum(3), lambda u: float(len(u) == 3)),
    ],
)  # fmt: skip
def test_it_is_the_sum_over_common_substrings(kernel, weight, x64) -> None:
    want, strings = gram_of(COUNTS, weight), encoded(TEXTS)
    assert want.max() > 1
    np.testing.assert_allclose(gram_matrix(kernel, strings), want, rtol=1e-12)
    np.testing.assert_allclose(pairwise_gram(kernel, strings), want, rtol=1e-12)


def test_strings_shorter_than_k_have_no_features() -> None:
    assert not np.asarray(gram_matrix(spectrum(3), encoded(["ab", ""]))).any()


def test_what_does_not_fit_is_refused() -> None:
    refused("length must be at least 1, got 0", spectrum, 0)
    refused("decay must be > 0 and <= 1, got 2.0", substrings, 2.0)
    refused("longest must be at least 3, got 2", substrings, shortest=3, longest=2)
