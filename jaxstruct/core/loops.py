"""Loops that turn as often as an example needs, by numbers of the program, and without scatters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxstruct.core.types import Array, PyTree


def scan_first(
    body: Callable,
    carry: PyTree,
    rows: PyTree,
    count: Array,
    *,
    reverse: bool = False,
    rest: float = 0,
) -> tuple[PyTree, PyTree]:
    """`jax.lax.scan` over the first `count` rows, whatever their number.

    Not differentiable backwards, as no loop is whose length is a number of the program.

    Args:
      body: (carry, row) -> (carry, result).
      rows: pytree with a leading axis [T].
      count: int32, at most T; taken as 0 below.
      reverse: from row count - 1 down to row 0.
      rest: what results hold beyond the first `count`.

    Returns:
      (carry, results with a leading axis [T]).
    """
    rows = jax.tree.map(jnp.asarray, rows)
    T = jax.tree.leaves(rows)[0].shape[0]
    if T == 0:  # a loop would read a row that there is not
        return jax.lax.scan(body, carry, rows)
    body = jax.jit(body)  # traced once
    first = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), rows)
    _, shapes = jax.eval_shape(body, carry, first)
    results = jax.tree.map(lambda one: jnp.full((T, *one.shape), rest, one.dtype), shapes)

    def turn(number: Array, state: tuple[PyTree, PyTree]) -> tuple[PyTree, PyTree]:
        at = count - 1 - number if reverse else number
        carry, held = state
        carry, new = body(carry, jax.tree.map(lambda leaf: leaf[at], rows))
        return carry, jax.tree.map(lambda to, one: put(to, at, one), held, new)

    return jax.lax.fori_loop(0, count, turn, (carry, results))


def put(to: Array, at: Array, row: Array) -> Array:
    """to with row (or entry) number `at` replaced."""
    return jax.lax.dynamic_update_slice_in_dim(to, row[None].astype(to.dtype), at, 0)


def listed(chosen: Array, dtype: Any = jnp.int32) -> tuple[Array, Array]:
    """(positions [T] at which `chosen` [T] is true, in order, then 0; how many there are)."""
    T = chosen.shape[0]

    def append(t: Array, found: tuple[Array, Array]) -> tuple[Array, Array]:
        positions, count = found
        return put(positions, count, jnp.asarray(t)), count + chosen[t].astype(jnp.int32)

    return jax.lax.fori_loop(0, T, append, (jnp.zeros(T, dtype), jnp.int32(0)))


def when(true: Array, step: Callable, state: PyTree) -> PyTree:
    """step(state) where true, else the state: a loop of one turn or none works in place, the
    branches of a conditional copy what they return."""
    return jax.lax.fori_loop(0, true.astype(jnp.int32), lambda _, state: step(state), state)


def for_each(true: Array, step: Callable, state: PyTree) -> PyTree:
    """step(k, state) for every k at which true [K] is, in order."""

    def turn(k: Array, state: PyTree) -> PyTree:
        return when(true[k], lambda state: step(k, state), state)

    return jax.lax.fori_loop(0, true.shape[0], turn, state)
