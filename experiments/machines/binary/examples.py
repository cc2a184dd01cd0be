"""Training inputs as the dual sees them: inner products of few, scores of many.

Three kinds: dense rows [n, d], sparse rows, a kernel matrix [n, n]. An index n (out of range) is
padding: its input is the zero vector. Weights are w [d], of a kernel matrix coefficients [n].
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.ragged import Ragged
from jaxstruct.core.types import AnyArray, Array, PyTree, SparseFeatures
from jaxstruct.multiclass.structure import KernelInput

FEW = 9
"""Inputs whose median is their centre."""
BLOCK = 256
"""Inputs whose sparse scores are made together."""


class DenseRows(NamedTuple):
    """Dense inputs `x` [n, d]."""

    x: AnyArray


class SparseRows(NamedTuple):
    """Sparse inputs.

    Fields:
      x: SparseFeatures of [n, m], padded with index d and value 0.
      zero: [d] zeros, the weights before training.
    """

    x: SparseFeatures
    zero: AnyArray


class KernelRows(NamedTuple):
    """Inputs as their kernel values `gram` [n, n]."""

    gram: AnyArray


Examples: TypeAlias = DenseRows | SparseRows | KernelRows


def rows_of(inputs: PyTree, number_of_features: int | None) -> Examples:
    """Inputs as NumPy arrays, dense ones and kernel values in float32 where they came so.

    Args:
      inputs: dense, sparse or kernel values, see `fit_binary`.
      number_of_features: d, of sparse inputs alone.
    """
    if isinstance(inputs, KernelInput):
        return KernelRows(_numbers(inputs.row))
    if not isinstance(inputs, SparseFeatures):
        return DenseRows(_numbers(inputs))
    d, (indices, values) = number_of_features, inputs
    assert d is not None, "sparse inputs do not say how many features there are"
    if isinstance(indices, Ragged) and isinstance(values, Ragged):
        every, width = np.arange(len(indices)), max(1, int(indices.lengths.max(initial=1)))
        indices, values = indices.padded(every, width, d), values.padded(every, width)
    rows = SparseFeatures(np.asarray(indices), np.asarray(values, np.float64))
    return SparseRows(rows, np.zeros(d))


def _numbers(values: AnyArray) -> np.ndarray:
    numbers = np.asarray(values)
    return numbers if numbers.dtype == np.float32 else numbers.astype(np.float64)


def number_of(examples: Examples) -> int:
    """How many inputs there are, n."""
    if isinstance(examples, SparseRows):
        return examples.x.indices.shape[0]
    return examples[0].shape[0]


def _rows(x: Array, index: Array, fill: float = 0) -> Array:
    return x.at[index].get(mode="fill", fill_value=fill)


def _sparse_rows(examples: SparseRows, index: Array) -> SparseFeatures:
    d = examples.zero.shape[0]
    x = examples.x
    return SparseFeatures(_rows(x.indices, index, d), _rows(x.values, index))


def _sparse_gram(x: SparseFeatures, zero: Array) -> Array:
    """[q, q]: the rows are made dense side by side, and each sums the entries that it meets."""
    q = x.indices.shape[0]
    columns = jnp.zeros((len(zero), q), zero.dtype)
    columns = columns.at[x.indices, jnp.arange(q)[:, None]].add(x.values, mode="drop")

    def add(total: Array, entry: tuple[Array, Array]) -> tuple[Array, None]:
        index, value = entry
        return total + value[:, None] * _rows(columns, index), None

    return jax.lax.scan(add, jnp.zeros((q, q), zero.dtype), (x.indices.T, x.values.T))[0]


def gram_of(examples: Examples, index: Array) -> Array:
    """[q, q] K(x_i, x_j) of the inputs `index` [q]."""
    if isinstance(examples, KernelRows):
        return _rows(_rows(examples.gram, index).T, index)
    if isinstance(examples, SparseRows):
        return _sparse_gram(_sparse_rows(examples, index), examples.zero)
    x = _rows(examples.x, index)
    return jnp.matmul(x, x.T, precision=jax.lax.Precision.HIGHEST)


def centred_gram_of(examples: Examples, index: Array) -> Array:
    """The same of dense inputs less a centre: a machine's own may lie far from that of all.

    It is the median of a few, which one that lies far off does not move.
    """
    if not isinstance(examples, DenseRows):
        return gram_of(examples, index)
    real = index < number_of(examples)
    x = _rows(examples.x, index)
    few = (jnp.arange(FEW) * jnp.sum(real)) // FEW  # padding is last, or most of it
    x = jnp.where(real[:, None], x - jnp.median(x[few], axis=0)[None, :], 0)
    return jnp.matmul(x, x.T, precision=jax.lax.Precision.HIGHEST)


def weights_of(examples: Examples, index: Array, beta: Array) -> Array:
    """w = sum_j beta_j x_j (2.12) of the inputs `index` [s], [d]; coefficients [n] of a kernel."""
    if isinstance(examples, KernelRows):
        zero = jnp.zeros(examples.gram.shape[0], beta.dtype)
        return zero.at[index].add(beta, mode="drop")
    if isinstance(examples, SparseRows):
        x = _sparse_rows(examples, index)
        return examples.zero.at[x.indices].add(x.values * beta[:, None], mode="drop")
    x = _rows(examples.x, index)
    return jnp.matmul(beta, x, precision=jax.lax.Precision.HIGHEST)


def scores_of(examples: Examples, w: Array, index: Array) -> Array:
    """<w, x_i> of the inputs `index` [s]."""
    if isinstance(examples, SparseRows):
        x = _sparse_rows(examples, index)
        return jnp.sum(x.values * _rows(w, x.indices), axis=-1)
    return jnp.matmul(_rows(examples[0], index), w, precision=jax.lax.Precision.HIGHEST)


def scores_of_all(examples: Examples, weights: Array) -> Array:
    """<w_m, x_i> of all inputs, [n, M], for weights [d, M]."""
    if not isinstance(examples, SparseRows):
        return jnp.matmul(examples[0], weights, precision=jax.lax.Precision.HIGHEST)

    def of_one(x: SparseFeatures) -> Array:
        return x.values @ _rows(weights, x.indices)

    return jax.lax.map(of_one, examples.x, batch_size=BLOCK)
