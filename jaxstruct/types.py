"""Floor 0: the plain records that every floor shares."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax

Array = jax.Array
PyTree = Any


class SparseFeatures(NamedTuple):
    """One input as a padded list of its non-zero features.

    Phi(x) = sum_j values[j] e_{indices[j]}. Padding: index = number of features, value = 0
    (the index is out of range on purpose, so that a scatter drops it). Real indices are sorted
    and unique. A batch carries a leading axis on both leaves.

    Fields:
      indices: [m] int32.
      values: [m] float.
    """

    indices: Array
    values: Array
