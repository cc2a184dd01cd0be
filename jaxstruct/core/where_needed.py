"""Work of single examples that a batch is spared where none of its examples needs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap

from jaxstruct.core.types import Array, PyTree


def _where(need: Array, new: PyTree, old: PyTree) -> PyTree:
    def of_leaf(a: Array, b: Array) -> Array:
        return jnp.where(need.reshape(need.shape + (1,) * (a.ndim - need.ndim)), a, b)

    return jax.tree.map(of_leaf, new, old)


def where_needed(compute: Callable, need: Array, arguments: Any, otherwise: PyTree) -> PyTree:
    """compute(arguments) of ONE example where it is needed, else `otherwise`.

    Under one `vmap` the batch is computed where one example or more need it, and no work is done
    where none does; a `jax.lax.cond` would always do it.

    Args:
      compute: arguments -> a pytree like `otherwise`; it closes over no arrays.
      need: bool scalar. arguments: a pytree of arrays.
    """

    @custom_vmap
    def call(need: Array, arguments: Any, otherwise: PyTree) -> PyTree:
        return jax.lax.cond(need, lambda: compute(arguments), lambda: otherwise)

    @call.def_vmap
    def rule(size: int, batched: list, need: Array, arguments: Any, otherwise: PyTree) -> Any:
        axes = jax.tree.map(lambda flag: 0 if flag else None, batched)

        def whole(leaf: Array, axis: int | None) -> Array:
            return leaf if axis == 0 else jnp.broadcast_to(leaf, (size, *leaf.shape))

        need = whole(need, axes[0])
        old = jax.tree.map(whole, otherwise, axes[2])
        many = jax.vmap(compute, (axes[1],), axis_size=size)
        found = jax.lax.cond(jnp.any(need), lambda: _where(need, many(arguments), old), lambda: old)
        return found, jax.tree.map(lambda _: True, found)

    return call(need, arguments, otherwise)
