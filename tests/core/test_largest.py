"""The k largest of a list: ties in the order of places, zeros of either sign among them."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from jaxstruct.core.largest import k_largest, largest


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_it_is_a_stable_sort(x64: None, dtype: str, jitted: bool) -> None:
    random = np.random.default_rng(0)
    run = jax.jit(largest, static_argnums=1) if jitted else largest
    for _ in range(50):
        size, k = random.integers(1, 9, 2)
        values = random.choice([-np.inf, -1.0, -0.0, 0.0, 2.0], size).astype(dtype)
        top, places = run(values, int(k))
        padded = np.pad(values, (0, max(k - size, 0)), constant_values=-np.inf)
        order = np.argsort(-padded, kind="stable")[:k]
        assert np.asarray(places).tolist() == order.tolist() and top.dtype == dtype
        np.testing.assert_array_equal(top, padded[order])


def test_what_belongs_to_the_entries_comes_along_any_axis() -> None:
    values = np.array([[1.0, -0.0], [0.0, 3.0], [0.0, -0.0]], np.float32)
    rows = np.arange(3)[:, None].repeat(2, axis=1)
    top, taken = k_largest(3, values, rows)
    assert taken.T.tolist() == [[0, 1, 2], [1, 0, 2]] and top[0].tolist() == [1, 3]
