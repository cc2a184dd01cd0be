"""Compressed rows from SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from jaxstruct.data.svmlight import CsrRows, from_scipy
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


def test_more_columns_than_int32_can_name() -> None:
    """An index of 2^32 + 5 must not become 5."""
    wide = scipy.sparse.csr_array(([1.0], [2**32 + 5], [0, 1]), shape=(1, 2**33))
    refused("number_of_features: got 8589934592, expected at most", from_scipy, wide)
