"""Smith-Waterman and Needleman-Wunsch with affine gaps: `recursion` with the maximum.

A cell keeps a few bits, not its values: pairs of 50 x 50 letters are filled in 20 us, not in 34.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.alignments.oracles import recursion
from jaxstruct.alignments.potentials import (
    DELETE,
    INSERT,
    PAIR,
    Alignment,
    AlignmentPotentials,
    checked_pair,
    score_operations,
)
from jaxstruct.core.batch_last import batch_size
from jaxstruct.core.semiring import Best
from jaxstruct.core.types import Array

_START, _D_OVER_P, _G_OVER_P, _G_OVER_D, _LATER_DELETE, _LATER_INSERT = 1, 2, 4, 8, 16, 32
"""What a cell remembers: that P is a start, which of P, D, G is larger, how D and G came about."""


class _Ends(NamedTuple):
    """[M + 1, B] the best score of an alignment that ends in row i, and on which diagonal."""

    score: Array
    diagonal: Array


def _notes(own: recursion.Diagonal) -> Array:
    """[M + 1, B] int8 where the three values of a cell come from."""
    paired, delete, insert = own.states
    notes = (
        (_START, ~(own.paired > own.begins)),  # of equal scores the shorter alignment
        (_D_OVER_P, delete > paired), (_G_OVER_P, insert > paired), (_G_OVER_D, insert > delete),
        (_LATER_DELETE, own.later[0] > own.opened[0]),
        (_LATER_INSERT, own.later[1] > own.opened[1]),
    )  # fmt: skip
    return jnp.asarray(sum(bit * noted.astype(jnp.int8) for bit, noted in notes)).astype(jnp.int8)


def _with_ends(ends: _Ends, own: recursion.Diagonal) -> _Ends:
    better = (own.whole > ends.score) & own.ends
    return jax.tree.map(lambda new, old: jnp.where(better, new, old), _Ends(own.whole, own.d), ends)


def _fill(local: bool, potentials: AlignmentPotentials, lengths: Array) -> tuple[_Ends, Array]:
    """(best ends, sources [d, M + 1, B] int8)."""
    batch, pairs = batch_size(potentials, lengths), potentials.pairs
    given = recursion.Given(potentials, lengths, jnp.zeros(1, pairs.dtype))
    never = jnp.full((len(pairs) + 1, batch), -jnp.inf, pairs.dtype)
    nowhere = _Ends(never, jnp.zeros(never.shape, jnp.int32))
    return recursion.forward(Best(), local, given, _notes, _with_ends, nowhere)


def _by_notes(sources: Array) -> Callable:
    """The `source` of `recursion.trace_back`; a place has the notes of the cell where a path is."""
    _, rows, batch = sources.shape
    flat, columns = sources.reshape(-1), jnp.arange(batch)

    def source(state: Array, d: Array, i: Array, place: Array, _: None) -> tuple[Array, Array]:
        cell = jnp.maximum(d, 0) * rows + jnp.maximum(i, 0)
        notes = flat[cell * batch + columns].astype(jnp.int32)
        later = jnp.where(state == DELETE, _LATER_DELETE, _LATER_INSERT)
        goes_on = ((state == DELETE) | (state == INSERT)) & (place & later > 0)
        delete = (notes & _D_OVER_P > 0) & (state != DELETE)
        beaten = notes & jnp.where(delete, _G_OVER_D, _G_OVER_P) > 0
        found = jnp.where(notes & _START > 0, recursion.BEGIN, PAIR)
        found = jnp.where(delete, DELETE, found)
        found = jnp.where(beaten & (state != INSERT), INSERT, found)
        return jnp.where(goes_on, state, found).astype(jnp.int32), notes

    return source


def _best_end(ends: _Ends) -> tuple[Array, tuple[Array, Array]]:
    """([B] score, (diagonal, i) [B]). Ties go to the earliest diagonal, then to the lowest row."""
    rows = ends.score.shape[0]
    score = jnp.max(ends.score, axis=0, keepdims=True)
    places = ends.diagonal * rows + jnp.arange(rows, dtype=jnp.int32)[:, None]
    place = jnp.min(jnp.where(ends.score == score, places, jnp.iinfo(jnp.int32).max), axis=0)
    return score[0], (place // rows, place % rows)


def _kernel(local: bool, potentials: AlignmentPotentials, lengths: Array) -> Alignment:
    ends, sources = _fill(local, potentials, lengths)
    score, (d, i) = _best_end(ends)
    end, length = (d, i, jnp.zeros_like(d)), len(sources) - 1
    return Alignment(*recursion.trace_back(_by_notes(sources), end, length), score)


def _score(found: Alignment, potentials: AlignmentPotentials, lengths: Array) -> Array:
    del lengths
    return score_operations(potentials, found.operations, found.begin)


_LOCAL, _GLOBAL = (recursion.of_one(partial(_kernel, local), _score, 1) for local in (True, False))


def local_alignment(potentials: AlignmentPotentials, lengths: Array) -> Alignment:
    """Smith-Waterman: the alignment of the largest score between any two stretches of letters.

    Args:
      potentials: of one pair of sequences of at most M and N letters.
      lengths: [2] int32, 0 <= lengths <= (M, N).

    Returns:
      An Alignment; the empty one, of score 0, where no other has a positive score. Ties go to the
      end on the earliest anti-diagonal i + j, there to the smallest i. On the way back they go to,
      in this order: stop; a pair; a letter of the first against a gap; a letter of the second; and
      to a run that opens before one that goes on. Under `vmap`, nested or not, one batched program
      runs for all pairs. The derivative of the score counts what the returned alignment uses; its
      operations have none.

    Raises:
      ValueError: shapes do not fit together, or a dtype is not what it should be.

    Source: JMLR 4.4; Smith and Waterman 1981, Gotoh 1982.
    """
    return _LOCAL(*checked_pair(potentials, lengths))


def global_alignment(potentials: AlignmentPotentials, lengths: Array) -> Alignment:
    """Needleman-Wunsch: the alignment of the largest score of all letters of both sequences.

    As `local_alignment`; begin is 0. Where pairs of -inf leave nothing but gaps these are taken.
    """
    return _GLOBAL(*checked_pair(potentials, lengths))
