"""Knapsacks, 0/1 and bounded: items of integer sizes within a capacity, by dynamic programming.

    V_j[r] = max over 0 <= k <= bound_j, k size_j <= r of V_{j-1}[r - k size_j] + k theta_j

A decision says how often each item is taken.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxstruct.core.batch_last import batch_size, in_column_blocks, of_one_example
from jaxstruct.core.checks import checked_size
from jaxstruct.core.device import on_device
from jaxstruct.core.semiring import argmax_first
from jaxstruct.core.spec import array, refuse
from jaxstruct.core.types import AnyArray, Array, Static
from jaxstruct.decisions.sets import Decisions, decision_set

NUMBERS = 1 << 17
"""Values that a block of columns keeps, so that they stay in the cache of a core."""
MOST_CAPACITY = 1 << 20
"""Values of one example: more are no dynamic program any more."""


def _kernel(most: tuple[int, int], sizes: Array, bounds: Array, theta: Array, room: Array) -> Array:
    """y [d, B]; most: the largest capacity and the largest bound."""
    (capacity, counts), sizes, bounds = most, sizes[:, 0], bounds[:, 0]
    small = jnp.int8 if counts < 128 else jnp.int32
    nothing = jnp.full((capacity + 1, batch_size(theta, room)), -jnp.inf, theta.dtype)

    def put_in(values: Array, item: tuple) -> tuple[Array, Array]:
        size, bound, gain = item
        below = jnp.concatenate([nothing, values])  # what the rest holds, -inf below room 0

        def times(k: Any) -> Array:
            first = capacity + 1 - jnp.minimum(k * size, capacity + 1)
            rest = jax.lax.dynamic_slice_in_dim(below, first, capacity + 1)
            gained = jnp.where(k > 0, k * gain, 0)  # 0 times -inf is nothing
            return jnp.where(k <= bound, rest + gained[None], -jnp.inf)

        best, count = argmax_first(counts + 1, times)
        return best, count.astype(small)

    _, counted = jax.lax.scan(put_in, jnp.zeros_like(nothing), (sizes, bounds, theta))

    def take_out(room: Array, item: tuple) -> tuple[Array, Array]:
        size, count = item
        own = jnp.take_along_axis(count, room[None], axis=0)[0].astype(jnp.int32)
        return room - own * size, own

    start = jnp.broadcast_to(room, nothing.shape[1:])
    return jax.lax.scan(take_out, start, (sizes, counted), reverse=True)[1]


@functools.cache
def _oracle(most: tuple[int, int]) -> Callable:
    width = max(16, NUMBERS // (most[0] + 1) // 16 * 16)
    return of_one_example(in_column_blocks(functools.partial(_kernel, most), width))


def _best(
    most: Static[tuple[int, int]], items: tuple[Array, Array], theta: Array, instance: Any
) -> Array:
    capacity = most.value[0] if isinstance(instance, tuple) else instance
    room = jnp.minimum(jnp.asarray(capacity, jnp.int32), most.value[0])
    return _oracle(most.value)(*items, theta, room)


def _check(most: float, instances: Any, n: int) -> None:
    if isinstance(instances, tuple) and not instances:
        return
    found = array("instances", instances, "n", sizes={"n": n}, advice=": the capacities, or ()")
    words = f"capacities in 0..{most:g}, that of the set"
    refuse("instances", found, (found < 0) | (found > most), words)


def knapsack(
    sizes: AnyArray, capacity: float, bounds: AnyArray = 1, *, sense: str = "maximise"
) -> Decisions:
    """Items within a capacity: sum_j sizes_j y_j <= capacity, 0 <= y_j <= bounds_j.

    Time and memory grow with the capacity. Several constraints are no dynamic program.

    Args:
      sizes: [d] integers >= 0. capacity: an integer >= 0, or inf: everything fits.
      bounds: [d] integers >= 0, how often an item may be taken, or one number for all.
      sense: "maximise" values. Those < 0 are left out; "minimise" takes costs < 0 alone.

    Returns:
      Decisions of size d; instances are () or [n] integers, a capacity of each example; more than
      all items take is no constraint. Of equal decisions the one that takes the last item least
      often, among those the one that takes the item before it least often, and so on.

    Raises:
      ValueError: an argument does not fit.
    """
    numbers: dict[str, int] = {}
    sizes = array("sizes", sizes, "d", sizes=numbers, within=range(MOST_CAPACITY))
    bounds = np.broadcast_to(np.asarray(bounds), sizes.shape) if np.ndim(bounds) == 0 else bounds
    bounds = array("bounds", bounds, "d", sizes=numbers, within=range(MOST_CAPACITY))
    if not len(sizes):
        raise ValueError("sizes is empty: a knapsack needs one item at least")
    whole = int(np.sum(sizes.astype(np.int64) * bounds))
    if capacity != np.inf:
        capacity = checked_size("capacity", capacity, 0)
    most = int(min(capacity, whole)), int(bounds.max())
    if most[0] > MOST_CAPACITY:
        raise ValueError(
            f"capacity {most[0]} is above {MOST_CAPACITY}: measure sizes more coarsely"
        )
    items = on_device(sizes, np.int32), on_device(bounds, np.int32)
    best, check = Partial(_best, Static(most), items), Partial(_check, capacity)
    made = {"sizes": tuple(sizes.tolist()), "capacity": capacity, "bounds": tuple(bounds.tolist())}
    return decision_set(best, check, len(sizes), sense, ("knapsack", made | {"sense": sense}))
