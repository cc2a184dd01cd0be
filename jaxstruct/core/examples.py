"""Some of the examples: a fold of a cross-validation, for instance."""

from __future__ import annotations

from functools import partial

import jax
import numpy as np

from jaxstruct.core.buckets import Buckets, rows_of
from jaxstruct.core.checks import text_of
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.types import AnyArray, PyTree


def _rows_at(which: np.ndarray, leaf: AnyArray | Ragged) -> np.ndarray | Ragged:
    return leaf.take(which) if isinstance(leaf, Ragged) else np.asarray(leaf)[which]


def take(tree: PyTree | Buckets, which: np.ndarray) -> PyTree | Buckets:
    """The examples `which`, in that order: example which[j] becomes example j.

    Args:
      tree: a pytree of n examples, of arrays [n, ...] or `Ragged` stores, or Buckets.
      which: [m] distinct integers in 0..n-1, a cross-validation fold for instance.

    Returns:
      As the tree: a pytree [m, ...], or Buckets whose index numbers the m examples (each stays in
      its bucket, buckets left empty are dropped).

    Raises:
      ValueError: which is no such array.
    """
    which = np.asarray(which)
    n = sum(map(len, tree.index)) if isinstance(tree, Buckets) else rows_of(tree)
    if which.ndim != 1 or np.setdiff1d(which, np.arange(n)).size or which.dtype.kind not in "iu":
        raise ValueError(f"which must be [m] integers in 0..{n - 1}, got {text_of(which)}")
    if np.unique(which).size < which.size:
        raise ValueError(f"which must be distinct integers, got {text_of(which)}")
    if not isinstance(tree, Buckets):
        return jax.tree.map(partial(_rows_at, which), tree)
    place = np.full(n, -1)
    place[which] = np.arange(len(which))
    parts, index = [], []
    for part, of_part in zip(tree.parts, tree.index, strict=True):
        kept = np.flatnonzero(place[of_part] >= 0)
        if kept.size:
            parts.append(jax.tree.map(lambda leaf, kept=kept: np.asarray(leaf)[kept], part))
            index.append(place[of_part[kept]])
    return Buckets(tuple(parts), tuple(index))
