"""Normalised kernels: all points at distance 1 from the origin."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jax.tree_util import Partial

from jaxstruct.core.types import Array, PyTree
from jaxstruct.kernels.combine import as_kernel


def normalised_kernel(kernel: Callable, x: PyTree, z: PyTree) -> Array:
    """Returns K(x, x') / sqrt(K(x, x) K(x', x')): what `normalised` wraps."""
    return divided(kernel(x, z), kernel(x, x), kernel(z, z))


def normalised(kernel: Callable) -> Partial:
    """Makes K(x, x') / sqrt(K(x, x) K(x', x')), in [-1, 1] (Lodhi et al. 2002, section 4).

    A point with K(x, x) = 0 has no features (a string with fewer letters than a subsequence): its
    values are 0, that with itself too. `gram_matrix` computes K(x, x) once a point.
    """
    return Partial(normalised_kernel, as_kernel(kernel))


def divided(value: Array, own: Array, other: Array) -> Array:
    """Returns value / sqrt(own other), 0 where own or other is 0; shapes broadcast."""
    real = (own > 0) & (other > 0)
    scale = jnp.sqrt(jnp.where(own > 0, own, 1)) * jnp.sqrt(jnp.where(other > 0, other, 1))
    return jnp.where(real, value / scale, jnp.zeros_like(value))
