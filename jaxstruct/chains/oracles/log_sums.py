"""Messages as logarithms: right for all potentials, S^2 exponentials a step."""

from __future__ import annotations

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
from jaxstruct.core.finite import finite_or_zero
from jaxstruct.core.types import Array, PyTree


def _table(step: chain_steps.Step, tables: ChainPotentials) -> Array:
    pairs = tables.transitions if step.transitions is None else step.transitions
    if tables.triples is None:
        return pairs
    triples = tables.triples if step.triples is None else step.triples
    return pairs[None] + jnp.where(step.index == 0, 0, triples)


def _joint(message: Array, table: Array, sums: Array, later: Array) -> tuple[Array, Array]:
    ratio = jnp.log(later) - finite_or_zero(sums)
    joint = jnp.exp(message[..., None, :] + table + ratio[None])
    return joint, normalise(jnp.sum(joint, axis=-2))


LOGARITHMIC = Format(_table, _joint, jnp.add)


def _sums(message: Array, table: Array) -> Array:
    """log sum_s exp(message[s, ..] + table[s, .., s']), -inf where all summands are."""
    S = table.shape[0]

    def summand(s: int | Array) -> Array:
        return message[s][..., None, :] + table[s]

    top = finite_or_zero(fold(jnp.maximum, S, summand))
    return top + jnp.log(fold(jnp.add, S, lambda s: jnp.exp(summand(s) - top)))


def _lower(message: Array) -> tuple[Array, Array]:
    """(the message less its largest value, that value [B])."""
    top = over_states(jnp.max, message)
    return message - lift(finite_or_zero(top), message), top


def log_messages(chain: Chain) -> Messages:
    """Messages whose largest entry is 0 at every position: a long chain keeps its digits."""
    tables = chain.potentials

    def body(carry: PyTree, step: chain_steps.Step) -> tuple[PyTree, PyTree]:
        message, scale = carry
        sums = _sums(message, _table(step, tables))
        new, top = _lower(sums + lift(step.emissions, sums))
        on = step.index + 1 < chain.length
        carry = (jnp.where(lift(on, new), new, message), jnp.where(on, scale + top, scale))
        return carry, (message, sums)

    first = _lower(first_message(tables.emissions[0], tables.triples is not None, -jnp.inf))
    (last, scale), (states, sums) = jax.lax.scan(body, first, chain_steps.all_steps(tables))
    numbers = jnp.exp(last)
    total = jnp.where(chain.length > 0, scale + jnp.log(over_states(jnp.sum, numbers)), 0)
    return Messages(states, sums, normalise(numbers), total, tables, LOGARITHMIC)
