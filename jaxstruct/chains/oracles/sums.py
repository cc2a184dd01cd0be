"""Sums over all label sequences of a chain: what their two number formats share, batch last.

The state at position t is the label y^t (first order) or the pair (y^{t-1}, y^t) (second order; its
first label is a dummy 0 at position 0). Messages have the shape [S, *C, B] with C = () or (S,),
step tables [S, *C, S, b] with b = B, or 1 where all examples share them; a step sums over axis 0:

    sums_t[.., s'] = sum_s message_t[s, ..] table_t[s, .., s'],
    message_{t+1}[.., s'] = sums_t[.., s'] node_{t+1}[s'].

`linear_sums` and `log_sums` hold the two formats. Backward, the probability of two neighbouring
states comes from the messages alone, so that all numbers stay between 0 and 1:

    p(state_t, state_{t+1}) = message_t table_t p(state_{t+1}) / sums_t.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.chains.oracles import steps as chain_steps
from jaxstruct.chains.potentials import ChainPotentials
from jaxstruct.core.finite import positive_or_one
from jaxstruct.core.types import Array

_UNROLLED = 12


class Chain(NamedTuple):
    """A chain as the sums read it.

    Fields:
      potentials: batch last, of one dtype; emissions [T, S, B] hold start and stop, which are None.
        Zeros stand wherever the sequences have ended.
      length: [B].
    """

    potentials: ChainPotentials
    length: Array


class Format(NamedTuple):
    """The operations of a number format.

    Fields:
      table: (step, constant tables) -> table_t [S, *C, S, b].
      joint: (message_t, table_t, sums_t, p(state_{t+1}) [*C, S, B]) -> p(state_t, state_{t+1})
        [S, *C, S, B] and its sum over s', p(state_t) [S, *C, B].
      logs: (message_t [S, B], column of table_t [S, B]) -> the logarithm of their product.
    """

    table: Callable
    joint: Callable
    logs: Callable


class Messages(NamedTuple):
    """The messages of the recursion from the first position to the last, in one of the formats.

    Fields:
      states: [T - 1, S, *C, B] messages at positions 0..T - 2.
      sums: [T - 1, *C, S, B].
      final: [S, *C, B] p(state at the end of the sequence), or zeros if all is forbidden.
      log_partition: [B].
      tables: potentials in the format, to make steps from.
      format: the format.
    """

    states: Array
    sums: Array
    final: Array
    log_partition: Array
    tables: ChainPotentials
    format: Format


def over_states(reduction: Callable, values: Array) -> Array:
    """A reduction over all axes but the last, the batch."""
    return reduction(values, axis=tuple(range(values.ndim - 1)))


def lift(column: Array, like: Array) -> Array:
    """The array, with axes of length 1 in front until it has as many as `like`."""
    return column.reshape((1,) * (like.ndim - column.ndim) + column.shape)


def normalise(state: Array) -> Array:
    """Probabilities [.., B] from numbers proportional to them; zeros stay."""
    return state / lift(positive_or_one(over_states(jnp.sum, state)), state)


def fold(combine: Callable, labels: int, term: Callable) -> Array:
    """combine(.. combine(term(0), term(1)) .., term(labels - 1)), written out for few labels."""
    if labels > _UNROLLED:
        return jax.lax.fori_loop(1, labels, lambda s, total: combine(total, term(s)), term(0))
    return functools.reduce(combine, [term(s) for s in range(labels)])


def _real_rows(table: Any, rank: int, length: Array) -> Any:
    """The table. Where it varies, steps beyond the end of a sequence are 0.

    Sequences that share a table share the end of the longest.
    """
    if table is None or table.ndim == rank + 1:
        return table
    end = length if table.shape[-1] == length.shape[-1] else jnp.max(length, keepdims=True)
    row = jnp.arange(table.shape[0]).reshape((-1,) + (1,) * (table.ndim - 1))
    return jnp.where(row < lift(end, table) - (rank - 1), table, 0)


def _nodes(potentials: ChainPotentials, length: Array) -> Array:
    """[T, S, b] emissions with start and stop added, 0 beyond the length."""
    emissions, start, stop = potentials.emissions, potentials.start, potentials.stop
    position = jnp.arange(emissions.shape[0])[:, None, None]
    end = length[None, None]
    nodes = jnp.where(position < end, emissions, 0)
    if start is not None:
        nodes = jnp.where((position == 0) & (position < end), nodes + start[None], nodes)
    if stop is not None:
        nodes = jnp.where(position == end - 1, nodes + stop[None], nodes)
    return nodes


def prepare(potentials: ChainPotentials, length: Array) -> Chain:
    """The chain of batch-last potentials, leaves [.., B] or [.., 1], and lengths, [B] or [1].

    Raises:
      ValueError: the potentials are no floating-point numbers.
    """
    batch = chain_steps.batch_size(potentials, length)
    dtype = jnp.result_type(*jax.tree.leaves(potentials))
    if not jnp.issubdtype(dtype, jnp.floating):
        raise ValueError(f"potentials: got {dtype}, expected floating-point numbers; use astype")
    nodes = _nodes(potentials, length)
    clean = ChainPotentials(
        jnp.broadcast_to(nodes, (*nodes.shape[:-1], batch)),
        _real_rows(potentials.transitions, 2, length),
        triples=_real_rows(potentials.triples, 3, length),
    )
    return Chain(
        jax.tree.map(lambda leaf: leaf.astype(dtype), clean), jnp.broadcast_to(length, batch)
    )


def first_message(node: Array, second_order: bool, nothing: float) -> Array:
    """[S, *C, B] from [S, B]. Before position 0 there is only the dummy label 0."""
    if not second_order:
        return node
    dummy = jnp.arange(node.shape[0])[:, None, None] == 0
    return jnp.where(dummy, node[None], nothing)
