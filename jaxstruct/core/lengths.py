"""The length of one example, as the oracles of every output type take it."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer


def known(value: Any) -> bool:
    """Whether a value can be looked at: while tracing it cannot."""
    return not isinstance(value, Tracer)


def checked_length(length: Any, most: int | None = None, least: int = 0) -> Array:
    """The length of one chain (or sentence) as an int32 scalar.

    Args:
      length: a scalar; its value is looked at where it is known, while tracing it is not.
      most, least: of a length that is known; None for any.

    Raises:
      ValueError: it is no scalar or no integer, or it is known and not in least..most.
    """
    length = np.asarray(length) if known(length) else length
    if length.ndim:
        raise ValueError(f"length must be a scalar, got shape {length.shape}; use jax.vmap")
    if not jnp.issubdtype(length.dtype, jnp.integer):
        raise ValueError(f"length must be an integer, got {length.dtype}")
    if known(length) and most is not None and not least <= int(length) <= most:
        raise ValueError(f"length must be in {least}..{most}, the positions, got {int(length)}")
    return jnp.asarray(length, jnp.int32)
