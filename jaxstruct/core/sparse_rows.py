"""Sparse rows made from SciPy's matrices: of inputs, or of the tokens of sequences."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxstruct.core.checks import checked_size
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.types import SparseFeatures


def from_scipy(
    matrix: Any, *, width: int | None = None, offsets: np.ndarray | None = None
) -> SparseFeatures:
    """The rows of a SciPy sparse matrix as `SparseFeatures`.

    Repeated entries are summed, zeros dropped, the entries of a row sorted by their feature.

    Args:
      matrix: [n, d], any SciPy sparse matrix or array (anything with `tocsr`); left as it is.
      width: m, entries a row is padded to, at least 1.
      offsets: [n + 1] where rows are the tokens of n sequences: sequence i has the rows
        offsets[i] .. offsets[i + 1] - 1. None where each row is an input.

    Returns:
      int32 indices and values of the matrix's floating-point dtype (float32 for integers and bool):
      `Ragged` stores of n inputs of as many entries as each has; with offsets, of n sequences of
      tokens [l, m], m by default the most entries of a token; with width alone, arrays [n, m].
      Padding has index d and value 0.

    Raises:
      ValueError: matrix is not sparse or of numbers, width is no integer >= 1, a row has more
        entries than width, or offsets do not rise from 0 to the number of rows.
    """
    rows = compressed("matrix", matrix)
    d = rows.shape[1]
    values = rows.data if rows.dtype.kind == "f" else rows.data.astype(np.float32)
    stores = (
        Ragged(rows.indices.astype(np.int32), rows.indptr, d), Ragged(values, rows.indptr),
    )  # fmt: skip
    if width is None and offsets is None:
        return SparseFeatures(*stores)
    counts = stores[0].lengths
    longest = int(counts.max(initial=0))
    width = max(longest, 1) if width is None else checked_size("width", width)
    if longest > width:
        raise ValueError(f"width is {width}, but row {int(counts.argmax())} has {longest} entries")
    indices, values = (store.padded(np.arange(len(store)), width) for store in stores)
    if offsets is None:
        return SparseFeatures(indices, values)
    return SparseFeatures(Ragged(indices, offsets, d), Ragged(values, offsets))


def compressed(name: str, matrix: Any) -> Any:
    """A copy of a SciPy matrix in the CSR format, rows sorted, repeats summed, zeros dropped.

    Args:
      name: of the argument, for messages. matrix: [n, d], of any sparse format.

    Raises:
      ValueError: the matrix is not sparse, or not of real numbers.
    """
    if not hasattr(matrix, "tocsr"):
        raise ValueError(
            f"{name} must be a SciPy sparse matrix, got {type(matrix).__name__}: dense arrays are "
            "inputs as they are"
        )
    rows = matrix.tocsr(copy=True)
    if rows.dtype.kind not in "biuf" or rows.ndim != 2 or rows.shape[1] >= 2**31:
        raise ValueError(
            f"{name} must be [n, d] real numbers with d < 2**31, got {rows.dtype} of shape "
            f"{rows.shape}"
        )
    rows.sum_duplicates()  # sorts each row, too
    rows.eliminate_zeros()
    return rows
