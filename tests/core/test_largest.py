"""The k largest of a list: ties in the order of places, zeros of either sign among them."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from jaxstruct.core.scores import k_largest, largest


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size, k", [(1, 1), (1, 3), (8, 1), (8, 3), (8, 8), (5, 8)])
def test_it_is_a_stable_sort(x64: None, dtype: str, size: int, k: int) -> None:
    values = np.random.default_rng(0).choice([-np.inf, -1.0, -0.0, 0.0, 2.0], (50, size))
    padded = np.pad(values, ((0, 0), (0, max(k - size, 0))), constant_values=-np.inf)
    order = np.argsort(-padded, axis=1, kind="stable")[:, :k]
    values = values.astype(dtype)
    several = jax.jit(jax.vmap(lambda row: largest(row, k)))(values)
    for (top, places), rows in ((several, slice(None)), (largest(values[0], k), 0)):
        np.testing.assert_array_equal(places, order[rows])
        np.testing.assert_array_equal(top, np.take_along_axis(padded, order, 1)[rows])
        assert top.dtype == dtype


def test_what_belongs_to_the_entries_comes_along_any_axis() -> None:
    values = np.array([[1.0, -0.0], [0.0, 3.0], [0.0, -0.0]], np.float32)
    rows = np.arange(3)[:, None].repeat(2, axis=1)
    top, taken = k_largest(3, values, rows)
    assert taken.T.tolist() == [[0, 1, 2], [1, 0, 2]] and top[0].tolist() == [1, 3]
