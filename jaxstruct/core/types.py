"""Floor 0: the plain records that every floor shares, and sparse rows made from SciPy's."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np

Array = jax.Array
PyTree: TypeAlias = Any

AnyArray: TypeAlias = Any
"""An array of an input or output: NumPy's while data are prepared, JAX's within a program."""


class SparseFeatures(NamedTuple):
    """One input as a padded list of its non-zero features.

    Phi(x) = sum_j values[j] e_{indices[j]}. Padding: index = number of features, value = 0
    (the index is out of range on purpose, so that a scatter drops it). Real indices are sorted
    and unique. A batch carries a leading axis on both leaves.

    Fields:
      indices: [m] int32.
      values: [m] float.
    """

    indices: AnyArray
    values: AnyArray


def from_scipy(matrix: Any, *, width: int | None = None) -> SparseFeatures:
    """The rows of a SciPy sparse matrix as a batch of `SparseFeatures`.

    Repeated entries are summed, zeros dropped, the entries of a row sorted by their feature.

    Args:
      matrix: [n, d], any SciPy sparse matrix or array (anything with `tocsr`); left as it is.
      width: m, entries a row is padded to; None for the longest row (at least 1). Give the same
        one wherever a second set is to share compiled programs with the first.

    Returns:
      indices [n, m] int32, padded with d, and values [n, m] of the matrix's floating-point dtype
      (float32 for integers and bool), padded with 0.

    Raises:
      ValueError: matrix is not sparse or of numbers, or a row has more entries than width.
    """
    if not hasattr(matrix, "tocsr"):
        raise ValueError(
            f"matrix must be a SciPy sparse matrix, got {type(matrix).__name__}: dense arrays are "
            "inputs as they are"
        )
    rows = matrix.tocsr(copy=True)
    rows.sum_duplicates()  # sorts each row, too
    rows.eliminate_zeros()
    if rows.dtype.kind not in "biuf" or rows.ndim != 2 or rows.shape[1] >= 2**31:
        raise ValueError(
            f"matrix must be [n, d] real numbers with d < 2**31, got {rows.dtype} of shape "
            f"{rows.shape}"
        )
    counts = np.diff(rows.indptr)
    longest = int(counts.max(initial=0))
    width = max(longest, 1) if width is None else width
    if longest > width:
        raise ValueError(f"width is {width}, but row {int(counts.argmax())} has {longest} entries")
    real = np.arange(width) < counts[:, None]
    dtype = rows.dtype if rows.dtype.kind == "f" else np.float32
    indices = np.full(real.shape, rows.shape[1], np.int32)
    values = np.zeros(real.shape, dtype)
    indices[real], values[real] = rows.indices, rows.data
    return SparseFeatures(indices, values)


class BinaryTree(NamedTuple):
    """One tree in Chomsky normal form over at most T >= 2 tokens, as integers; padding is -1.

    A sentence of l tokens has l pre-terminal symbols and l - 1 inner nodes, which stand in
    preorder: a parent before its children, all of the left child before the right one. The node of
    tokens begin .. end - 1 has its left child on begin .. split - 1 and its right one on split ..
    end - 1. A batch carries a leading axis on every leaf.

    Fields:
      symbols: [T] int32, the symbol right above each token.
      rules: [T - 1] int32, the number of the binary rule of each inner node.
      begins, splits, ends: [T - 1] int32.
    """

    symbols: AnyArray
    rules: AnyArray
    begins: AnyArray
    splits: AnyArray
    ends: AnyArray
