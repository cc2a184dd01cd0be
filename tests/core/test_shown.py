"""Values inside messages: one line, and never longer than the limit."""

from __future__ import annotations

import numpy as np
import pytest

from jaxstruct.core.checks import shown

VALUES = [
    "x" * 10_000, ["word"] * 100_000, {i: "y" * 50 for i in range(1000)}, np.zeros((300, 4)),
    [["a", "b"]] * 50, ("line\nbreak", 3), np.arange(3), None, 2.5, object(), {"deep": [[[[1]]]]},
    [np.zeros((50, 50))] * 20, 10**400, range(10**9),
]


@pytest.mark.parametrize("limit", [16, 60, 120, 400])
@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_one_line_of_at_most_the_limit(value, limit):
    line = shown(value, limit)
    assert 0 < len(line) <= limit and "\n" not in line


def test_small_values_are_as_they_are():
    assert [shown(v) for v in (None, 0.5, "CC", [1, 2], {"a": 1})] == [
        "None", "0.5", "'CC'", "[1, 2]", "{'a': 1}"
    ]
    assert shown(np.zeros((3, 4))) == "ndarray float64 of shape (3, 4)"
    assert shown(np.array([1, 2])) == "array([1, 2])"
    assert shown("a" * 200, 40).startswith("'aaaa") and "..." in shown("a" * 200, 40)
