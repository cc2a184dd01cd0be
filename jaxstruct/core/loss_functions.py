"""Losses that a user writes as a function of numbers."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import DTypeLike

OF_JAX = "of JAX numbers (jnp.where, not if)"


def check_loss_function(loss: Callable, expected: str, *numbers: DTypeLike) -> None:
    """Raise ValueError unless a function of scalars can be compiled and gives one.

    Args:
      expected: what it must be. numbers: the dtypes of its arguments.
    """
    try:
        found = jax.eval_shape(loss, *(jax.ShapeDtypeStruct((), kind) for kind in numbers))
    except Exception as error:
        first = (str(error).splitlines() or [""])[0]
        raise ValueError(f"{expected}; it raised {type(error).__name__}: {first[:200]}") from error
    shapes = [np.shape(leaf) for leaf in jax.tree.leaves(found)]
    if shapes != [()] or not hasattr(found, "dtype"):
        raise ValueError(f"{expected}, got {type(found).__name__} of shapes {shapes[:3]}")
    if not jnp.issubdtype(found.dtype, jnp.number):
        raise ValueError(f"{expected}, got dtype {found.dtype}")
