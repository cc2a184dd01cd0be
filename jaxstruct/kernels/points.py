"""Points, dense [d] or sparse, and the two numbers that kernels make of a pair of them.

A point is a dense vector [d] or a `SparseFeatures` (indices [m], values [m], padding with value 0);
the two kinds may be mixed. Two sparse points need not know the number of features d.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from numpy.typing import ArrayLike

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
