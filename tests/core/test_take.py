"""Some examples of a pytree: the same as those of its leaves."""

from __future__ import annotations

import numpy as np
import pytest

from jaxstruct import ragged, take
from tests.lib.refusals import refused


def test_take():
    random = np.random.default_rng(0)
    for _ in range(100):
        n = int(random.integers(1, 12))
        lists = [random.normal(size=(random.integers(0, 4), 2)) for _ in range(n)]
        values = random.normal(size=(n, 3))
        which = random.permutation(n)[: random.integers(1, n + 1)]
        some = take({"store": ragged(lists), "array": values}, which)
        np.testing.assert_array_equal(some["array"], values[which])
        assert len(some["store"]) == len(which)
        for one, i in zip(some["store"], which, strict=True):
            np.testing.assert_array_equal(one, lists[i])


@pytest.mark.parametrize("which", [[0, 0], [3], [-1], [[0]], [0.0], [True, False, True]])
def test_take_refuses_what_names_no_examples(which):
    for tree in (ragged([[1], [], [2, 3]]), np.zeros(3)):
        refused("which must be", take, tree, np.array(which))
