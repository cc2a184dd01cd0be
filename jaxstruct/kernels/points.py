"""Points, dense [d] or sparse, sets of them, and the numbers that kernels make of two.

A point is a dense vector [d] or a `SparseFeatures` (indices [m], values [m], padding with value 0);
the two kinds may be mixed. Two sparse points need not know the number of features d.

A set is dense [n, d] or SparseFeatures([n, m], [n, m]). Inner products of two sets are one matrix
product, or a scan over stored entries.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from jaxstruct.core.checks import as_numbers, known
from jaxstruct.core.types import Array, SparseFeatures

Point: TypeAlias = SparseFeatures | ArrayLike
"""A vector [d], dense or sparse."""


def densify(x: SparseFeatures, num_features: int) -> Array:
    """Returns Phi(x) [num_features] (or [n, num_features] of a batch), padding dropped."""
    if x.indices.ndim == 2:
        return jax.vmap(lambda row: densify(row, num_features))(x)
    values = jnp.asarray(x.values)
    return jnp.zeros(num_features, values.dtype).at[x.indices].add(values, mode="drop")


def as_float(values: ArrayLike) -> Array:
    """Returns the values as they are if floating, else in JAX's default float type."""
    values = jnp.asarray(values)
    if jnp.issubdtype(values.dtype, jnp.floating):
        return values
    return values.astype(jnp.result_type(float))


def _as_point(x: Any, name: str) -> Any:
    if isinstance(x, SparseFeatures):
        indices, values = jnp.asarray(x.indices, jnp.int32), as_float(x.values)
        if indices.ndim != 1 or indices.shape != values.shape:
            raise ValueError(
                f"{name}: got indices {indices.shape} and values {values.shape}, expected one "
                "point, [m] and [m]; for sets of points use gram_matrix or jax.vmap"
            )
        return SparseFeatures(indices, values)
    x = as_float(x)
    if x.ndim != 1:
        raise ValueError(
            f"{name}: got shape {x.shape}, expected one point [d]; for sets of points use "
            "gram_matrix or jax.vmap"
        )
    return x


def _as_points(x: Any, z: Any) -> tuple[Any, Any]:
    """Both points, checked and of one dtype. Both are dense unless both are sparse."""
    x, z = _as_point(x, "x"), _as_point(z, "x'")
    if isinstance(x, SparseFeatures) and isinstance(z, SparseFeatures):
        dtype = jnp.promote_types(x.values.dtype, z.values.dtype)
        return x._replace(values=x.values.astype(dtype)), z._replace(values=z.values.astype(dtype))
    if isinstance(x, SparseFeatures):
        x = densify(x, z.shape[0])
    elif isinstance(z, SparseFeatures):
        z = densify(z, x.shape[0])
    if x.shape != z.shape:
        raise ValueError(f"x': got {z.shape[0]} features, expected {x.shape[0]} as in x")
    dtype = jnp.promote_types(x.dtype, z.dtype)
    return x.astype(dtype), z.astype(dtype)


def inner_product(x: Point, z: Point) -> Array:
    """Returns <x, x'> of two points, each dense [d] or sparse.

    Of two sparse points it is sum_ij [index_i = index'_j] value_i value'_j, which needs no d;
    padding adds 0 because its value is 0. A scalar of the points' floating dtype.
    """
    a, b = _as_points(x, z)
    if not isinstance(a, SparseFeatures):
        return jnp.dot(a, b, precision=jax.lax.Precision.HIGHEST)
    same = a.indices[:, None] == b.indices[None, :]
    products = a.values[:, None] * b.values[None, :]
    return jnp.sum(jnp.where(same, products, jnp.zeros_like(products)))


def squared_distance(x: Point, z: Point) -> Array:
    """Returns ||x - x'||^2 of two points, from their differences; each is dense [d] or sparse.

    Nothing is subtracted but the features themselves, so no digits cancel: 0 for x = x' exactly.
    Real indices of a sparse point must be unique.
    """
    a, b = _as_points(x, z)
    if not isinstance(a, SparseFeatures):
        return jnp.sum(jnp.square(a - b))
    same = a.indices[:, None] == b.indices[None, :]
    other = jnp.broadcast_to(b.values[None, :], same.shape)
    partner = jnp.sum(jnp.where(same, other, jnp.zeros_like(other)), axis=1)
    alone = jnp.where(jnp.any(same, axis=0), jnp.zeros_like(b.values), b.values)
    return jnp.sum(jnp.square(a.values - partner)) + jnp.sum(jnp.square(alone))


def _values(X: Any) -> Any:
    return X.values if isinstance(X, SparseFeatures) else X


def _as_set(X: Any, name: str) -> Any:
    values = _values(X)
    if not hasattr(values, "shape"):
        values = as_numbers(name, values, "a set of points, two axes")
    values = as_float(values)
    if values.ndim != 2:
        raise ValueError(f"{name}: got shape {values.shape}, expected a set of points, two axes")
    return X._replace(values=values) if isinstance(X, SparseFeatures) else values


def _cast(X: Any, dtype: Any) -> Any:
    if isinstance(X, SparseFeatures):
        return SparseFeatures(jnp.asarray(X.indices, jnp.int32), X.values.astype(dtype))
    return X.astype(dtype)


def as_sets(X: Any, Z: Any) -> tuple[Any, Any]:
    """Returns both sets checked, with floating values of one dtype."""
    X, Z = _as_set(X, "X"), _as_set(Z, "Z")
    widths = [each.shape[1] for each in (X, Z) if not isinstance(each, SparseFeatures)]
    if len(set(widths)) > 1:
        raise ValueError(f"Z: got {widths[1]} features, expected {widths[0]} as in X")
    dtype = jnp.promote_types(_values(X).dtype, _values(Z).dtype)
    return _cast(X, dtype), _cast(Z, dtype)


def _check_indices(X: SparseFeatures, name: str, num_features: int) -> None:
    """Refuses a feature past num_features: it would be lost. Traced values are not looked at."""
    if not (known(X.indices) and known(X.values)):
        return
    real = np.asarray(X.indices)[np.asarray(X.values) != 0]
    if real.size and (real.max() >= num_features or real.min() < 0):
        raise ValueError(
            f"{name}: got feature indices {real.min()}..{real.max()}, expected 0.."
            f"{num_features - 1}; num_features must be at least {real.max() + 1}"
        )


def _dense_by_sparse(X: Array, Z: SparseFeatures) -> Array:
    """<x_i, z_j> [n, m]. The scan takes one stored entry of every z at a time."""
    columns = X.T

    def add(total: Array, entry: tuple[Array, Array]) -> tuple[Array, None]:
        index, value = entry
        return total + value[:, None] * columns.at[index].get(mode="fill", fill_value=0), None

    start = jnp.zeros((Z.indices.shape[0], X.shape[0]), X.dtype)
    total, _ = jax.lax.scan(add, start, (Z.indices.T, Z.values.T))
    return total.T


def _sparse_by_sparse(X: SparseFeatures, Z: SparseFeatures, block: int, d: int) -> Array:
    n = X.indices.shape[0]
    block = min(block, max(n, 1))
    short = -n % block
    padded = jax.tree.map(lambda leaf: jnp.pad(leaf, ((0, short), (0, 0))), X)
    count = (n + short) // block
    blocks = jax.tree.map(lambda leaf: leaf.reshape(count, block, leaf.shape[1]), padded)
    rows = jax.lax.map(lambda x: _dense_by_sparse(densify(x, d), Z), blocks)
    return rows.reshape(n + short, Z.indices.shape[0])[:n]


def inner_products(X: Any, Z: Any, block: int, num_features: int | None) -> Array:
    """Returns <x_i, z_j> [n, m] of two sets from `as_sets`, dense or sparse.

    Of two sparse sets, `block` rows of X at a time are made dense, [block, num_features].

    Raises:
      ValueError: a known feature index is past the number of features.
    """
    if not isinstance(X, SparseFeatures) and not isinstance(Z, SparseFeatures):
        return jnp.matmul(X, Z.T, precision=jax.lax.Precision.HIGHEST)
    if not isinstance(X, SparseFeatures):
        _check_indices(Z, "Z", X.shape[1])
        return _dense_by_sparse(X, Z)
    if not isinstance(Z, SparseFeatures):
        _check_indices(X, "X", Z.shape[1])
        return _dense_by_sparse(Z, X).T
    assert num_features is not None, "two sparse sets do not say their number of features"
    _check_indices(X, "X", num_features)
    _check_indices(Z, "Z", num_features)
    return _sparse_by_sparse(X, Z, block, num_features)


def squared_norms(X: Array | SparseFeatures) -> Array:
    """Returns ||x_i||^2 [n] of a set from `as_sets`."""
    return jnp.sum(jnp.square(_values(X)), axis=1)
