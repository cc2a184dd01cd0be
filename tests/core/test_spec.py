"""What a declaration refuses: axes, kinds, ranges, padding; what it binds and gives back."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct.core import spec
from jaxstruct.core.types import SparseFeatures
from tests.lib.refusals import refused

TABLE = np.arange(6).reshape(2, 3)


@pytest.mark.parametrize(
    ("value", "axes", "options", "match"),
    [
        (TABLE, "n", {}, r"x must be \[n\] integers, got int64 of shape \(2, 3\)"),
        (TABLE, "n 2", {}, r"x must be \[n, 2\] integers, got"),
        (TABLE, "n T", {"sizes": {"T": 4}}, r"x must be \[n, T = 4\] integers, got"),
        (TABLE, "T T-2", {}, r"x must be \[T, T-2\] integers"),
        (TABLE, "n T-2", {"sizes": {"T": 1}}, r"x must be \[n, T-2 = 0\] integers"),
        (TABLE, "S | n S S", {}, r"x must be \[S\] or \[n, S, S\] integers"),
        (TABLE / 2, "n T", {}, r"x must be .* integers, got float64 of"),
        (TABLE > 2, "n T", {}, "integers, got bool"),
        (TABLE, "n T", {"kind": "floats", "advice": "; do it"}, "floats, got .* 3.; do it"),
        (["a"], "n", {"kind": "numbers"}, "numbers, got <U1"),
        ([[1], [1, 2]], "n T", {}, r"x must be \[n, T\] integers, got \[\[1\], \[1, 2\]\]"),
        (TABLE, "", {"kind": None}, "x must be a scalar, got int64 of shape"),
        (None, "n", {"kind": None}, r"x must be \[n\], got None"),
        (TABLE, "n T", {"within": range(4)}, r"x\[1, 1\] is 4: expected 0..3 \(2 such\)"),
        (TABLE, "n T", {"within": range(1, 9), "words": "ids"}, "is 0: expected 1..8, ids .1 such"),
        (TABLE, "n T", {"within": range(9), "length": [3, 2]}, "is 5: expected -1 .padding."),
        (TABLE, "n T", {"within": range(1), "length": [1, 0]}, r"x\[0, 1\] is 1: expected -1"),
    ],
)  # fmt: skip
def test_what_is_refused(value, axes, options, match):
    refused(match, spec.array, "x", value, axes, **options)


def test_sizes_are_bound_and_good_arrays_come_back():
    sizes = {"d": 3}
    assert spec.array("x", TABLE.tolist(), "n d", sizes=sizes).tolist() == TABLE.tolist()
    spec.array("y", np.zeros((3, 3, 1)), "d n-0 1 | T d 1", "floats", sizes)
    assert sizes == {"d": 3, "n": 2, "T": 3}
    padded = np.array([[[0, 1]], [[-1, -1]]])
    spec.array("z", padded, "n 1 2", within=range(2), length=[1, 0])


def test_a_traced_array_is_looked_at_by_shape_and_kind():
    def traced(x):
        return spec.array("x", x, "n n", "integers", {}, range(1))

    assert jax.jit(traced)(jnp.ones((2, 2), int)).shape == (2, 2)
    refused(r"x must be \[n, n\] integers, got float32", jax.jit(traced), jnp.ones((2, 2)))
    refused(r"x must be \[n, n\] integers, got int32 of", jax.jit(traced), jnp.ones((2, 3), int))


@pytest.mark.parametrize(
    ("lengths", "match"),
    [
        ([1.0, 2.0], r"l must be \[n = 2\] integers, got float64"),
        ([True, False], "l must be .* got bool"),
        ([1, 2, 3], "l must be .* got int64 of shape"),
        ([[1], [1, 2]], r"l must be \[n = 2\] integers, got"),
        ([1, 2**32 + 3], r"l\[1\] is 4294967299: expected 0..5"),
        ([-1, 9], r"l\[0\] is -1: expected 0..5, the padded length \(2 such\)"),
        (None, "l must be"),
    ],
)
def test_lengths(lengths, match):
    refused(match, spec.checked_lengths, "l", lengths, 2, 0, 5)
    for dtype in (np.int64, np.uint8, np.int32):
        good = spec.checked_lengths("l", np.array([0, 5], dtype), 2, 0, 5)
        assert good.dtype == np.int32 and good.tolist() == [0, 5]


@pytest.mark.parametrize(
    ("value", "match"),
    [
        ([[1, 2**31]], r"a\[0, 1\] is 2147483648: expected .*, what 32 bits hold"),
        ([1, 2], r"a must be \[n, 2\] integers, got int64 of shape"),
        ([[0.5, 1]], "got float64"),
        ("text", "got 'text'"),
    ],
)
def test_integers_of_32_bits(value, match):
    assert spec.checked_int32("a", [[1, 2]], "n 2").dtype == np.int32
    refused(match, spec.checked_int32, "a", value, "n 2")


@pytest.mark.parametrize(
    ("value", "match"),
    [
        ([[0, 1], [-1, 0]], r"x\[1, 0\] is -1.0: expected finite numbers >= 0"),
        ([[0, np.inf], [1, 0]], r"x\[0, 1\] is inf: expected finite"),
        ([[0, np.nan], [1, 0]], r"x\[0, 1\] is nan: expected finite"),
        ([[0, 1], [1, 2]], r"x\[1, 1\] is 2.0: expected 0 on the diagonal"),
        ([["a"]], "numbers, got <U1 of shape .1, 1.; see"),
    ],
)
def test_costs(value, match):
    assert spec.costs("x", [2, 1], "n").dtype == np.float64
    refused(match, spec.costs, "x", value, "S S", advice="; see")


def test_features_dense_or_sparse():
    sizes = {"d": 4}
    spec.features("x", np.zeros((2, 3, 4)), "n T", sizes, "d")
    sparse = SparseFeatures(np.full((2, 3, 1), 4), np.zeros((2, 3, 1)))
    spec.features("x", sparse, "n T", sizes, "d")
    wide = np.zeros((2, 3, 5))
    refused(r"x must be \[n = 2, T = 3, d = 4\]", spec.features, "x", wide, "n T", sizes, "d")
    none = SparseFeatures(np.zeros((2, 3, 0), int), np.zeros((2, 3, 0)))
    spec.features("x", none, "n T", sizes, "d")
    few = SparseFeatures(*(leaf[:1] for leaf in sparse))
    refused(r"x.indices must be \[n = 2, T = 3", spec.features, "x", few, "n T", sizes, "d")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (dict(indices=np.full((2, 3), 0.5)), r"x.indices must be \[n, m\] integers, got float64"),
        (dict(indices=np.zeros(3, int)), r"x.indices must be \[n, m\] integers, got .* \(3,\)"),
        (dict(values=np.ones((2, 2))), r"x.values must be \[n = 2, m = 3\], got .* \(2, 2\)"),
        (
            dict(indices=np.array([[0, 1, 9], [0, 1, 2]])),
            r"is 9: expected 0..8, features, and 8",
        ),
        (dict(indices=np.array([[0, 1, -1], [0, 1, 2]])), r"\[0, 2\] is -1: expected 0..8"),
        (dict(values=np.ones((2, 3))), r"x.values\[0, 2\] is 1.0: expected 0 where the index is 8"),
        (dict(indices=np.array([[3, 3, 8], [0, 1, 2]])), r"x.indices\[0\] names feature 3 twice"),
    ],
)
def test_sparse_features(change, match):
    good = dict(indices=np.array([[0, 7, 8], [0, 1, 2]]), values=np.array([[1, 2, 0], [1, 2, 3.0]]))
    spec.features("x", SparseFeatures(**good), "n", {"d": 8}, "d")
    refused(match, spec.features, "x", SparseFeatures(**good | change), "n", {"d": 8}, "d")
