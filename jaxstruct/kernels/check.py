"""Is a matrix a kernel matrix? A check on the host, before anything is compiled."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from jaxstruct.core.checks import checked_number
from jaxstruct.core.spec import array

SMALLEST_TOLERANCE = 1e-6


def check_positive_semidefinite(
    matrix: ArrayLike, name: str = "matrix", tolerance: float | None = None
) -> None:
    """Checks that a matrix [n, n] is finite, symmetric and positive semi-definite.

    Symmetric: |A_ij - A_ji| <= tolerance max|A|. Positive semi-definite: every eigenvalue >=
    -tolerance times the largest one in size, in float64. This allows for rounding; it is no repair
    of an indefinite similarity.

    Args:
      matrix: of a kernel, in the dtype in which it was computed. name: of it, for messages.
      tolerance: None: 1e-6, or n times the spacing of numbers at 1 (1.2e-7 in float32) if that is
        more.

    Raises:
      ValueError: one of these does not hold; the message names the matrix, the smallest
        eigenvalue and the ways out.
    """
    if tolerance is not None:
        tolerance = checked_number("tolerance", tolerance)
    matrix = np.asarray(array(name, matrix, "n n", "numbers", advice=": a square matrix"))
    if not matrix.size:
        raise ValueError(f"{name} must be a square matrix [n, n], n >= 1, got n = 0")
    if tolerance is None:
        spacing = np.finfo(matrix.dtype).eps if matrix.dtype.kind == "f" else 0.0
        tolerance = max(SMALLEST_TOLERANCE, len(matrix) * float(spacing))
    matrix = matrix.astype(np.float64)
    if not np.all(np.isfinite(matrix)):
        raise ValueError(f"{name}: got nan or infinite entries, expected finite numbers")
    skew = matrix - matrix.T
    np.abs(skew, out=skew)
    if skew.max() > tolerance * max(matrix.max(), -matrix.min()):
        i, j = np.unravel_index(skew.argmax(), skew.shape)
        raise ValueError(
            f"{name}: not symmetric, entries [{i}, {j}] and [{j}, {i}] differ by {skew.max():.3g}; "
            f"expected a kernel matrix; if only rounding differs, pass ({name} + {name}.T) / 2"
        )
    matrix = np.add(matrix, matrix.T, out=skew) / 2
    if _has_cholesky_factor(matrix, tolerance):
        return
    values = np.linalg.eigvalsh(matrix)
    smallest, largest = values[0], np.abs(values).max()
    if smallest < -tolerance * largest:
        raise ValueError(
            f"{name}: not positive semi-definite, smallest eigenvalue {smallest:.6g} (largest in "
            f"size {largest:.6g}, tolerance {tolerance:g} of it); add at least {-smallest:.6g} to "
            f"the diagonal, set the negative eigenvalues to zero, or use {name} @ {name}.T"
        )


def _has_cholesky_factor(matrix: np.ndarray, tolerance: float) -> bool:
    """Whether A + tolerance b I has a Cholesky factor, b <= max |lambda(A)|: it is soon tried.

    Where it has one no eigenvalue is below -tolerance times the largest. Where not, the eigenvalues
    decide, which take about twenty times as long. b is the larger of max_i A_ii and |A v| / |v|, v
    = A 1: the first alone is so small beside the rounding of a float32 matrix of many points that
    are alike that eigenvalues were needed for most of them.
    """
    v = matrix.sum(axis=1)
    length = np.linalg.norm(v)
    bound = max(np.diag(matrix).max(), np.linalg.norm(matrix @ v) / length if length else 0.0)
    if bound <= 0:
        return False
    shifted = matrix.copy()
    shifted[np.diag_indices_from(shifted)] += tolerance * bound
    try:
        np.linalg.cholesky(shifted)
    except np.linalg.LinAlgError:
        return False
    return True
