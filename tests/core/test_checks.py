"""What the shared checks refuse, and what they show of it: one line, never too long."""

from __future__ import annotations

import numpy as np
import pytest

from jaxstruct.core import checks
from tests.lib.refusals import refused


def test_sizes_numbers_flags_choices():
    assert checks.checked_size("k", np.int64(3)) == 3
    for value in (3.0, "3", None, True, np.array([3]), 0, -1):
        refused("k must be at least 1", checks.checked_size, "k", value)
    refused("k must be at most 4, got 5", checks.checked_size, "k", 5, most=4)
    assert checks.checked_number("c", np.float32(0.5)) == 0.5 and checks.checked_number("c", 0) == 0
    for value in (-1, np.nan, np.inf, "1", None, True, [1.0], 1j):
        refused("c must be finite and >= 0", checks.checked_number, "c", value)
    refused("c must be finite and > 0, got 0.0", checks.checked_number, "c", 0.0, strict=True)
    for value in (0, "no", None, np.array([True])):
        refused("f must be True or False", checks.check_flag, "f", value)
    checks.check_flag("f", np.True_)
    for value in (None, "d", ["a"]):
        refused("m is .*; choose one of .'a', 'b'.", checks.check_choice, "m", value, ("a", "b"))
    assert checks.checked_dtype(np.float32) == checks.checked_dtype("float32") == "float32"
    for value in ("float16", int, None, "number", 3):
        refused("dtype must be", checks.checked_dtype, value)


@pytest.mark.parametrize("shape", [(4, 3), (2, 2, 3)])
def test_features_named_twice(shape):
    """Sorted or not; entries of value 0 name nothing."""
    indices = np.tile(np.array([5, 0, 7]), (*shape[:-1], 1))
    values = np.ones(shape)
    checks.check_no_feature_twice("x", indices, values)
    indices[..., 1] = 7
    refused(r"x(\[0\])+ names feature 7 twice", checks.check_no_feature_twice, "x", indices, values)
    values[..., 2] = 0
    checks.check_no_feature_twice("x", indices, values)
    values[-1], indices[-1] = 1, 3
    refused("names feature 3 twice", checks.check_no_feature_twice, "x", indices, values)


def test_example_weights():
    assert checks.checked_example_weights(None, 2).tolist() == [1, 1]
    weights = checks.checked_example_weights([0, 2], 2)
    assert weights.tolist() == [0, 2] and weights.dtype == np.float64
    for value, match in (
        (["a", "b"], "must hold real numbers"),
        ([1, 2, 3], r"must be \[n = 2\], got shape \(3,\)"),
        ([1, -1], "finite, >= 0 and not all zero"),
        ([1, np.nan], "finite, >= 0 and not all zero"),
        ([0, 0], "finite, >= 0 and not all zero"),
    ):
        refused(f"example_weights .*{match}", checks.checked_example_weights, value, 2)


def test_records_lists_and_numbers():
    refused(r"p must be a dict \(see make\), got int 3", checks.check_record, "p", 3, dict, "make")
    for value in ("text", {"a": 1}, 3, None, np.float32(1)):
        refused("p must be a list of names, got", checks.as_list, "p", value, "a list of names")
    assert checks.as_list("p", (c for c in "ab"), "names") == ["a", "b"]
    for value in ("text", [[1], [1, 2]], [["a"]], 1j, len):
        refused("p must be numbers, got", checks.as_numbers, "p", value, "numbers")


VALUES = [
    "x" * 10_000,
    ["word"] * 100_000,
    {i: "y" * 50 for i in range(1000)},
    np.zeros((300, 4)),
    [["a", "b"]] * 50,
    ("line\nbreak", 3),
    np.arange(3),
    None,
    2.5,
    object(),
    {"deep": [[[[1]]]]},
    [np.zeros((50, 50))] * 20,
    10**400,
    range(10**9),
]


@pytest.mark.parametrize("limit", [16, 60, 120, 400])
@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_shows_on_one_line_of_at_most_the_limit(value, limit):
    line = checks.text_of(value, limit)
    assert 0 < len(line) <= limit and "\n" not in line


def test_small_values_show_as_they_are():
    assert [checks.text_of(v) for v in (None, 0.5, "CC", [1, 2], {"a": 1})] == [
        "None",
        "0.5",
        "'CC'",
        "[1, 2]",
        "{'a': 1}",
    ]
    kinds = ([1], "list [1]"), (np.zeros((3, 4)), "ndarray float64 of shape (3, 4)"), (None, "None")
    assert [checks.kind_and_text_of(value) for value, _ in kinds] == [text for _, text in kinds]
    assert checks.text_of(np.zeros((3, 4))) == "ndarray float64 of shape (3, 4)"
    assert checks.text_of(np.array([1, 2])) == "array([1, 2])"
    assert checks.text_of("a" * 200, 40).startswith("'aaaa") and "..." in checks.text_of(
        "a" * 200, 40
    )
