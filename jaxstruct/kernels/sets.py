"""Inner products of two sets of points: one matrix product, or a scan over stored entries.

A set is dense [n, d] or SparseFeatures([n, m], [n, m]).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.checks import as_numbers
from jaxstruct.core.lengths import known
from jaxstruct.core.types import Array, SparseFeatures
from jaxstruct.kernels.points import as_float, densify


def _as_set(X: Any, name: str) -> Any:
    values = X.values if isinstance(X, SparseFeatures) else X
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
    sparse_x, sparse_z = isinstance(X, SparseFeatures), isinstance(Z, SparseFeatures)
    if not sparse_x and not sparse_z and X.shape[1] != Z.shape[1]:
        raise ValueError(f"Z: got {Z.shape[1]} features, expected {X.shape[1]} as in X")
    dtype = jnp.promote_types(
        X.values.dtype if sparse_x else X.dtype, Z.values.dtype if sparse_z else Z.dtype
    )
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
    values = X.values if isinstance(X, SparseFeatures) else X
    return jnp.sum(jnp.square(values), axis=1)
