"""Examples as compiled code sees them: buckets, groups of examples padded to different sizes.

Real corpora hold one sentence of 1,238 tokens among lengths of 30. Padded to one size they would be
forty times larger; in a handful of buckets, each with its own padding, little is wasted. Users hand
in ragged examples or arrays; `core.padding` makes buckets of them.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.checks import text_of
from jaxstruct.core.contract import Truth, output_of
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.types import AnyArray, Array, PyTree


class Buckets(NamedTuple):
    """Inputs (or outputs) of n examples, example `index[b][j]` in row j of `parts[b]`.

    Fields:
      parts: one pytree a bucket, its leaves with a leading axis [n_b]; all of one structure.
      index: one [n_b] integer array a bucket; together a permutation of 0..n-1.
    """

    parts: tuple[PyTree, ...]
    index: tuple[np.ndarray, ...]


def rows_of(tree: PyTree) -> int:
    """The length of the leading axis."""
    return int(np.shape(jax.tree.leaves(tree)[0])[0])


def as_buckets(tree: PyTree) -> Buckets:
    """The examples of a plain pytree as one bucket; `Buckets` pass through."""
    if isinstance(tree, Buckets):
        return tree
    return Buckets((tree,), (np.arange(rows_of(tree)),))


def typed(dtype: jnp.dtype, tree: PyTree) -> PyTree:
    """NumPy's arrays with floats in the dtype of the run."""

    def of_leaf(leaf: AnyArray) -> np.ndarray:
        leaf = np.asarray(leaf)
        return leaf.astype(dtype) if np.issubdtype(leaf.dtype, np.floating) else leaf

    return jax.tree.map(of_leaf, tree)


def typed_outputs(dtype: jnp.dtype, y_true: PyTree) -> PyTree:
    """NumPy's arrays of int32; numbers beside them as in `typed`."""
    y = jax.tree.map(lambda leaf: np.asarray(leaf).astype(np.int32), output_of(y_true))
    return Truth(y, typed(dtype, y_true.numbers)) if isinstance(y_true, Truth) else y


def rows_at(tree: PyTree, index: Array) -> PyTree:
    """Some rows of every array."""
    return jax.tree.map(lambda leaf: leaf[index], tree)


def bucket_slices(outputs: tuple[PyTree, ...]) -> list[slice]:
    """Which of the N rows each bucket holds."""
    ends = np.cumsum([0, *map(rows_of, outputs)])
    return [slice(int(a), int(b)) for a, b in zip(ends[:-1], ends[1:], strict=True)]


def take(tree: PyTree, which: np.ndarray) -> PyTree:
    """The examples `which`, in that order: example which[j] becomes example j.

    Args:
      tree: a pytree of n examples, of arrays [n, ...] or `Ragged` stores.
      which: [m] distinct integers in 0..n-1, a cross-validation fold for instance.

    Returns:
      As the tree, of the m examples. Stores are copied with no rows but theirs.

    Raises:
      ValueError: which is no such array.
    """
    which, n = np.asarray(which), rows_of(tree)
    if which.ndim != 1 or np.setdiff1d(which, np.arange(n)).size or which.dtype.kind not in "iu":
        raise ValueError(f"which must be [m] integers in 0..{n - 1}, got {text_of(which)}")
    if np.unique(which).size < which.size:
        raise ValueError(f"which must be distinct integers, got {text_of(which)}")

    def of_leaf(leaf: AnyArray | Ragged) -> np.ndarray | Ragged:
        return leaf.take(which) if isinstance(leaf, Ragged) else np.asarray(leaf)[which]

    return jax.tree.map(of_leaf, tree)
