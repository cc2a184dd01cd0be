"""Messages as plain numbers: S^2 multiplications a step, right unless numbers get too small."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.chains.oracles import steps as chain_steps
from jaxstruct.chains.oracles.sums import (
    Chain,
    Format,
    Messages,
    first_message,
    fold,
    lift,
    normalise,
    over_states,
)
from jaxstruct.chains.potentials import ChainPotentials
from jaxstruct.core.finite import finite_or_zero, positive_or_one
from jaxstruct.core.types import Array, PyTree

_MATRIX_PRODUCT = 16
"""From so many labels on, a table that all examples share is multiplied as a matrix."""


def _by_matrix(table: Array) -> bool:
    return table.shape[-1] == 1 and table.shape[0] >= _MATRIX_PRODUCT


def _contract(message: Array, table: Array) -> Array:
    """sum_s message[s, ..] table[s, .., s']: [*C, S, B]."""
    if _by_matrix(table):
        return jnp.einsum("s...b,s...k->...kb", message, table[..., 0])
    return fold(jnp.add, table.shape[0], lambda s: message[s][..., None, :] * table[s])


def _pull_back(table: Array, ratio: Array) -> Array:
    """sum_s' table[s, .., s'] ratio[.., s']: [S, *C, B]."""
    if _by_matrix(table):
        return jnp.einsum("s...k,...kb->s...b", table[..., 0], ratio)
    columns, rows = jnp.moveaxis(table, -2, 0), jnp.moveaxis(ratio, -2, 0)
    return fold(jnp.add, table.shape[0], lambda s: columns[s] * rows[s][None])


def _table(step: chain_steps.Step, tables: ChainPotentials) -> Array:
    pairs = tables.transitions if step.transitions is None else step.transitions
    if tables.triples is None:
        return pairs
    triples = tables.triples if step.triples is None else step.triples
    return pairs[None] * jnp.where(step.index == 0, 1, triples)


def _joint(message: Array, table: Array, sums: Array, later: Array) -> tuple[Array, Array]:
    # A division comes last so that XLA computes it once, not again for every earlier label.
    ratio = later / positive_or_one(sums)
    joint = message[..., None, :] * table * ratio[None]
    return joint, message * _pull_back(table, ratio)


def _logs(message: Array, column: Array) -> Array:
    return jnp.log(message * column)


LINEAR = Format(_table, _joint, _logs)


class _Scaled(NamedTuple):
    """exp(logs - peak), peak, and spread of the finite logs; these of each row, [1 or rows, b].

    Where there is no table, values is None.
    """

    values: Any
    peak: Array
    spread: Array


def _scale(logs: Array | None, rank: int, dtype: jnp.dtype) -> _Scaled:
    """Scale a table with `rank` axes of labels, every row by itself if it has rows."""
    if logs is None:
        return _Scaled(None, jnp.zeros((1, 1), dtype), jnp.zeros((1, 1), dtype))
    axes = tuple(range(logs.ndim - 1 - rank, logs.ndim - 1))
    top = finite_or_zero(jnp.max(logs, axes, keepdims=True))
    low = jnp.min(jnp.where(logs > -jnp.inf, logs, top), axes, keepdims=True)
    shape = (logs.shape[0] if logs.ndim > rank + 1 else 1, logs.shape[-1])
    return _Scaled(jnp.exp(logs - top), top.reshape(shape), (top - low).reshape(shape))


class _Scaling(NamedTuple):
    """How the potentials of a chain were scaled.

    Fields:
      tables: exp(potentials - peaks).
      first_peak, first_spread: [B] of position 0.
      peaks: [T - 1, B] what a step has to add to log Z.
      floors: [T - 1, b] exp(-spreads): the least that a possible step multiplies by.
    """

    tables: ChainPotentials
    first_peak: Array
    first_spread: Array
    peaks: Array
    floors: Array


def _of_steps(rows: Array, count: int) -> Array:
    """Rows of triples [1 or T - 2, b] by step, [T - 1, b]; the first step has none."""
    if rows.shape[0] == 1:
        return jnp.where(jnp.arange(count)[:, None] > 0, rows, 0)
    return jnp.pad(rows, ((1, 0), (0, 0)))[:count]


def _scaling(chain: Chain) -> _Scaling:
    emissions, transitions, _, _, triples = chain.potentials
    steps, batch = emissions.shape[0] - 1, emissions.shape[-1]
    node, pair, triple = (
        _scale(logs, rank, emissions.dtype)
        for rank, logs in enumerate((emissions, transitions, triples), 1)
    )
    peaks = pair.peak + _of_steps(triple.peak, steps) + node.peak[1:]
    spreads = pair.spread + _of_steps(triple.spread, steps) + node.spread[1:]
    return _Scaling(
        ChainPotentials(node.values, pair.values, triples=triple.values),
        node.peak[0],
        node.spread[0],
        jnp.broadcast_to(peaks, (steps, batch)),
        jnp.exp(-spreads),
    )


def linear_messages(chain: Chain) -> tuple[Messages, Array]:
    """(messages, whether they can be trusted); the largest of every position is 1.

    Returns:
      messages, and a bool: every number but those of impossible states stayed above the smallest
      normal number of the dtype to the power 0.8 (float32: exp(-69.9)), so that nothing was lost.
    """
    scaling = _scaling(chain)
    tables = scaling.tables
    least = jnp.finfo(tables.emissions.dtype).tiny ** 0.8

    def body(carry: PyTree, row: PyTree) -> tuple[PyTree, PyTree]:
        message, scale, safe = carry
        step, peak, floor = row
        sums = _contract(message, _table(step, tables))
        new = sums * lift(step.emissions, sums)
        size = over_states(jnp.max, new)
        new = (new / lift(positive_or_one(size), new)).reshape(message.shape)
        on = step.index + 1 < chain.length
        smallest = over_states(jnp.min, jnp.where(message > 0, message, 1))
        carry = (
            jnp.where(lift(on, new), new, message),
            jnp.where(on, scale + jnp.log(size) + peak, scale),
            safe & (~on | (smallest * floor >= least)),
        )
        return carry, (message, sums)

    first = first_message(tables.emissions[0], tables.triples is not None, 0)
    carry = (first, scaling.first_peak, scaling.first_spread <= -jnp.log(least))
    rows = (chain_steps.all_steps(tables), scaling.peaks, scaling.floors)
    (last, scale, safe), (states, sums) = jax.lax.scan(body, carry, rows)
    total = jnp.where(chain.length > 0, scale + jnp.log(over_states(jnp.sum, last)), 0)
    return Messages(states, sums, normalise(last), total, tables, LINEAR), jnp.all(safe)
