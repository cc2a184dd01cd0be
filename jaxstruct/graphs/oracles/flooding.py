"""Belief propagation that sends all messages at once: gathers and scatters, no loop over edges.

Every edge is two directed ones, first all those from the lower node to the higher one, then all
those back. Messages are [S, 2 E, B], labels first, so that every step runs along edges and graphs.
Where each graph of a batch has edges of its own they are one graph of many parts, [S, 2 E B]; so
is a single graph.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.scores import finite_or_zero
from jaxstruct.core.semiring import Best, Sums, fold
from jaxstruct.core.types import Array, PyTree
from jaxstruct.graphs.oracles.layout import Layout, minus


class Schedule(NamedTuple):
    """In which order messages are sent.

    Fields:
      first: all messages 0, in a form of the schedule's own.
      turn: (messages, [B] whether each graph goes on) -> (messages after one pass, [B] the largest
        change of one of those sent). Graphs that have stopped keep theirs.
      read: messages in that form -> those upward and downward [E, S, B], and beliefs [V, S, B].
    """

    first: PyTree
    turn: Callable
    read: Callable


class _Flood(NamedTuple):
    """What passes read; N stands for "V, B" or "V B", M for "2 E, B" or "2 E B".

    Fields:
      nodes: [S, N]. tables: [S, S, M], first the label at the target; B may be 1.
      source, target: [2 E] or [2 E B] places in nodes, beyond the last one at padding.
      real: [M] bool.
    """

    nodes: Array
    tables: Array
    source: Array
    target: Array
    real: Array


def _directed(layout: Layout) -> _Flood:
    """The directed edges of an arranged layout."""
    V, S, B = layout.nodes.shape
    up, down = jnp.transpose(layout.pairs, (2, 1, 0, 3)), jnp.transpose(layout.pairs, (1, 2, 0, 3))
    tables = jnp.concatenate([up, down], axis=2)
    source = jnp.concatenate([layout.low, layout.high])
    target = jnp.concatenate([layout.high, layout.low])
    nodes = jnp.moveaxis(layout.nodes, 1, 0)
    real = source < V
    if source.shape[1] < B:
        return _Flood(nodes, tables, source[:, 0], target[:, 0], real)
    columns = jnp.arange(B, dtype=jnp.int32)[None]

    def places(ends: Array) -> Array:
        return jnp.where(real, ends * B + columns, V * B).ravel()

    tables = jnp.broadcast_to(tables, (*tables.shape[:-1], B)).reshape(S, S, source.size)
    nodes = nodes.reshape(S, V * B)
    return _Flood(nodes, tables, places(source), places(target), real.ravel())


def _reduced(rule: Best, rest: Array, table: Array) -> Array:
    """[M] the reduction over x of rest[x] + table[x]."""
    top = fold(len(rest), 16, jnp.maximum, lambda x: rest[x] + table[x])
    if not isinstance(rule, Sums):
        return top
    top = finite_or_zero(top)
    if rest.ndim == 2:  # all terms as one array: five times as fast where nothing broadcasts
        return top + jnp.log(jnp.sum(jnp.exp(rest + table - top[None]), axis=0))
    return top + jnp.log(fold(len(rest), 8, jnp.add, lambda x: jnp.exp(rest[x] + table[x] - top)))


def _largest(rows: Array) -> Array:
    """The maximum over the first axis; by `Best.reduce` a pass takes 1.4 times as long."""
    best, *others = rows
    return reduce(jnp.maximum, others, best)


def _beliefs(flood: _Flood, messages: Array) -> Array:
    """[S, N] potentials of nodes and all messages into them."""
    zeros = jnp.zeros_like(flood.nodes)
    return flood.nodes + zeros.at[:, flood.target].add(messages, mode="drop")


def _change(messages: Array, old: Array, batch: int) -> Array:
    """[B] the largest change of a message."""
    moved = _largest(jnp.abs(finite_or_zero(messages) - finite_or_zero(old)))
    if batch == 1:  # to a scalar: with a trailing axis of 1 it takes five times as long
        return jnp.max(moved, initial=0)[None]
    return jnp.max(moved.reshape(-1, batch), axis=0, initial=0)


def _pass(
    flood: _Flood, rule: Best, dampen: Array, messages: Array, going: Array
) -> tuple[Array, Array]:
    """All messages anew; see the module of `belief_propagation` for the equation."""
    half, batch = messages.shape[1] // 2, going.shape[0]
    against = jnp.concatenate([messages[:, half:], messages[:, :half]], axis=1)
    beliefs = _beliefs(flood, messages)
    rest = minus(beliefs.at[:, flood.source].get(mode="clip"), against)
    # a loop over target labels: without it what is gathered is gathered anew for each of them
    new = jax.lax.map(partial(_reduced, rule, rest), flood.tables)
    new = new - finite_or_zero(_largest(new))[None]
    new = (1 - dampen) * new + dampen * finite_or_zero(messages)  # -inf stays -inf
    going = going[None]
    if messages.ndim == 2:
        going = jnp.broadcast_to(going, (messages.shape[1] // batch, batch)).ravel()
    new = jnp.where((flood.real & going)[None], new, messages)
    return new, _change(new, messages, batch)


def flooding(layout: Layout, rule: Best, dampen: Array) -> Schedule:
    """All messages at once.

    Args:
      layout: as `arranged` leaves it. rule: static, `Best` or `Sums`.
      dampen: scalar in [0, 1), how much of the old message stays.
    """
    V, S, B = layout.nodes.shape
    E = layout.low.shape[0]
    flood = _directed(layout)

    def read(messages: Array) -> tuple[Array, Array, Array]:
        both = jnp.moveaxis(messages.reshape(S, 2, E, B), 0, 2)
        beliefs = _beliefs(flood, messages).reshape(S, V, B)
        return both[0], both[1], jnp.moveaxis(beliefs, 0, 1)

    sizes = (S, *flood.source.shape, *flood.nodes.shape[2:])
    first = jnp.zeros(sizes, layout.nodes.dtype)
    return Schedule(first, partial(_pass, flood, rule, dampen), read)
