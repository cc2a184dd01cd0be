"""The cheapest assignment of rows to columns by shortest augmenting paths.

    min over y of sum_i costs[i, y_i],    y_i a column that no other row has, or the row's own exit

Rows come in one by one. A row that comes in looks, by Dijkstra's algorithm in costs reduced by the
dual variables u and v, for the nearest column that is free or row whose exit is open, and the rows
on the way move up (J. Munkres 1957; R. Jonker and A. Volgenant, Computing 38, 1987; D. Crouse, IEEE
Transactions on Aerospace and Electronic Systems 52, 2016, whose form this is). O(n^2 m) for n rows.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.in_turn import entry, in_turn, put
from jaxstruct.core.loops import when
from jaxstruct.core.types import Array

NONE = -1


class _Dual(NamedTuple):
    """Rows that came in, assigned at least cost, and the dual variables that prove it.

    Fields:
      choice: [N] the column of each row, M for its exit, NONE of rows not yet in.
      owner: [M] the row of each column, NONE where it is free.
      u: [N], v: [M]: u_i + v_j <= costs[i, j], equal where assigned; u_i <= costs[i, M].
    """

    choice: Array
    owner: Array
    u: Array
    v: Array


class _Search(NamedTuple):
    """Shortest paths from the row that comes in.

    Fields:
      row, at: the row that is looked at, and its distance.
      distance, before: [M] of each column, and the row before it on the way.
      closed: [M] whether its distance is final. reached: [N] distances of rows, inf where unknown.
      exit, last: the distance of the nearest open exit, and its row.
      end: where the path ends: a column, M for the exit of `last`, M + 1 for nowhere, NONE before.
    """

    row: Array
    at: Array
    distance: Array
    before: Array
    closed: Array
    reached: Array
    exit: Array
    last: Array
    end: Array


def _step(costs: Array, dual: _Dual, now: _Search) -> _Search:
    """Looks at the edges of one row, and closes the nearest column."""
    M = dual.v.shape[0]
    edges = entry(costs, now.row)
    base = now.at - entry(dual.u, now.row)
    reach = base + (edges[:M] - dual.v)
    nearer = ~now.closed & (reach < now.distance)
    distance = jnp.where(nearer, reach, now.distance)
    leave = base + edges[M]
    last = jnp.where(leave < now.exit, now.row, now.last)
    leave = jnp.minimum(leave, now.exit)
    open_ones = jnp.where(now.closed, jnp.inf, distance)
    nearest = jnp.min(open_ones)
    places = jnp.arange(M, dtype=jnp.int32)
    column = jnp.min(jnp.where(open_ones == nearest, places, M - 1))
    owner = entry(dual.owner, column)
    end = jnp.where(owner == NONE, column, NONE)
    end = jnp.where(leave <= nearest, jnp.where(leave < jnp.inf, M, M + 1), end)
    goes_on = end == NONE
    return _Search(
        jnp.where(goes_on, owner, now.row),
        jnp.minimum(nearest, leave),
        distance,
        jnp.where(nearer, now.row, now.before),
        now.closed | (goes_on & (places == column)),
        put(now.reached, now.at, now.row),
        leave, last, end.astype(jnp.int32),
    )  # fmt: skip


def _moved_up(dual: _Dual, row: Array, found: _Search) -> _Dual:
    """The rows on the path take the columns before them; u and v keep the costs reduced."""
    M = dual.v.shape[0]
    gain = found.at - found.reached
    u = jnp.where(found.reached < jnp.inf, dual.u + gain, dual.u)
    v = jnp.where(found.closed, dual.v + found.distance - found.at, dual.v)
    leaves = found.end == M
    freed = entry(dual.choice, found.last)
    choice = jnp.where(leaves, put(dual.choice, jnp.int32(M), found.last), dual.choice)
    ends = leaves & (found.last == row)
    column = jnp.where(leaves, freed, found.end)

    def shift(state: tuple) -> tuple:
        choice, owner, column, _ = state
        one = entry(found.before, column)
        was = entry(choice, one)
        return put(choice, column, one), put(owner, one, column), was, one == row

    start = choice, dual.owner, jnp.maximum(column, 0), ends
    choice, owner, *_ = jax.lax.while_loop(lambda state: ~state[3], shift, start)
    return _Dual(choice, owner, u, v)


def _assigned(costs: Array, rows: Array) -> Array:
    N, M = costs.shape[0], costs.shape[1] - 1
    dtype = costs.dtype
    inf = jnp.asarray(jnp.inf, dtype)

    def come_in(row: Array, dual: _Dual) -> _Dual:
        start = _Search(
            row, jnp.zeros((), dtype), jnp.full(M, inf), jnp.full(M, NONE, jnp.int32),
            jnp.zeros(M, bool), jnp.full(N, inf), inf, row, jnp.int32(NONE),
        )  # fmt: skip
        found = jax.lax.while_loop(
            lambda now: now.end == NONE, lambda now: _step(costs, dual, now), start
        )
        return when(found.end <= M, lambda dual: _moved_up(dual, row, found), dual)

    nothing = _Dual(
        jnp.full(N, NONE, jnp.int32), jnp.full(M, NONE, jnp.int32), jnp.zeros(N, dtype),
        jnp.zeros(M, dtype),
    )  # fmt: skip
    return jax.lax.fori_loop(0, entry(rows), come_in, nothing).choice


cheapest_assignment = in_turn(_assigned)
