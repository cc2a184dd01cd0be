"""The best label sequence of a chain, and the k best."""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.chains.oracles import recursion
from jaxstruct.chains.potentials import PADDING, ChainPotentials, checked_chain, score_labels
from jaxstruct.core.batch_last import in_column_blocks, of_one_example
from jaxstruct.core.checks import checked_size
from jaxstruct.core.semiring import Best, Ranked, argmax_first
from jaxstruct.core.types import Array


class Decoded(NamedTuple):
    """Label sequences and their scores F.

    Fields:
      labels: [T] int32, PADDING beyond the length; or [k, T].
      score: a scalar; or [k].
    """

    labels: Array
    score: Array


def _best(potentials: ChainPotentials, length: Array) -> Decoded:
    last, every = recursion.forward(Best(), potentials, length)
    final = recursion.last_first(last, potentials)
    score, place = argmax_first(len(final), lambda i: final[i])
    path = recursion.state_of(place, potentials), jnp.zeros_like(place)
    labels = recursion.trace_back(Best(), potentials, length, every, path)
    return Decoded(labels, jnp.where(length > 0, score, 0))


def _ranked(k: int, potentials: ChainPotentials, length: Array) -> Decoded:
    rule = Ranked(k)
    last, every = recursion.forward(rule, potentials, length)
    final = recursion.last_first(last, potentials)
    rank = jnp.broadcast_to(jnp.arange(k)[:, None], (k, final[0].shape[-1]))
    place, rank, score = rule.pick(tuple(leaf[:, None] for leaf in final), rank)
    path = recursion.state_of(place, potentials), rank
    labels = recursion.trace_back(rule, potentials, length, every, path)
    empty = jnp.where(jnp.arange(k) == 0, 0, -jnp.inf).astype(score.dtype)
    score = jnp.where((length > 0)[None], score, empty[:, None])
    labels = jnp.where((score > -jnp.inf)[None], labels, PADDING)
    return Decoded(jnp.swapaxes(labels, 0, 1), score)


def _score(found: Decoded, potentials: ChainPotentials, length: Array) -> Array:
    return score_labels(potentials, found.labels, length)


def _scores(found: Decoded, potentials: ChainPotentials, length: Array) -> Array:
    return jax.vmap(score_labels, (None, 0, None))(potentials, found.labels, length)


_best_of_one = of_one_example(in_column_blocks(_best, recursion.COLUMNS), _score)


@functools.cache
def _ranked_of_one(k: int) -> Callable:
    return of_one_example(in_column_blocks(partial(_ranked, k), recursion.COLUMNS), _scores)


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
    return _best_of_one(*checked_chain(potentials, length))


def k_best(potentials: ChainPotentials, length: Array, k: int) -> Decoded:
    """The k label sequences of the largest scores, the best first.

    Viterbi's recursion with the k best prefixes of every label instead of one (thesis 4.4.2:
    "2-best Viterbi decoding").

    Args:
      potentials: of one chain of T positions and S labels, first or second order.
      length: int32 scalar, 0 <= length <= T.
      k: how many, at least 1, a Python integer.

    Returns:
      Decoded: labels [k, T] int32, all distinct, and their F [k] in falling order. Of equal scores
      the one with the lowest label at the last position comes first, then, going backward, the one
      with the lowest predecessor; the first is what `viterbi` returns, and the best k - 1 are the
      first of the best k. Where there are fewer than k label sequences that are not forbidden the
      score is -inf and the labels are PADDING. A sequence of length 0 is the only one of its
      length, with the score 0. The derivative of each score counts what its labels use.

    Raises:
      ValueError: k < 1, shapes do not fit together, or a dtype is not what it should be.
    """
    k = checked_size("k", k)
    return _ranked_of_one(k)(*checked_chain(potentials, length))
