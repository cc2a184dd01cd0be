"""A Gaussian in the feature space of another kernel (Weston et al. 2003, section 5.1)."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jax.tree_util import Partial

from jaxstruct.core.types import Array, PyTree
from jaxstruct.kernels.combine import as_kernel
from jaxstruct.kernels.input import real_parameter


def radial_kernel(kernel: Callable, sigma: float | Array, x: PyTree, z: PyTree) -> Array:
    """Returns the Gaussian of the distance in K's feature space: what `radial` wraps."""
    return radial_values(kernel(x, z), kernel(x, x), kernel(z, z), sigma)


def radial(kernel: Callable, sigma: float | Array) -> Partial:
    """Makes exp(-(K(x, x) - 2 K(x, x') + K(x', x')) / (2 sigma^2)), `gaussian` where K is linear.

    `gram_matrix` computes K(x, x) once a point. For many sigmas on one matrix of K use
    `radial_values`.

    Args:
      kernel: K. sigma: > 0, a leaf of the kernel, in the units of sqrt K.

    Raises:
      ValueError: kernel is no function, or sigma is not a finite positive number.
    """
    return Partial(
        radial_kernel, as_kernel(kernel), real_parameter(sigma, "sigma", low=0.0, strict=True)
    )


def radial_values(values: Array, own: Array, other: Array, sigma: float | Array) -> Array:
    """Returns exp(-(own - 2 values + other) / (2 sigma^2)); shapes broadcast.

    A squared distance that rounding made negative counts as 0.

    Args:
      values: K(x, x'). own: K(x, x). other: K(x', x'). sigma: > 0.
    """
    sigma = jnp.asarray(sigma, jnp.asarray(values).dtype)
    distances = jnp.maximum(own - 2 * values + other, 0)
    return jnp.exp(-distances / (2 * sigma * sigma))
