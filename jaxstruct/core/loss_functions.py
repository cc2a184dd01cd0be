"""Losses that a user writes as a function of numbers, and sums of what each label costs."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import DTypeLike

from jaxstruct.core.types import Array

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


def cheapest(costs: Array, possible: Array) -> Array:
    """[.., S] what each label costs where several true ones are possible, the cheapest of them.

    Args:
      costs: [S, S], rows of true labels. possible: [.., S] bool.
    """
    return jnp.min(jnp.where(possible[..., :, None], costs, jnp.inf), axis=-2)


def sum_of_costs(costs: Array, y: Array) -> Array:
    """sum_t costs[t, y_t] of labels [T]; costs [T, S] are 0 at padding, where y is -1."""
    return jnp.sum(jnp.take_along_axis(costs, jnp.maximum(y, 0)[:, None], axis=1))
