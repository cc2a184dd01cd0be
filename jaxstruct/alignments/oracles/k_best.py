"""The k best alignments of two sequences: Gotoh's recursion with the k best of every state.

The states of a cell are those of `pairwise`: P after a pair (or at the start), D and G after a
letter on a gap. A string of operations is one path through them, so that the k best paths are k
different alignments. Each state keeps the k best scores and, of each, which entry of which state of
an earlier cell it came from.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.alignments.potentials import (
    DELETE,
    INSERT,
    PADDING,
    PAIR,
    Alignment,
    AlignmentPotentials,
    checked_pair,
)
from jaxstruct.core.checks import checked_size
from jaxstruct.core.largest import filled_up, k_largest, largest
from jaxstruct.core.types import Array

_BEGIN, _NONE = -1, -2
"""Sources beside 0 .. 3 k - 1 (state k + rank): the alignment begins here; there is no entry."""


class _Ranked(NamedTuple):
    """The k best of the three states, scores [M + 1, k] by row in falling order."""

    paired: Array
    delete: Array
    insert: Array


class _Entries(NamedTuple):
    """Scores [.., m] and their sources [.., m] int32."""

    scores: Array
    sources: Array


def _largest(entries: list[_Entries], k: int) -> _Entries:
    """The k largest of several lists; of equal ones those of the earlier list, then rank."""
    scores, sources = (jnp.concatenate(leaves, axis=-1) for leaves in zip(*entries, strict=True))
    return _Entries(*k_largest(k, scores, sources, axis=-1))


def _of_state(scores: Array, state: int) -> _Entries:
    """A state's list as entries."""
    k = scores.shape[-1]
    source = state * k + jnp.arange(k, dtype=jnp.int32)
    return _Entries(scores, jnp.broadcast_to(source[None], scores.shape))


def _moved(entries: _Entries, change: Array) -> _Entries:
    return entries._replace(scores=entries.scores + change)


def _below(leaf: Array) -> Array:
    """The cells (i - 1, .), moved to the places of (i, .)."""
    return jnp.concatenate([jnp.full_like(leaf[:1], -jnp.inf), leaf[:-1]])


def skewed(pairs: Array) -> Array:
    """[M + N + 1, M + 1] pairs[i - 1, d - i - 1] by diagonal d and i; 0 where there is none."""
    M, N = pairs.shape
    d, i = jnp.arange(M + N + 1)[:, None], jnp.arange(M + 1)[None]
    inside = (i >= 1) & (d - i >= 1) & (d - i <= N)
    return jnp.where(inside, pairs[jnp.clip(i - 1, 0, M - 1), jnp.clip(d - i - 1, 0, N - 1)], 0)


def _gap(others: list[_Entries], own: _Entries, potentials: AlignmentPotentials) -> _Entries:
    """A letter on a gap after something else, or after the same."""
    k = own.scores.shape[-1]
    opened = _moved(_largest(others, k), -potentials.gap_open)
    return _largest([opened, _moved(own, -potentials.gap_extend)], k)


def _fill(
    k: int, local: bool, potentials: AlignmentPotentials, lengths: Array
) -> tuple[Array, Array]:
    """(scores, sources), each [M + N + 1, M + 1, 3, k], by diagonal, row, state and rank."""
    rows = jnp.arange(potentials.pairs.shape[0] + 1)[:, None]
    never = jnp.full((rows.shape[0], k), -jnp.inf, potentials.pairs.dtype)

    def step(carry: tuple, this: tuple) -> tuple:
        last, before = carry
        d, scores = this
        paired, delete, insert = (_of_state(leaf, s) for s, leaf in enumerate(last))
        new_insert = _gap([paired, delete], insert, potentials)
        below = jax.tree.map(_below, last)
        paired, delete, insert = (_of_state(leaf, s) for s, leaf in enumerate(below))
        new_delete = _gap([paired, insert], delete, potentials)
        # A pair crosses two diagonals, a gap one.
        best = _largest([_of_state(_below(leaf), s) for s, leaf in enumerate(before)], k)
        starts = local | (d == 0)
        start = jnp.broadcast_to(jnp.where(starts, 0, -jnp.inf), rows.shape)
        start = _Entries(start.astype(never.dtype), jnp.full(rows.shape, _BEGIN, jnp.int32))
        new_paired = _largest([start, _moved(best, scores[:, None])], k)
        inside = (rows <= lengths[0]) & (d - rows <= lengths[1]) & (d >= rows)
        found = (new_paired, new_delete, new_insert)
        values = _Ranked(*(jnp.where(inside, one.scores, -jnp.inf) for one in found))
        sources = jnp.stack([one.sources for one in found], axis=1)
        return (values, last), (jnp.stack(values, axis=1), sources)

    nothing = _Ranked(never, never, never)
    steps = jnp.arange(len(potentials.pairs) + potentials.pairs.shape[1] + 1, dtype=jnp.int32)
    (_, _), filled = jax.lax.scan(step, (nothing, nothing), (steps, skewed(potentials.pairs)))
    scores, sources = filled
    return scores, jnp.where(scores > -jnp.inf, sources, _NONE)


def _ends(k: int, local: bool, scores: Array, sources: Array, lengths: Array) -> tuple:
    """(scores [k] of the best ends, their place in the flat table)."""
    d, i = (jnp.arange(size).reshape(shape) for size, shape in zip(
        scores.shape[:2], ((-1, 1, 1, 1), (1, -1, 1, 1)), strict=True
    ))  # fmt: skip
    if local:  # the empty alignment counts once
        allowed = (sources != _BEGIN) | ((d == 0) & (i == 0))
    else:
        allowed = (d == jnp.sum(lengths)) & (i == lengths[0])
    flat = jnp.where(allowed, scores, -jnp.inf).reshape(-1)
    return largest(flat, k)


def _way_back(sources: Array, place: Array, found: Array) -> tuple[Array, Array]:
    """(operations [M + N], from the last to the first, then PADDING; [2] their begin) of an end."""
    diagonals, rows, states, k = sources.shape
    flat = sources.reshape(-1)
    kinds = jnp.array([PAIR, DELETE, INSERT], jnp.int32)

    def step(at: tuple, _: None) -> tuple:
        d, i, entry, done = at
        source = flat[((d * rows + i) * states * k) + entry]
        done = done | (source < 0)
        kind = kinds[entry // k]
        d = jnp.where(done, d, d - jnp.where(kind == PAIR, 2, 1))
        i = jnp.where(done, i, i - (kind != INSERT))
        return (d, i, jnp.where(done, entry, source), done), jnp.where(done, PADDING, kind)

    cell, entry = place // (states * k), place % (states * k)
    start = (cell // rows, cell % rows, entry, ~found)
    (d, i, _, _), operations = jax.lax.scan(step, start, None, length=diagonals - 1)
    return operations, jnp.where(found, jnp.stack([i, d - i]), PADDING)


def in_order(backward: Array) -> Array:
    """[L] operations turned around, the PADDING still at the end."""
    steps, count = jnp.arange(backward.shape[0]), jnp.sum(backward != PADDING)
    return backward[jnp.where(steps < count, count - 1 - steps, steps)]


def _k_best(k: int, local: bool, potentials: AlignmentPotentials, lengths: Array) -> Alignment:
    scores, sources = _fill(k, local, potentials, lengths)
    best, places = _ends(k, local, scores, sources, lengths)
    found = best > -jnp.inf
    operations, begin = jax.vmap(partial(_way_back, sources))(places.astype(jnp.int32), found)
    return Alignment(jax.vmap(in_order)(operations), begin, best)


def _clipped(k: int, local: bool, potentials: AlignmentPotentials, lengths: Array) -> Alignment:
    """No larger k than there are strings of operations between two places of the table."""
    k, checked = checked_size("k", k), checked_pair(potentials, lengths)
    M, N = checked[0].pairs.shape
    places = (M + 1) * (N + 1) if local else 1
    found = _k_best(min(k, places**2 * 3 ** (M + N)), local, *checked)
    (operations, begin), score = filled_up(k, found[:2], found.score)
    return Alignment(operations, begin, score)


def k_best_global(potentials: AlignmentPotentials, lengths: Array, k: int) -> Alignment:
    """The k alignments of the largest scores of all letters of both sequences, the best first.

    Args:
      potentials: of one pair of sequences of at most M and N letters.
      lengths: [2] int32, 0 <= lengths <= (M, N).
      k: how many, at least 1, a Python integer.

    Returns:
      An Alignment with a leading axis [k]: all distinct as strings of operations, their F in
      falling order. The first one is that of `global_alignment`, and ties go as there, cell by
      cell; the best k - 1 are the first of the best k. Beyond the last alignment the score is
      -inf, operations and begin are PADDING. Alignments that a pair of -inf forbids are none. The
      derivative of a score counts what its alignment uses. Memory: some 24 k (M + N) (M + 1) bytes
      a pair.

    Raises:
      ValueError: k < 1, shapes do not fit together, or a dtype is not what it should be.
    """
    return _clipped(k, False, potentials, lengths)


def k_best_local(potentials: AlignmentPotentials, lengths: Array, k: int) -> Alignment:
    """The k alignments of the largest scores between any two stretches of letters.

    As `k_best_global`, the first one being that of `local_alignment`. The empty alignment, of
    score 0, is one of them, at (0, 0). Two alignments may differ in where they begin alone, and
    most of the best ones differ from the first by a letter at an end.
    """
    return _clipped(k, True, potentials, lengths)
