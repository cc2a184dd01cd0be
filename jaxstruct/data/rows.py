"""Sparse feature vectors as compressed rows.

Phi(x_i) = sum_j values[j] e_{indices[j]}, j = indptr[i] .. indptr[i+1] - 1.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

_MOST_FEATURES = np.iinfo(np.int32).max


class CsrRows(NamedTuple):
    """n feature vectors by their non-zero entries, row after row.

    Fields:
      indptr: [n + 1] int64, not decreasing, from 0 to the number of entries.
      indices: [entries] int32, rising strictly within a row, in [0, number_of_features).
      values: [entries] float32, finite.
      number_of_features: the dimension d of Phi.
    """

    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    number_of_features: int


def from_scipy(matrix: Any) -> CsrRows:
    """Copies a SciPy sparse matrix or array [n, d]: repeats summed, zeros dropped, rows sorted.

    Raises:
      ValueError: `matrix` is not SciPy's, or see `csr_rows`.
    """
    if not hasattr(matrix, "tocsr"):
        raise ValueError(f"matrix: got {type(matrix).__name__}, expected a scipy.sparse matrix")
    csr = matrix.tocsr(copy=True)
    csr.sum_duplicates()  # sorts each row, too
    csr.eliminate_zeros()
    return csr_rows(csr.indptr, csr.indices, csr.data, int(csr.shape[1]))


def csr_rows(
    indptr: np.ndarray, indices: np.ndarray, values: np.ndarray, number_of_features: int
) -> CsrRows:
    """Rows in the dtypes of `CsrRows`; their indices rise within each row already.

    Raises:
      ValueError: a value is not finite in float32, or there are more than 2^31 - 1 columns, which
        int32 indices, or the index of padding, could not name.
    """
    if number_of_features > _MOST_FEATURES:
        raise ValueError(
            f"number_of_features: got {number_of_features}, expected at most {_MOST_FEATURES}; "
            "hash the features into fewer columns"
        )
    with np.errstate(over="ignore"):
        rounded = np.asarray(values, np.float64).astype(np.float32)
    wrong = np.flatnonzero(~np.isfinite(rounded))
    if wrong.size:
        row = np.searchsorted(indptr, wrong[0], side="right") - 1
        raise ValueError(f"values: row {row}, feature {indices[wrong[0]]} is not finite in float32")
    whole = np.asarray(indptr, np.int64), np.asarray(indices, np.int32)
    return CsrRows(*whole, rounded, number_of_features)
