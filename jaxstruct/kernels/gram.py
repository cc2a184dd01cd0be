"""Kernel matrices [n, m] of two sets of points: by matrix products where the kernel allows it.

A set of points carries a leading axis on every leaf: [n, d] dense, SparseFeatures([n, m], [n, m]),
[n] integers for a precomputed kernel, Strings([n, T], [n]), a pair of sets for a tensor product
or a direct sum.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxstruct.core.checks import checked_size, known
from jaxstruct.core.types import Array, PyTree, SparseFeatures
from jaxstruct.kernels import combine
from jaxstruct.kernels import input as single
from jaxstruct.kernels.convolution import (
    Parts,
    convolution_kernel,
    decomposed,
    equality_kernel,
    weighted_by,
    windows_of,
)
from jaxstruct.kernels.points import as_sets, inner_products, squared_norms
from jaxstruct.kernels.strings import string_gram
from jaxstruct.kernels.substrings import (
    mismatch_against,
    mismatch_kernel,
    spectrum_against,
    spectrum_kernel,
    subsequences_against,
    subsequences_kernel,
    substrings_against,
    substrings_kernel,
)


class _Options(NamedTuple):
    block: int
    num_features: int | None


def pairwise_gram(kernel: Callable, X: PyTree, Z: PyTree | None = None, block: int = 256) -> Array:
    """Returns [K(x_i, z_j)] [n, m] by calling any kernel on every pair, `block` rows at a time.

    Z is X where it is None. Memory beyond the result grows with block * m pairs.
    """
    kernel, Z = _asked(kernel, block), X if Z is None else Z

    def row(x: PyTree) -> Array:
        return jax.vmap(lambda z: kernel(x, z))(Z)

    return jax.lax.map(row, jax.tree.map(jnp.asarray, X), batch_size=block)


def gram_matrix(
    kernel: Callable,
    X: PyTree,
    Z: PyTree | None = None,
    block: int = 256,
    num_features: int | None = None,
) -> Array:
    """Returns the kernel matrix [K(x_i, z_j)] [n, m].

    Linear, polynomial and Gaussian kernels are made from the matrix of inner products (one matrix
    product); precomputed kernels are looked up; sums, products and normalised kernels are
    made of the matrices of their parts; string kernels meet many strings of Z at a time, and a
    convolution decomposes each object once. Any other function goes through `pairwise_gram`.

    The Gaussian then comes from ||x||^2 + ||z||^2 - 2 <x, z> (dense sets are first moved to the
    mean of Z), so a squared distance has an absolute error of some units in the last place of the
    largest squared norm: the diagonal is 1 up to that, not exactly.

    Args:
      kernel: a function of two points.
      X: n points (see the head of this file).
      Z: m points, X where None.
      block: rows of X that are worked on together, static.
      num_features: d, or a number above it, static. Two sparse sets use inner products only where
        it is given (a block of rows is made dense, [block, d]); else pairs are compared one by
        one, over 100 times slower for 1000 x 1000 points of 100 features each. Inside jit the
        indices are not known: there a feature >= num_features is left out.

    Raises:
      ValueError: shapes that do not fit, or a sparse index that num_features does not hold.
    """
    kernel = _asked(kernel, block)
    if num_features is not None:
        checked_size("num_features", num_features)
    Z = X if Z is None else Z
    options = _Options(block, num_features)
    rule = _RULES.get(kernel.func)
    if rule is None:
        return pairwise_gram(kernel, X, Z, block)
    return rule(kernel, X, Z, options)


def _asked(kernel: Callable, block: int) -> Partial:
    """The kernel that is asked for, in blocks of so many rows; both are checked."""
    checked_size("block", block)
    return combine.as_kernel(kernel, ": gram_matrix(kernel, X)")


def _from_products(finish: Callable) -> Callable:
    """A rule for kernels that are functions of the inner products and the squared norms."""

    def rule(kernel: Partial, X: PyTree, Z: PyTree, options: _Options) -> Array:
        X, Z = as_sets(X, Z)
        sparse = [isinstance(s, SparseFeatures) for s in (X, Z)]
        if all(sparse) and options.num_features is None:
            return pairwise_gram(kernel, X, Z, options.block)
        if finish is _gaussian and not any(sparse):
            centre = jnp.mean(Z, axis=0, keepdims=True)
            X, Z = X - centre, Z - centre
        return finish(kernel, inner_products(X, Z, *options), X, Z)

    return rule


def _linear(kernel: Partial, products: Array, X: PyTree, Z: PyTree) -> Array:
    return products


def _polynomial(kernel: Partial, products: Array, X: PyTree, Z: PyTree) -> Array:
    c, degree = kernel.args
    return (products + jnp.asarray(c, products.dtype)) ** degree.value


def _gaussian(kernel: Partial, products: Array, X: PyTree, Z: PyTree) -> Array:
    sigma = jnp.asarray(kernel.args[0], products.dtype)
    distances = squared_norms(X)[:, None] + squared_norms(Z)[None, :] - 2 * products
    return jnp.exp(-jnp.maximum(distances, 0) / (2 * sigma * sigma))


def _precompute(kernel: Partial, X: PyTree, Z: PyTree, options: _Options) -> Array:
    size = kernel.args[0].shape[0]
    for name, indices in (("X", X), ("Z", Z)):
        seen = np.asarray(indices) if known(indices) else None
        if seen is not None and seen.size and not 0 <= seen.min() <= seen.max() < size:
            raise ValueError(
                f"{name}: got indices {seen.min()}..{seen.max()}, expected 0..{size - 1}, the "
                "rows of the precomputed matrix"
            )
    return pairwise_gram(kernel, X, Z, options.block)


def _of_parts(kernel: Partial, X: PyTree, Z: PyTree, options: _Options) -> Array:
    """A kernel made of kernels: the same numbers are made of their matrices."""

    def on_sets(part: Callable | Array) -> Callable | Array:
        return _on_sets(part, options) if isinstance(part, Partial) else part

    parts = jax.tree.map(on_sets, kernel.args, is_leaf=lambda part: isinstance(part, Partial))
    return kernel.func(*parts, X, Z)


def _normalised(kernel: Partial, X: PyTree, Z: PyTree, options: _Options) -> Array:
    (inner,) = kernel.args
    own = diagonal(inner, X, options.block)
    other = own if Z is X else diagonal(inner, Z, options.block)
    return combine.divided(_on_sets(inner, options)(X, Z), own[:, None], other[None, :])


@partial(jax.jit, static_argnums=2)
def diagonal(kernel: Callable, X: PyTree, block: int = 256) -> Array:
    """[n] K(x_i, x_i) of n points; `block` of them at a time."""
    return jax.lax.map(lambda x: kernel(x, x), jax.tree.map(jnp.asarray, X), batch_size=block)


def _convolution(kernel: Partial, X: PyTree, Z: PyTree, options: _Options) -> Array:
    """A row at a time: its r decompositions against those of all of Z, each component by rule."""
    decompose, kernels = kernel.args
    parts = [
        jax.vmap(lambda x: decomposed(decompose, kernels, x))(jax.tree.map(jnp.asarray, each))
        for each in (X, Z)
    ]
    m, r = parts[1].weights.shape
    flat = jax.tree.map(lambda leaf: leaf.reshape(m * r, *leaf.shape[2:]), parts[1].components)

    def row(own: Parts) -> Array:
        values = jnp.ones(())
        for part, a, b in zip(kernels, own.components, flat, strict=True):
            values = _on_sets(part, options)(a, b) * values
        tables = values.reshape(-1, m, r).transpose(1, 0, 2)
        return jax.vmap(weighted_by, (None, 0, 0))(own.weights, tables, parts[1].weights)

    return jax.lax.map(row, parts[0])


def _strings(against: Callable) -> Callable:
    return lambda kernel, X, Z, options: string_gram(against, kernel, X, Z)


def _on_sets(kernel: Callable, options: _Options) -> Callable:
    return lambda X, Z: gram_matrix(kernel, X, Z, options.block, options.num_features)


_RULES = {
    single.linear_kernel: _from_products(_linear),
    single.polynomial_kernel: _from_products(_polynomial),
    single.gaussian_kernel: _from_products(_gaussian),
    single.precomputed_kernel: _precompute,
    combine.weighted_sum_kernel: _of_parts,
    combine.product_kernel: _of_parts,
    combine.tensor_product_kernel: _of_parts,
    combine.direct_sum_kernel: _of_parts,
    combine.normalised_kernel: _normalised,
    convolution_kernel: _convolution,
    subsequences_kernel: _strings(subsequences_against),
    substrings_kernel: _strings(substrings_against),
    spectrum_kernel: _strings(spectrum_against),
    mismatch_kernel: _strings(mismatch_against),
}
KERNELS = {function.__name__: function for function in (*_RULES, equality_kernel, windows_of)}
"""The functions that the kernels here are made of, by the names that model files have for them."""
