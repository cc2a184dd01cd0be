"""The k best label sequences of a chain."""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp

from jaxstruct.chains.oracles import paths as chain_paths
from jaxstruct.chains.oracles import steps as chain_steps
from jaxstruct.chains.oracles.potential_checks import checked_chain
from jaxstruct.chains.oracles.viterbi import Decoded
from jaxstruct.chains.potentials import PADDING, ChainPotentials, score_labels
from jaxstruct.core.batch_last import of_one_example
from jaxstruct.core.checks import checked_size
from jaxstruct.core.types import Array

Ranked = tuple[Array, ...]
"""k arrays, the best first; joined on an axis XLA would write them element by element."""


def _merge(a: Ranked, b: Ranked) -> Ranked:
    """The k largest of two falling lists: the first j hold i of one and j - i of the other.

    The j-th (from 0) is max over i of min(a[i - 1], b[j - i]). No step waits for another, so that
    XLA computes nothing twice.
    """

    def ranked(j: int) -> Array:
        inner = [jnp.minimum(a[i - 1], b[j - i]) for i in range(1, j + 1)]
        return functools.reduce(jnp.maximum, inner, jnp.maximum(a[j], b[j]))

    return tuple(ranked(j) for j in range(len(a)))


def _advance(alpha: Ranked, table: Array, addend: Array, index: Array) -> Ranked:
    """The k best prefix scores of every label, each [S, c, 1, B]."""
    del index

    def term(s: Array | int) -> Ranked:
        return tuple(part[s] + table[s] for part in alpha)

    def reduction(best: Ranked, new: Ranked, s: Array | int) -> Ranked:
        del s
        return _merge(best, new)

    best = chain_steps.accumulate(table.shape[0], 1, reduction, term(0), term)
    return tuple((part + addend).reshape(alpha[0].shape) for part in best)


def _pick(lists: Ranked, rank: Array) -> tuple[Array, Array, Array]:
    """The entry that stands at a rank among S falling lists.

    Args:
      lists: k arrays [S, 1 or P, B]; entry j of list s is lists[j][s].
      rank: [P, B] in 0..k - 1; larger entries come first, equal ones by s, then by j.

    Returns:
      s, j and the entry, each [P, B].
    """
    shape = (lists[0].shape[0], *rank.shape)
    labels = jnp.arange(shape[0])[:, None, None]

    def take(count: Array | int, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        """Take the largest of the heads off its list."""
        heads, taken = carry
        s = chain_steps.argmax_first(shape[0], lambda s: heads[s], loop=True)[1]
        hit = (labels == s[None]) & (count < rank)[None]
        taken = jnp.where(hit, taken + 1, taken)
        for j in range(1, len(lists)):
            heads = jnp.where(hit & (taken == j), lists[j], heads)
        return heads, taken

    start = (jnp.broadcast_to(lists[0], shape), jnp.zeros(shape, jnp.int32))
    heads, taken = jax.lax.fori_loop(0, len(lists) - 1, take, start)
    value, s = chain_steps.argmax_first(shape[0], lambda s: heads[s], loop=True)
    return s, jnp.sum(jnp.where(labels == s[None], taken, 0), axis=0), value


def _predecessor(
    state: chain_paths.State, rank: Array, alpha: Ranked, table: Array, index: Array
) -> tuple[Array, Array]:
    """(predecessor, rank there) of the path that has this rank among the paths into a state."""
    del index
    entries = chain_paths.entries_into(table, state)
    parts = [chain_steps.at_columns(part[:, :, 0], state.before) for part in alpha]
    return _pick(tuple(part + entries for part in parts), rank)[:2]


def _kernel(k: int, potentials: ChainPotentials, length: Array) -> Decoded:
    batch = chain_steps.batch_size(potentials, length)
    first = chain_steps.first_scores(potentials, batch)
    # Over one position a label is one path: further ranks begin as forbidden.
    first = (first, *[jnp.full_like(first, -jnp.inf)] * (k - 1))
    last, alphas = chain_steps.forward(potentials, length, first, _advance)
    final = (chain_steps.with_stop(potentials, part) for part in last)
    rank = jnp.broadcast_to(jnp.arange(k)[:, None], (k, batch))
    end, rank, score = _pick(tuple(map(chain_paths.last_labels_first, final)), rank)
    path = (chain_paths.last_state(end, potentials), rank)
    labels = chain_paths.backward(potentials, length, alphas, path, _predecessor)
    empty = jnp.where(jnp.arange(k) == 0, 0, -jnp.inf).astype(score.dtype)
    score = jnp.where((length > 0)[None], score, empty[:, None])
    labels = jnp.where((score > -jnp.inf)[None], labels, PADDING)
    return Decoded(jnp.swapaxes(labels, 0, 1), score)


def _scores(found: Decoded, potentials: ChainPotentials, length: Array) -> Array:
    return jax.vmap(score_labels, (None, 0, None))(potentials, found.labels, length)


@functools.cache
def _of_one(k: int) -> Callable:
    return of_one_example(partial(_kernel, k), _scores)


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
    return _of_one(k)(*checked_chain(potentials, length))
