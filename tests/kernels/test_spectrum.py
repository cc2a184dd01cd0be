"""The k-spectrum against enumeration of substrings."""

from __future__ import annotations

import numpy as np
import pytest

from jaxstruct.kernels import gram_matrix, pairwise_gram, spectrum
from tests.kernels.string_examples import encoded, gram_of, random_texts, substrings_of
from tests.lib.refusals import refused

TEXTS = random_texts(2, 7)
COUNTS = [substrings_of(text) for text in TEXTS]


@pytest.mark.parametrize("length", [1, 3])
def test_it_is_the_sum_over_substrings_of_k_letters(length) -> None:
    want, strings = gram_of(COUNTS, lambda u: float(len(u) == length)), encoded(TEXTS)
    assert want.max() > 2
    np.testing.assert_array_equal(gram_matrix(spectrum(length), strings), want)
    np.testing.assert_array_equal(pairwise_gram(spectrum(length), strings), want)


def test_strings_shorter_than_k_have_no_features() -> None:
    strings = encoded(["ab", ""])
    assert not np.asarray(gram_matrix(spectrum(3), strings)).any()


def test_what_does_not_fit_is_refused() -> None:
    refused("length must be at least 1, got 0", spectrum, 0)
