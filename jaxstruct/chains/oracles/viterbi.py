"""Viterbi: the best label sequence of a chain."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from jaxstruct.chains.oracles import paths as chain_paths
from jaxstruct.chains.oracles import steps as chain_steps
from jaxstruct.chains.oracles.potential_checks import checked_chain
from jaxstruct.chains.potentials import ChainPotentials, score_labels
from jaxstruct.core.batch_last import of_one_example
from jaxstruct.core.types import Array


class Decoded(NamedTuple):
    """Label sequences and their scores F.

    Fields:
      labels: [T] int32, PADDING beyond the length; or [k, T].
      score: a scalar; or [k].
    """

    labels: Array
    score: Array


def _advance(alpha: Array, table: Array, addend: Array, index: Array) -> Array:
    del index
    return (chain_steps.best_before(alpha, table) + addend[:, :, None]).reshape(alpha.shape)


def _predecessor(
    state: chain_paths.State, rest: tuple, alpha: Array, table: Array, index: Array
) -> tuple[Array, tuple]:
    """The lowest label of axis 0 that attains the maximum, computed again from the scores."""
    del index
    before = chain_steps.at_columns(alpha[:, :, 0], state.before)
    into = chain_paths.into(table, state)
    return chain_steps.argmax_first(alpha.shape[0], lambda s: before[s] + into(s))[1], rest


def _kernel(potentials: ChainPotentials, length: Array) -> Decoded:
    batch = chain_steps.batch_size(potentials, length)
    first = chain_steps.first_scores(potentials, batch)
    last, alphas = chain_steps.forward(potentials, length, first, _advance)
    final = chain_paths.last_labels_first(chain_steps.with_stop(potentials, last))[:, 0]
    score, end = chain_steps.argmax_first(final.shape[0], lambda i: final[i])
    path = (chain_paths.last_state(end, potentials), ())
    labels = chain_paths.backward(potentials, length, alphas, path, _predecessor)
    return Decoded(labels, jnp.where(length > 0, score, 0))


def _score(found: Decoded, potentials: ChainPotentials, length: Array) -> Array:
    return score_labels(potentials, found.labels, length)


_of_one = of_one_example(_kernel, _score)


def viterbi(potentials: ChainPotentials, length: Array) -> Decoded:
    """The label sequence of the largest score: argmax_y F(y) of one chain.

    alpha_{t+1}(s') = max_s [alpha_t(s) + transitions(s, s')] + emissions(t + 1, s'), with the
    predecessors found again on the way back (thesis 4.4.1, slides "HMM").

    Args:
      potentials: of one chain of T positions and S labels, first or second order.
      length: int32 scalar, 0 <= length <= T.

    Returns:
      Decoded: labels [T] int32 with PADDING beyond the length, and their F. Ties go to the lowest
      label at the last position, then, going backward, to the lowest predecessor. If every
      sequence is forbidden the score is -inf and the labels are some labels; a sequence of length
      0 has the score 0. Under `vmap`, nested or not, one batched program runs for all chains. The
      derivative of the score counts what the returned labels use (of ties too; 0 where all are
      forbidden); labels have none.

    Raises:
      ValueError: shapes do not fit together, or a dtype is not what it should be.
    """
    return _of_one(*checked_chain(potentials, length))
