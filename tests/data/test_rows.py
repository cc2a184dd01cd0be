"""Compressed rows: checks, conversion from SciPy, padding."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from jaxstruct.data.rows import CsrRows, check_rows, from_scipy, rows_from_pairs
from tests.lib.refusals import refused

DENSE = np.array([[0, 1.5, 0, -2], [0, 0, 0, 0], [3, 0, 0, 0]], dtype=np.float32)


def _rows() -> CsrRows:
    """DENSE, written out by hand."""
    return CsrRows(
        indptr=np.array([0, 2, 2, 3], dtype=np.int64),
        indices=np.array([1, 3, 0], dtype=np.int32),
        values=np.array([1.5, -2, 3], dtype=np.float32),
        number_of_features=4,
    )


def _assert_same(actual: CsrRows, expected: CsrRows) -> None:
    for got, wanted in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(got, wanted, strict=isinstance(wanted, np.ndarray))


def test_sound_rows_pass() -> None:
    """The rows come back as they are."""
    rows = _rows()
    assert check_rows(rows) is rows


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"indptr": np.array([0, 2, 2, 3], np.int32)}, "indptr: got int32"),
        ({"indices": np.array([[1, 3, 0]], np.int32)}, r"indices: got int32 of shape \(1, 3\)"),
        ({"values": np.array([1.5, -2, 3])}, "values: got float64"),
        ({"indptr": np.array([], np.int64)}, "indptr: expected to run from 0 to 3"),
        ({"indptr": np.array([1, 2, 2, 3])}, "indptr: expected to run from 0 to 3"),
        ({"indptr": np.array([0, 2, 2, 4])}, "indptr: expected to run from 0 to 3"),
        ({"indptr": np.array([0, 2, 1, 3])}, "indptr: decreases at row 1"),
        ({"values": np.ones(2, np.float32)}, "values: got 2, expected 3"),
        ({"indices": np.array([3, 1, 0], np.int32)}, "indices: row 0 is not sorted"),
        ({"indices": np.array([3, 3, 0], np.int32)}, "indices: row 0 is not sorted or names"),
        ({"indices": np.array([1, 3, 4], np.int32)}, r"indices: row 2 holds 4, expected 0 \.\. 3"),
        ({"indices": np.array([-1, 3, 0], np.int32)}, "indices: row 0 holds -1"),
        ({"values": np.array([1, np.inf, 3], np.float32)}, "values: row 0, feature 3 is not fin"),
        ({"values": np.array([1, 2, np.nan], np.float32)}, "values: row 2, feature 0 is not fin"),
    ],
)
def test_unsound_rows_are_named(change, message) -> None:
    """The field, the row and what was expected."""
    refused(message, lambda: check_rows(_rows()._replace(**change)))


def test_an_index_may_fall_between_rows() -> None:
    """Order counts within a row only: the last index of row 0 is above the first of row 2."""
    assert _rows().indices.tolist() == [1, 3, 0]
    check_rows(_rows())


@pytest.mark.parametrize("form", ["csr_matrix", "csc_array", "coo_matrix", "lil_matrix"])
def test_from_scipy(form) -> None:
    """Every format of SciPy gives the same rows."""
    _assert_same(from_scipy(getattr(scipy.sparse, form)(DENSE)), _rows())


def test_from_scipy_tidies_a_copy() -> None:
    """Repeated entries are summed, what cancels is dropped, the input is left alone."""
    data = np.array([1.0, 2.0, 0.5, 4.0, -4.0])
    indices, indptr = np.array([3, 1, 1, 2, 2]), np.array([0, 3, 5])
    matrix = scipy.sparse.csr_matrix((data, indices, indptr), shape=(2, 4))
    rows = from_scipy(matrix)
    assert rows.indptr.tolist() == [0, 2, 2]
    assert rows.indices.tolist() == [1, 3]
    assert rows.values.tolist() == [2.5, 1.0]
    assert matrix.indices.tolist() == [3, 1, 1, 2, 2]


def test_from_scipy_refuses() -> None:
    """Other types, and numbers that float32 cannot hold."""
    refused("matrix: got ndarray, expected a scipy.sparse", from_scipy, DENSE)
    with refused("row 0, feature 0 is not finite in float32"):
        from_scipy(scipy.sparse.csr_matrix([[1e300]]))


def test_rows_from_pairs() -> None:
    """Pairs in any order, zeros dropped, empty rows kept."""
    rows = rows_from_pairs([[(3, -2.0), (2, 0.0), (1, 1.5)], [], [(0, 3.0)]], 4)
    _assert_same(rows, _rows())
    assert rows_from_pairs([[], []], 4).indptr.tolist() == [0, 0, 0]
    refused("row 0 names a feature twice", rows_from_pairs, [[(1, 1.0), (1, 2.0)]], 4)
    refused("row 1 names a feature twice", rows_from_pairs, [[], [(1, 0.0), (1, 2.0)]], 4)


def test_more_columns_than_int32_can_name() -> None:
    """An index of 2^32 + 5 must not become 5."""
    wide = scipy.sparse.csr_array(([1.0], [2**32 + 5], [0, 1]), shape=(1, 2**33))
    refused("number_of_features: got 8589934592, expected at most", from_scipy, wide)
    with refused("number_of_features: got 8589934592, expected at most"):
        rows_from_pairs([[(2**32 + 5, 1.0)]], 2**33)
