"""Plain Python's kernel against the sum over index tuples."""

from __future__ import annotations

import pytest

from experiments.string_kernel_speed.plain import plain_subsequences
from tests.kernels.string_examples import product_of, random_texts, subsequences_of

TEXTS = random_texts(0, 5)


@pytest.mark.parametrize("length", [1, 2, 3])
def test_it_is_the_sum_over_index_tuples(length: int) -> None:
    features = [subsequences_of(text, length, 0.6) for text in TEXTS]
    assert product_of(features[-1], features[-1]) > 0
    for x, a in zip(TEXTS, features, strict=True):
        for z, b in zip(TEXTS, features, strict=True):
            found = plain_subsequences(x, z, length, 0.6)
            assert found == pytest.approx(product_of(a, b), rel=1e-12)
