"""Rows of a bucket in blocks of one size."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from jaxstruct.baselines.examples import labels_of
from jaxstruct.core.buckets import rows_of
from jaxstruct.core.types import Array, PyTree


def row_blocks(outputs: PyTree, positions: int) -> list[Array]:
    """The rows of a bucket in blocks of one size, of about so many labels; -1 is padding.

    Args:
      outputs: of the bucket. positions: labels in a block, padding included.
    """
    n = rows_of(outputs)
    size = min(n, max(1, positions // labels_of(outputs)))
    rows = np.pad(np.arange(n, dtype=np.int32), (0, -n % size), constant_values=-1)
    return list(jnp.asarray(rows.reshape(-1, size)))
