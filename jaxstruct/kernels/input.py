"""Kernels on one pair of inputs: linear, polynomial, Gaussian and precomputed (thesis 2.5).

A kernel is a function of two points, K(x, x') -> scalar. The factories return a
`jax.tree_util.Partial` of a module-level function: the parameters (c, sigma, the matrix) are
pytree leaves, so a kernel may be an argument of a jitted function and a sweep over sigma compiles
once. A point is a dense vector [d] or a `SparseFeatures` (indices [m], values [m]); the two kinds
may be mixed. For all pairs of two sets of points use `gram_matrix`.

Whether a matrix is a kernel matrix is checked on the host, before anything is compiled.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from numpy.typing import ArrayLike

from jaxstruct.core.checks import checked_number, checked_size, known
from jaxstruct.core.spec import array
from jaxstruct.core.types import Array, Static
from jaxstruct.kernels.points import Point, as_float, inner_product, squared_distance


def real_parameter(value: float | Array, name: str, *, low: float, strict: bool) -> float | Array:
    """Returns `value` as a Python float, checked to be finite and > low (strict) or >= low.

    A tracer is returned as it came: its value is not known while tracing.
    """
    if not known(value):
        return value
    return checked_number(name, value, low, strict=strict)


def decay_parameter(decay: float | Array) -> float | Array:
    """Returns the decay of a string kernel, checked to be in (0, 1] where it is known."""
    decay = real_parameter(decay, "decay", low=0.0, strict=True)
    if known(decay) and decay > 1:
        raise ValueError(f"decay must be > 0 and <= 1, got {decay!r}")
    return decay


def linear_kernel(x: Point, z: Point) -> Array:
    """Returns K(x, x') = <x, x'>: what `linear()` wraps."""
    return inner_product(x, z)


def polynomial_kernel(c: float | Array, degree: Static[int], x: Point, z: Point) -> Array:
    """Returns K(x, x') = (<x, x'> + c)^degree (2.17): what `polynomial` wraps."""
    product = inner_product(x, z)
    return (product + jnp.asarray(c, product.dtype)) ** degree.value


def gaussian_kernel(sigma: float | Array, x: Point, z: Point) -> Array:
    """Returns K(x, x') = exp(-||x - x'||^2 / (2 sigma^2)) (2.18): what `gaussian` wraps."""
    distance = squared_distance(x, z)
    width = jnp.asarray(sigma, distance.dtype)
    return jnp.exp(-distance / (2 * width * width))


def precomputed_kernel(matrix: Array, i: Array | int, j: Array | int) -> Array:
    """Returns K(i, j) = matrix[i, j], nan for an index out of range: what `precomputed` wraps."""
    i, j = jnp.asarray(i), jnp.asarray(j)
    for name, index in (("x", i), ("x'", j)):
        if index.ndim != 0 or not jnp.issubdtype(index.dtype, jnp.integer):
            raise ValueError(
                f"{name}: got {index.dtype} of shape {index.shape}, expected one integer index "
                "into the precomputed matrix"
            )
    i, j = i.astype(jnp.int32), j.astype(jnp.int32)
    entry = jnp.asarray(matrix).at[i, j].get(mode="fill", fill_value=jnp.nan)
    return jnp.where((i >= 0) & (j >= 0), entry, jnp.full_like(entry, jnp.nan))


def linear() -> Partial:
    """Makes K(x, x') = <x, x'>."""
    return Partial(linear_kernel)


def polynomial(degree: int, c: float | Array = 1.0) -> Partial:
    """Makes K(x, x') = (<x, x'> + c)^degree (thesis 2.17).

    Args:
      degree: int >= 1, static: another degree compiles again.
      c: >= 0, a leaf of the kernel; with c = 0 the features are the monomials of order `degree`.

    Raises:
      ValueError: degree is not a positive integer, or c is negative or not finite.
    """
    degree = checked_size("degree", degree)
    c = real_parameter(c, "c", low=0.0, strict=False)
    return Partial(polynomial_kernel, c, Static(degree))


def gaussian(sigma: float | Array) -> Partial:
    """Makes K(x, x') = exp(-||x - x'||^2 / (2 sigma^2)) (thesis 2.18).

    Args:
      sigma: > 0, a leaf of the kernel, in the units of x. In terms of a machine's gamma,
        gamma = 1 / (2 sigma^2).

    Raises:
      ValueError: sigma is not a finite positive number.
    """
    return Partial(gaussian_kernel, real_parameter(sigma, "sigma", low=0.0, strict=True))


def precomputed(matrix: ArrayLike, tolerance: float | None = None) -> Partial:
    """Makes K(i, j) = matrix[i, j] on integer points.

    The matrix [n, n] is checked on the host (an eigenvalue computation, O(n^3)); it is stored in
    its own floating dtype as far as JAX is set to hold it. An index outside 0..n-1 gives nan
    (negative indices do not count from the end). tolerance: of `check_positive_semidefinite`.

    Raises:
      ValueError: the matrix is not square, finite, symmetric and positive semi-definite.
    """
    check_positive_semidefinite(matrix, "matrix", tolerance)
    matrix = np.asarray(matrix)
    return Partial(precomputed_kernel, as_float(matrix))


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
