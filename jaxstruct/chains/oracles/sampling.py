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
from jaxstruct.core.types import Array


def _draw(weights: Array, uniform: Array) -> Array:
    """[B] index m with probability weights[m] / sum, from weights [M, b] and numbers in [0, 1).

    The index is the number of partial sums that are at most uniform times their last. Both loops
    add in the same order, hence partial sums never fall, one of weight 0 never rises and the last
    is above the threshold: an index of weight 0 is never drawn.
    """
    M = weights.shape[0]
    total = jax.lax.fori_loop(1, M, lambda m, sums: sums + weights[m], weights[0])
    threshold = uniform * total

    def passed(m: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        partial, index = carry
        partial = partial + weights[m]
        return partial, index + (partial <= threshold)

    start = (jnp.zeros_like(total), jnp.zeros(threshold.shape, jnp.int32))
    _, index = jax.lax.fori_loop(0, M, passed, start)
    return jnp.minimum(index, M - 1)


def _draws(chain: Chain, messages: Messages, uniforms: Array) -> Array:
    """Labels [T, B], the state at the end of the sequence first."""
    tables, numbers = messages.tables, messages.format
    S = tables.emissions.shape[1]

    def body(state: Array, row: tuple) -> tuple[Array, Array]:
        step, message, uniform = row
        inside = step.index + 1 < chain.length
        table = numbers.table(step, tables)
        message = message.reshape(S, -1, message.shape[-1])
        before = chain_steps.at_columns(message, state // S)
        column = chain_steps.at_columns(table.reshape(S, -1, table.shape[-1]), state)
        label = _draw(numbers.weights(before, column), uniform)
        earlier = label * message.shape[1] + state // S
        return jnp.where(inside, earlier, state), jnp.where(inside, state % S, PADDING)

    final = messages.final
    state = _draw(final.reshape(-1, final.shape[-1]), uniforms[-1])
    rows = (chain_steps.all_steps(tables), messages.states, uniforms[:-1])
    first, labels = jax.lax.scan(body, state, rows, reverse=True)
    return jnp.concatenate([jnp.where(chain.length > 0, first % S, PADDING)[None], labels])


def _kernel(potentials: ChainPotentials, length: Array, uniforms: Array) -> Array:
    chain = prepare(potentials, length)
    return summed(chain, lambda messages: _draws(chain, messages, uniforms))


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
      all are forbidden, the labels are some labels. Probabilities are exact up to the resolution of
      uniform numbers in the dtype of the potentials (2^-23 in float32).

    Raises:
      ValueError: shapes do not fit together, or a dtype is not what it should be.
    """
    potentials, length = checked_chain(potentials, length)
    T, dtype = potentials.emissions.shape[0], potentials.emissions.dtype
    return _of_one(potentials, length, jax.random.uniform(key, (T,), dtype))
