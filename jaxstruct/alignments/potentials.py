"""Potentials of an alignment of two sequences, and the score of a string of operations.

An alignment (JMLR 4.4) writes down, from left to right, which letters are paired and which stand
against a gap. Its score is that of the pairs less the cost of the gaps: a run of g letters against
a gap costs gap_open + (g - 1) gap_extend, which is linear where the two are equal.

F = sum over pairs (i, j) of pairs[i, j] - sum over runs of (gap_open + (g - 1) gap_extend)
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from jaxstruct.core.checks import known
from jaxstruct.core.spec import array, one_example
from jaxstruct.core.types import AnyArray, Array

PAIR, DELETE, INSERT, PADDING = 0, 1, 2, -1
"""Operations: pair the next letters of both sequences; a letter of the first sequence, or of the
second, against a gap; none."""


class AlignmentPotentials(NamedTuple):
    """Potentials of ONE pair of sequences of M and N letters, padding included.

    Fields:
      pairs: [M, N] score of pairing letter i of the first with letter j of the second sequence;
        entries beyond the lengths are never read. -inf forbids a pair.
      gap_open, gap_extend: scalars, the cost of the first letter of a run against a gap and of each
        later one; finite, of any sign and order.
    """

    pairs: Array
    gap_open: Array
    gap_extend: Array


class Alignment(NamedTuple):
    """One alignment.

    Fields:
      operations: [M + N] int32 of PAIR, DELETE, INSERT, from left to right, then PADDING.
      begin: [2] int32, letters of the first and the second sequence left out before it.
      score: its F.
    """

    operations: Array
    begin: Array
    score: Array


class Steps(NamedTuple):
    """What the operations [L] of an alignment do.

    Fields:
      paired, opened, later: bool: pairs, first and later letters of runs against a gap.
      i, j: int32, the letters of both sequences that they end with.
    """

    paired: Array
    opened: Array
    later: Array
    i: Array
    j: Array


def steps_of(operations: Array, begin: Array) -> Steps:
    """The steps of one alignment; arguments as in `Alignment`."""
    paired, deleted, inserted = (operations == kind for kind in (PAIR, DELETE, INSERT))
    i = begin[0] + jnp.cumsum(paired | deleted, dtype=jnp.int32) - 1
    j = begin[1] + jnp.cumsum(paired | inserted, dtype=jnp.int32) - 1
    before = jnp.concatenate([jnp.full(1, PADDING, operations.dtype), operations[:-1]])
    gap, goes_on = deleted | inserted, operations == before
    return Steps(paired, gap & ~goes_on, gap & goes_on, i, j)


def score_operations(potentials: AlignmentPotentials, operations: Array, begin: Array) -> Array:
    """F of one alignment, differentiable in the potentials: the gradients count what it uses.

    Args:
      potentials: of one pair. operations: [L] int32, then PADDING. begin: [2] int32.

    Returns:
      The score, a scalar. Operations that leave the sequences have no meaning.
    """
    (pairs, gap_open, gap_extend), steps = potentials, steps_of(operations, begin)
    M, N = pairs.shape
    at = jnp.clip(steps.i, 0, M - 1), jnp.clip(steps.j, 0, N - 1)
    costs = jnp.where(steps.opened, gap_open, jnp.where(steps.later, gap_extend, 0))
    return jnp.sum(jnp.where(steps.paired, pairs[at], 0)) - jnp.sum(costs)


def checked_lengths(lengths: AnyArray, most: tuple[int, ...]) -> Array:
    """[2] int32 lengths of the two sequences; the values of known ones lie in 0..(M, N) = most.

    Raises:
      ValueError: the shape is not [2], they are no integers, or known lengths do not fit.
    """
    lengths = array("lengths", lengths, "2", advice=", one of each sequence")
    if known(lengths) and not all(0 <= own <= top for own, top in zip(lengths, most, strict=True)):
        raise ValueError(f"lengths must be in 0..(M, N) = {most}, got {lengths.tolist()}")
    return jnp.asarray(lengths, jnp.int32)


def checked_pair(
    potentials: AlignmentPotentials, lengths: Array
) -> tuple[AlignmentPotentials, Array]:
    """Potentials, of one floating dtype, and lengths of one pair of sequences.

    Raises:
      ValueError: a shape is not that of one pair, the potentials are no floats, or the lengths do
        not fit.
    """
    potentials = one_example("potentials", potentials, {}, pairs="M N", gap_open="", gap_extend="")
    return potentials, checked_lengths(lengths, potentials.pairs.shape)
