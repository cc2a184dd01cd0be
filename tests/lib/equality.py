"""Trees of arrays that are the same to the bit."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from jaxstruct import Ragged


def assert_same(one: Any, other: Any, *, kinds: bool = False) -> None:
    """Structures, dtypes and numbers; with kinds also of which classes the leaves are."""
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(*map(jax.tree.leaves, (one, other)), strict=True):
        assert not kinds or isinstance(b, type(a))  # np.float64 is a float
        if isinstance(b, Ragged):
            assert isinstance(a, Ragged) and a.fill == b.fill
            np.testing.assert_array_equal(a.offsets, b.offsets)
            a, b = a.rows, b.rows
        assert np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_array_equal(a, b)
