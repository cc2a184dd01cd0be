"""`take`: some of the examples, a fold of a cross-validation for instance."""

from __future__ import annotations

import jax
import numpy as np

from jaxstruct.core.buckets import rows_of
from jaxstruct.core.checks import text_of
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.types import AnyArray, PyTree


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
