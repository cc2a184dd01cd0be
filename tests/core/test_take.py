"""Some examples of a pytree: the same as those of its leaves."""

from __future__ import annotations

import numpy as np
import pytest

from jaxstruct import ragged, take
from tests.lib.refusals import refused


def test_take():
    lists, which = [[1, 2], [], [3], [4, 5, 6]], np.array([3, 1, 0])
    some = take({"store": ragged(lists), "array": np.eye(4)}, which)
    np.testing.assert_array_equal(some["array"], np.eye(4)[which])
    assert [one.tolist() for one in some["store"]] == [lists[i] for i in which]


@pytest.mark.parametrize("which", [[0, 0], [3], [-1], [[0]], [0.0], [True, False, True]])
def test_take_refuses_what_names_no_examples(which):
    for tree in (ragged([[1], [], [2, 3]]), np.zeros(3)):
        refused("which must be", take, tree, np.array(which))
