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


def check_rows(rows: CsrRows) -> CsrRows:
    """Returns the rows unchanged, or raises a ValueError that names the field at fault."""
    indptr, indices, values, _ = rows
    for name, array, expected in (
        ("indptr", indptr, np.int64),
        ("indices", indices, np.int32),
        ("values", values, np.float32),
    ):
        if array.ndim != 1 or array.dtype != expected:
            raise ValueError(
                f"{name}: got {array.dtype} of shape {array.shape}, "
                f"expected {np.dtype(expected)} of one axis"
            )
    if len(indptr) == 0 or indptr[0] != 0 or indptr[-1] != len(indices):
        raise ValueError(f"indptr: expected to run from 0 to {len(indices)} (the entries)")
    if len(values) != len(indices):
        raise ValueError(f"values: got {len(values)}, expected {len(indices)}, one an index")
    if (np.diff(indptr) < 0).any():
        raise ValueError(f"indptr: decreases at row {int(np.argmax(np.diff(indptr) < 0))}")
    _check_entries(rows)
    return rows


def _check_entries(rows: CsrRows) -> None:
    owner = np.repeat(np.arange(len(rows.indptr) - 1), np.diff(rows.indptr))
    outside = (rows.indices < 0) | (rows.indices >= rows.number_of_features)
    if outside.any():
        entry = int(np.argmax(outside))
        raise ValueError(
            f"indices: row {owner[entry]} holds {rows.indices[entry]}, expected "
            f"0 .. {rows.number_of_features - 1}"
        )
    unsorted = (np.diff(owner) == 0) & (np.diff(rows.indices) <= 0)
    if unsorted.any():
        row = owner[int(np.argmax(unsorted))]
        raise ValueError(f"indices: row {row} is not sorted or names a feature twice")
    if not np.isfinite(rows.values).all():
        entry = int(np.argmin(np.isfinite(rows.values)))
        raise ValueError(
            f"values: row {owner[entry]}, feature {rows.indices[entry]} is not finite in float32"
        )


def rows_from_pairs(pairs: list[list[tuple[int, float]]], number_of_features: int) -> CsrRows:
    """Builds checked rows from (index, value) lists, one a row; sorts each, drops zero values.

    Raises:
      ValueError: a row names a feature twice, an index is not in [0, number_of_features), or a
        value is not finite in float32.
    """
    for position, row in enumerate(pairs):
        if len({index for index, _ in row}) < len(row):
            raise ValueError(f"indices: row {position} names a feature twice")
    _check_width(number_of_features)
    kept = [sorted(pair for pair in row if pair[1] != 0.0) for row in pairs]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in kept])]).astype(np.int64)
    indices = np.array([index for row in kept for index, _ in row], dtype=np.int32)
    values = _to_float32([value for row in kept for _, value in row])
    return check_rows(CsrRows(indptr, indices, values, number_of_features))


def from_scipy(matrix: Any) -> CsrRows:
    """Copies a SciPy sparse matrix or array [n, d]: repeats summed, zeros dropped, rows sorted.

    Raises:
      ValueError: a value is not finite in float32, or there are more than 2^31 - 1 columns;
        `matrix` is not SciPy's.
    """
    if not hasattr(matrix, "tocsr"):
        raise ValueError(f"matrix: got {type(matrix).__name__}, expected a scipy.sparse matrix")
    csr = matrix.tocsr(copy=True)
    _check_width(csr.shape[1])
    csr.sum_duplicates()  # sorts each row, too
    csr.eliminate_zeros()
    rows = CsrRows(
        indptr=csr.indptr.astype(np.int64),
        indices=csr.indices.astype(np.int32),
        values=_to_float32(csr.data),
        number_of_features=int(csr.shape[1]),
    )
    return check_rows(rows)


def _check_width(number_of_features: int) -> None:
    """Refuses columns that int32 indices, or the index of padding, could not name."""
    if number_of_features > _MOST_FEATURES:
        raise ValueError(
            f"number_of_features: got {number_of_features}, expected at most {_MOST_FEATURES}; "
            "hash the features into fewer columns"
        )


def _to_float32(values: Any) -> np.ndarray:
    """Rounds to float32; what overflows becomes inf, which `check_rows` reports with its place."""
    with np.errstate(over="ignore"):
        return np.asarray(values, dtype=np.float64).astype(np.float32)
