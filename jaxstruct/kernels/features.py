"""Coordinates for a kernel: features whose inner products are its values (thesis 2.5).

Of anchors z_1 .. z_m with the Gram matrix K = U diag(lambda) U',

    Phi(x) = R' (K(x, z_1), .., K(x, z_m)),    R = U diag(lambda)^(-1/2)

has <Phi(x), Phi(z_j)> = K(x, z_j) for every x and every anchor. Weights that are a sum over the
anchors, as the representer theorem says of every regularised machine whose training points are the
anchors, lose nothing in these coordinates, and any trainer of weights is a kernel machine: random
fields on tokens (thesis 4.4.5), weights of a node that are a kernelised function of x and the span
(4.5.1), logistic regression. With fewer anchors than training points the machine is one over sums
of these anchors.

Source: B. Schoelkopf, S. Mika, C. Burges and others, "Input space versus feature space in
kernel-based methods", IEEE Transactions on Neural Networks 10, 1999 (the kernel PCA map).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from jaxstruct.core.checks import checked_number
from jaxstruct.core.types import Array, PyTree
from jaxstruct.kernels.gram import gram_matrix
from jaxstruct.kernels.input import check_positive_semidefinite

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


class KernelFeatures(NamedTuple):
    """A kernel in coordinates; `kernel_features` makes one, `features_of` reads it.

    Fields:
      kernel: a function of two points. anchors: m points, leaves [m, ..]. factor: R [m, r].
      num_features: of `gram_matrix`, or None.
    """

    kernel: Callable
    anchors: PyTree
    factor: Array
    num_features: int | None = None

    @property
    def size(self) -> int:
        """r, the number of features."""
        return self.factor.shape[1]


def kernel_features(
    kernel: Callable,
    anchors: PyTree,
    *,
    tolerance: float | None = None,
    num_features: int | None = None,
) -> KernelFeatures:
    """Coordinates of a kernel on some anchors.

    Args:
      kernel: a function of two points, see `jaxstruct.kernels`.
      anchors: m points with a leading axis [m] on every leaf: the training points, or some.
      tolerance: of `gram_factor`. num_features: of `gram_matrix`, for sparse points.

    Raises:
      ValueError: as `gram_matrix` and `gram_factor`.
    """
    anchors = jax.tree.map(jnp.asarray, anchors)
    gram = np.asarray(gram_matrix(kernel, anchors, num_features=num_features))
    gram = (gram + gram.T) / 2
    return KernelFeatures(kernel, anchors, jnp.asarray(gram_factor(gram, tolerance)), num_features)


def features_of(features: KernelFeatures, points: PyTree) -> Array:
    """Phi of points with any leading axes, such as tokens [n, T, d] or spans [n, T, T, d].

    Args:
      features: of `kernel_features`.
      points: leaves [.., d] as the anchors' [m, d].

    Returns:
      [.., r].

    Raises:
      ValueError: as `gram_matrix`.
    """
    leaf = jax.tree.leaves(points)[0]
    rank = jax.tree.leaves(features.anchors)[0].ndim - 1
    lead = np.shape(leaf)[: np.ndim(leaf) - rank]
    flat = jax.tree.map(
        lambda leaf: jnp.asarray(leaf).reshape(-1, *np.shape(leaf)[len(lead) :]), points
    )
    rows = gram_matrix(features.kernel, flat, features.anchors, num_features=features.num_features)
    return (rows @ features.factor).reshape(*lead, features.size)
