"""The factor of a Gram matrix whose columns are coordinates of its points (thesis 2.5)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from jaxstruct.core.checks import checked_number
from jaxstruct.kernels.check import check_positive_semidefinite

TOLERANCES = {"float64": 1e-12}
"""Eigenvalues that are none, relative to the largest, by the dtype of the Gram matrix."""
COARSE = 1e-6


def gram_factor(gram: ArrayLike, tolerance: float | None = None) -> np.ndarray:
    """R [m, r] with K R R' K = K: K R are coordinates of the points of K.

    Eigenvalues up to tolerance times the largest are left out, so that K R R' K differs from K by
    no more than that.

    Args:
      gram: [m, m] of a kernel. tolerance: >= 0; None: 1e-12 of float64, else 1e-6.

    Returns:
      R in the dtype of gram, r the rank; its columns are orthogonal, of length lambda^(-1/2).

    Raises:
      ValueError: gram is not square, symmetric and positive semi-definite, or is all zero.
    """
    gram = np.asarray(gram)
    if tolerance is None:
        tolerance = TOLERANCES.get(str(gram.dtype), COARSE)
    tolerance = checked_number("tolerance", tolerance, 0.0)
    check_positive_semidefinite(gram, "gram", max(tolerance, COARSE))
    values, vectors = np.linalg.eigh(np.asarray(gram, np.float64))
    kept = values > tolerance * max(values[-1], 0)
    if not kept.any():
        raise ValueError("gram is zero throughout: its kernel separates no points")
    factor = vectors[:, kept] / np.sqrt(values[kept])
    return factor.astype(gram.dtype if gram.dtype.kind == "f" else np.float64)
