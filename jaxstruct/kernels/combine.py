"""Kernels made of kernels: sum, product, tensor product, direct sum, normalised (thesis 2.5.1).

Each factory takes kernels (from `input`, from here, or any function of two points) and returns a
`jax.tree_util.Partial` whose leaves are the coefficients and the parameters of the parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax.numpy as jnp
from jax.tree_util import Partial

from jaxstruct.core.checks import as_list, text_of
from jaxstruct.core.types import Array, PyTree, SparseFeatures
from jaxstruct.kernels.input import real_parameter


def as_kernel(kernel: Callable, advice: str = "") -> Partial:
    """Returns the kernel as a pytree; a plain function becomes a Partial without leaves."""
    if not callable(kernel):
        raise ValueError(f"kernel must be a function of two points, got {text_of(kernel)}{advice}")
    return kernel if isinstance(kernel, Partial) else Partial(kernel)


def as_kernels(kernels: Sequence[Callable], each: str = "") -> tuple[Partial, ...]:
    """Returns n kernels, n >= 1; `each` says in messages what they belong to."""
    expected = f"a non-empty sequence of kernels{each}"
    kernels = as_list("kernels", kernels, expected)
    if not kernels:
        raise ValueError(f"kernels must be {expected}, got none")
    return tuple(as_kernel(kernel) for kernel in kernels)


def as_pair(x: PyTree, name: str) -> tuple[PyTree, PyTree]:
    """Returns (x1, x2) of a point, or set of points, on the domain X1 x X2."""
    if not isinstance(x, (tuple, list)) or len(x) != 2 or isinstance(x, SparseFeatures):
        raise ValueError(
            f"{name}: got {type(x).__name__}, expected a pair (x1, x2), one part for each kernel"
        )
    return x[0], x[1]


def weighted_sum_kernel(
    kernels: Sequence[Callable], coefficients: Sequence[float | Array], x: PyTree, z: PyTree
) -> Array:
    """Returns sum_i alpha_i K_i(x, x'): what `weighted_sum` wraps."""
    values = [kernel(x, z) for kernel in kernels]
    terms = [jnp.asarray(a, v.dtype) * v for a, v in zip(coefficients, values, strict=True)]
    return sum(terms[1:], start=terms[0])


def product_kernel(kernels: Sequence[Callable], x: PyTree, z: PyTree) -> Array:
    """Returns prod_i K_i(x, x'): what `product` wraps."""
    value = kernels[0](x, z)
    for kernel in kernels[1:]:
        value = value * kernel(x, z)
    return value


def tensor_product_kernel(k1: Callable, k2: Callable, x: PyTree, z: PyTree) -> Array:
    """Returns K1(x1, x1') K2(x2, x2') (2.19): what `tensor_product` wraps."""
    (x1, x2), (z1, z2) = as_pair(x, "x"), as_pair(z, "x'")
    return k1(x1, z1) * k2(x2, z2)


def direct_sum_kernel(k1: Callable, k2: Callable, x: PyTree, z: PyTree) -> Array:
    """Returns K1(x1, x1') + K2(x2, x2') (2.20): what `direct_sum` wraps."""
    (x1, x2), (z1, z2) = as_pair(x, "x"), as_pair(z, "x'")
    return k1(x1, z1) + k2(x2, z2)


def weighted_sum(kernels: Sequence[Callable], coefficients: Sequence) -> Partial:
    """Makes K(x, x') = sum_i alpha_i K_i(x, x'), alpha_i >= 0 (proposition 1).

    Args:
      kernels: n kernels on one domain.
      coefficients: the n numbers alpha_i, leaves of the kernel.

    Raises:
      ValueError: no kernels, another number of coefficients, or one negative or not finite.
    """
    kernels = as_kernels(kernels)
    coefficients = as_list("coefficients", coefficients, "one number for each kernel")
    if len(coefficients) != len(kernels):
        raise ValueError(
            f"coefficients: got {len(coefficients)}, expected one for each of {len(kernels)} "
            "kernels"
        )
    alphas = tuple(
        real_parameter(a, f"coefficients[{i}]", low=0.0, strict=False)
        for i, a in enumerate(coefficients)
    )
    return Partial(weighted_sum_kernel, kernels, alphas)


def product(kernels: Sequence[Callable]) -> Partial:
    """Makes K(x, x') = prod_i K_i(x, x') of kernels on one domain (proposition 2)."""
    return Partial(product_kernel, as_kernels(kernels))


def tensor_product(k1: Callable, k2: Callable) -> Partial:
    """Makes K((x1, x2), (x1', x2')) = K1(x1, x1') K2(x2, x2') (proposition 3, eq. 2.19).

    With k2 = `precomputed(L)` on class indices it is the joint kernel J of (4.12).
    """
    return Partial(tensor_product_kernel, as_kernel(k1), as_kernel(k2))


def direct_sum(k1: Callable, k2: Callable) -> Partial:
    """Makes K((x1, x2), (x1', x2')) = K1(x1, x1') + K2(x2, x2') (proposition 4, eq. 2.20)."""
    return Partial(direct_sum_kernel, as_kernel(k1), as_kernel(k2))


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
