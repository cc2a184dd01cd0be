"""Exact samples of label sequences from p(y) = exp(F(y) - log Z): sums forward, draws backward."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxstruct.chains.oracles import steps as chain_steps
from jaxstruct.chains.oracles.forward_backward import summed
from jaxstruct.chains.oracles.potential_checks import checked_chain
from jaxstruct.chains.oracles.sums import Chain, Messages, prepare
from jaxstruct.chains.potentials import PADDING, ChainPotentials
from jaxstruct.core.batch_last import of_one_example
from jaxstruct.core.draws import drawn, noise
from jaxstruct.core.types import Array


def _draws(chain: Chain, messages: Messages, noise: tuple[Array, Array]) -> Array:
    """Labels [T, B], the state at the end of the sequence first; noise of it and of the steps."""
    tables, numbers = messages.tables, messages.format
    S = tables.emissions.shape[1]

    def body(state: Array, row: tuple) -> tuple[Array, Array]:
        step, message, own = row
        inside = step.index + 1 < chain.length
        table = numbers.table(step, tables)
        message = message.reshape(S, -1, message.shape[-1])
        before = chain_steps.at_columns(message, state // S)
        column = chain_steps.at_columns(table.reshape(S, -1, table.shape[-1]), state)
        label = drawn(numbers.logs(before, column), own)
        earlier = label * message.shape[1] + state // S
        return jnp.where(inside, earlier, state), jnp.where(inside, state % S, PADDING)

    final = messages.final
    state = drawn(jnp.log(final.reshape(-1, final.shape[-1])), noise[0])
    rows = (chain_steps.all_steps(tables), messages.states, noise[1])
    first, labels = jax.lax.scan(body, state, rows, reverse=True)
    return jnp.concatenate([jnp.where(chain.length > 0, first % S, PADDING)[None], labels])


def _kernel(potentials: ChainPotentials, length: Array, noise: tuple[Array, Array]) -> Array:
    chain = prepare(potentials, length)
    return summed(chain, lambda messages: _draws(chain, messages, noise))


_of_one = of_one_example(_kernel)


def sample(potentials: ChainPotentials, length: Array, key: Array) -> Array:
    """One label sequence drawn from p(y) = exp(F(y) - log Z).

    The last label (second order: the last two) is drawn from its marginal, then, going backward,
    each label given those after it; no chain of samples, no burning in.

    Args:
      potentials: of one chain of T positions, of first or second order; entries may be -inf.
      length: int32 scalar, 0 <= length <= T.
      key: a random key of its own for every sequence; `vmap` over keys alone draws many sequences
        from one chain and runs the forward pass once.

    Returns:
      [T] int32 labels with PADDING beyond the length. Forbidden sequences are never drawn; where
      all are forbidden, the labels are some labels. Probabilities are exact up to the rounding of
      sums.

    Raises:
      ValueError: shapes do not fit together, or a dtype is not what it should be.
    """
    potentials, length = checked_chain(potentials, length)
    (T, S), dtype = potentials.emissions.shape, potentials.emissions.dtype
    last, steps = jax.random.split(key)
    states = S if potentials.triples is None else S * S
    given = noise(last, (states,), dtype), noise(steps, (T - 1, S), dtype)
    return _of_one(potentials, length, given)
