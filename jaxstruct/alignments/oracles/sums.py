"""Sums over all alignments: log Z, probabilities of pairs, exact samples.

    p(y) = exp(F(y) - log Z),    log Z = log sum_y exp F(y)

over all strings of operations y, of all letters (global) or of any two stretches (local; the empty
alignment counts once). The recursions are those of `pairwise` with log-sum-exp for the maximum: a
string is one path through the states P, D and G. Two strings that differ in the order of gaps alone
are two outputs.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.alignments.oracles.k_best import in_order, skewed
from jaxstruct.alignments.potentials import (
    DELETE,
    INSERT,
    PADDING,
    PAIR,
    AlignmentPotentials,
    checked_pair,
)
from jaxstruct.core.draws import draw
from jaxstruct.core.types import Array

_NEVER = -1e30
"""The logarithm of 0: finite, so that derivatives are 0 and not NaN."""


class AlignmentMarginals(NamedTuple):
    """Expected counts under p(y) of ONE pair of sequences.

    Fields:
      pairs: [M, N] p(letter i of the first is paired with letter j of the second), 0 beyond the
        lengths.
      opened, later: scalars, the expected number of runs against a gap, and of their later letters.
      log_partition: scalar log Z.
    """

    pairs: Array
    opened: Array
    later: Array
    log_partition: Array


class _Sums(NamedTuple):
    """Log sums of the strings that end in a cell, by state.

    Fields:
      paired: after a pair. state: [.., 3] P (after a pair, or at the start), D and G.
    """

    paired: Array
    state: Array


def _below(leaf: Array) -> Array:
    return jnp.concatenate([jnp.full_like(leaf[:1], _NEVER), leaf[:-1]])


def _add(*logs: Array) -> Array:
    """log sum exp of several arrays, of which one may be `_NEVER` throughout."""
    return jax.nn.logsumexp(jnp.stack(logs), axis=0)


def _clean(potentials: AlignmentPotentials, lengths: Array) -> AlignmentPotentials:
    """The potentials with `_NEVER` for pairs that are forbidden, or beyond the lengths."""
    pairs = potentials.pairs
    row, column = jnp.arange(pairs.shape[0])[:, None], jnp.arange(pairs.shape[1])[None]
    real = (row < lengths[0]) & (column < lengths[1])
    return potentials._replace(pairs=jnp.maximum(jnp.where(real, pairs, _NEVER), _NEVER))


def _fill(local: bool, potentials: AlignmentPotentials, lengths: Array) -> _Sums:
    """Leaves [M + N + 1, M + 1, ..] by diagonal and row, of potentials of `_clean`."""
    pairs = potentials.pairs
    M, N = pairs.shape
    rows = jnp.arange(M + 1)
    never = jnp.full(M + 1, _NEVER, pairs.dtype)

    def step(carry: tuple, this: tuple) -> tuple:
        (P, D, G), before = carry
        d, scores = this
        insert = _add(_add(P, D) - potentials.gap_open, G - potentials.gap_extend)
        opened = _below(_add(P, G)) - potentials.gap_open
        delete = _add(opened, _below(D) - potentials.gap_extend)
        paired = _below(before) + scores
        begins = jnp.where(jnp.full(M + 1, local) | (d == 0), 0, _NEVER).astype(never.dtype)
        inside = (rows <= lengths[0]) & (d - rows <= lengths[1]) & (d >= rows)
        found = (paired, _add(paired, begins), delete, insert)
        paired, *states = (jnp.where(inside, jnp.maximum(one, _NEVER), never) for one in found)
        return (tuple(states), _add(P, D, G)), _Sums(paired, jnp.stack(states, axis=1))

    start = ((never, never, never), never)
    steps = jnp.arange(M + N + 1, dtype=jnp.int32)
    return jax.lax.scan(step, start, (steps, skewed(pairs)))[1]


def _end_logs(local: bool, sums: _Sums, lengths: Array) -> Array:
    """[M + N + 1, M + 1, 3] the log sum of the strings that end in each cell after each state.

    A local one that ends at P ends after a pair; the empty one at the first cell.
    """
    if not local:
        d, i = jnp.arange(sums.state.shape[0]), jnp.arange(sums.state.shape[1])
        last = (d == jnp.sum(lengths))[:, None, None] & (i == lengths[0])[None, :, None]
        return jnp.where(last, sums.state, _NEVER)
    first = sums.paired.at[0, 0].set(0)
    return sums.state.at[:, :, 0].set(first)


def _log_partition(local: bool, potentials: AlignmentPotentials, lengths: Array) -> Array:
    ends = _end_logs(local, _fill(local, _clean(potentials, lengths), lengths), lengths)
    return jax.nn.logsumexp(ends)


def log_partition(potentials: AlignmentPotentials, lengths: Array, *, local: bool) -> Array:
    """log Z over all alignments of one pair of sequences.

    Args:
      potentials: of one pair of sequences of at most M and N letters; pairs of -inf are forbidden.
      lengths: [2] int32, 0 <= lengths <= (M, N).
      local: whether over any two stretches; else over all letters.

    Returns:
      A scalar, finite, since gaps are always allowed. Its derivatives are expected counts.

    Raises:
      ValueError: shapes do not fit together, or a dtype is not what it should be.

    Source: Bucher and Hofmann, "A sequence similarity search algorithm based on a probabilistic
    interpretation of an alignment scoring system", ISMB 1996; Durbin et al. 1998, chapter 4.
    """
    return _log_partition(local, *checked_pair(potentials, lengths))


def marginals(
    potentials: AlignmentPotentials, lengths: Array, *, local: bool
) -> AlignmentMarginals:
    """Probabilities of pairs and expected counts of gaps under p(y), of one pair of sequences.

    Args:
      potentials, lengths, local: as in `log_partition`.

    Raises:
      ValueError: as `log_partition`.
    """
    potentials, lengths = checked_pair(potentials, lengths)
    value, counts = jax.value_and_grad(partial(_log_partition, local))(potentials, lengths)
    return AlignmentMarginals(counts.pairs, -counts.gap_open, -counts.gap_extend, value)


def _sources(
    local: bool, potentials: AlignmentPotentials, sums: _Sums, at: tuple[Array, Array, Array]
) -> Array:
    """[4] log weights of what came before a state of a cell: P, D, G there, or the begin."""
    d, i, state = at
    pairs = potentials.pairs
    M, N = pairs.shape
    score = pairs[jnp.clip(i - 1, 0, M - 1), jnp.clip(d - i - 1, 0, N - 1)]
    back = jnp.where(state == 0, 2, 1)
    row = i - (state != 2)
    there = (d >= back) & (row >= 0)
    logs = sums.state[jnp.maximum(d - back, 0), jnp.maximum(row, 0)]
    own = jnp.arange(3) == state
    gaps = -jnp.where(own, potentials.gap_extend, potentials.gap_open)
    logs = jnp.where(there, logs + jnp.where(state == 0, score, gaps), _NEVER)
    begin = jnp.where((state == 0) & (jnp.asarray(local) | (d == 0)), 0, _NEVER)
    return jnp.append(logs, begin.astype(logs.dtype))


def _draw(
    local: bool, potentials: AlignmentPotentials, lengths: Array, key: Array
) -> tuple[Array, Array]:
    potentials = _clean(potentials, lengths)
    sums = _fill(local, potentials, lengths)
    ends = _end_logs(local, sums, lengths)
    diagonals, rows, _ = ends.shape
    first, *keys = jax.random.split(key, diagonals)
    place = draw(first, ends.reshape(-1))
    cell, state = place // 3, place % 3
    kinds = jnp.array([PAIR, DELETE, INSERT], jnp.int32)

    def step(at: tuple, this: tuple) -> tuple:
        d, i, state, done = at
        key, newest = this
        logs = _sources(local, potentials, sums, (d, i, state))
        ended = newest & local & (d > 0)  # an end after a pair is no begin
        logs = logs.at[3].set(jnp.where(ended, _NEVER, logs[3]))
        source = draw(key, logs)
        done = done | (source == 3)
        kind = kinds[state]
        d = jnp.where(done, d, d - jnp.where(kind == PAIR, 2, 1))
        i = jnp.where(done, i, i - (kind != INSERT))
        return (d, i, jnp.where(done, state, source), done), jnp.where(done, PADDING, kind)

    start = (cell // rows, cell % rows, state, jnp.asarray(False))
    steps = (jnp.stack(keys), jnp.arange(diagonals - 1) == 0)
    (d, i, _, _), backward = jax.lax.scan(step, start, steps)
    return in_order(backward), jnp.stack([i, d - i])


def sample(
    potentials: AlignmentPotentials, lengths: Array, key: Array, *, local: bool
) -> tuple[Array, Array]:
    """One alignment drawn from p(y): the end from its probability, then backward step by step.

    Args:
      potentials, lengths, local: as in `log_partition`.
      key: a random key of its own for every alignment; `vmap` over keys alone fills one table.

    Returns:
      (operations [M + N] int32 with PADDING at the end, begin [2] int32). Probabilities are exact
      up to the rounding of sums.

    Raises:
      ValueError: as `log_partition`.
    """
    potentials, lengths = checked_pair(potentials, lengths)
    return _draw(local, potentials, lengths, key)
