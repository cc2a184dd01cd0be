"""The k best alignments of two sequences, and the best one of every loss: `recursion` by ranks and
by levels."""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.alignments.losses import ErrorLevels
from jaxstruct.alignments.oracles import recursion
from jaxstruct.alignments.oracles.recursion import Given, States
from jaxstruct.alignments.potentials import (
    PADDING,
    Alignment,
    AlignmentPotentials,
    checked_pair,
    score_operations,
)
from jaxstruct.core.batch_last import batch_size
from jaxstruct.core.checks import checked_size
from jaxstruct.core.scores import k_largest
from jaxstruct.core.semiring import Best, Levels, Ranked, Sorted
from jaxstruct.core.types import Array

FEW = 8
"""Up to so many ranks merges are written out, see `Ranked`."""


def _alignments(
    rule: Best, local: bool, given: Given, kept: States, end: tuple, score: Array
) -> Alignment:
    """The alignments [k] of ends [k, B]; PADDING where the score is -inf."""
    length = sum(given.potentials.pairs.shape[:2])
    source = recursion.by_values(rule, local, given, kept)
    operations, begin = recursion.trace_back(source, end, length)
    operations, begin = (
        jnp.swapaxes(jnp.where(score > -jnp.inf, leaf, PADDING), 0, 1)
        for leaf in (operations, begin)
    )
    return Alignment(operations, begin, score)


def _k_best(k: int, local: bool, potentials: AlignmentPotentials, lengths: Array) -> Alignment:
    rule = (Ranked if k <= FEW else Sorted)(k)
    batch, dtype = batch_size(potentials, lengths), potentials.pairs.dtype
    given = Given(potentials, lengths, rule.of(jnp.zeros(batch, dtype)))
    kept = recursion.values(rule, local, given)
    values, d, i = recursion.ends(rule, local, given, kept)
    flat = jnp.stack(values, axis=1).reshape(-1, batch)
    places = jnp.broadcast_to(jnp.arange(len(flat), dtype=jnp.int32)[:, None], flat.shape)
    score, place = k_largest(k, flat, places)
    d, i = (jnp.take_along_axis(leaf, place // k, axis=0) for leaf in (d, i))
    return _alignments(rule, local, given, kept, (d, i, place % k), score)


def _best_of_levels(
    targets: tuple, local: bool, potentials: AlignmentPotentials, lengths: Array, steps: Array,
    first: Array,
) -> Alignment:  # fmt: skip
    rule = Levels(np.array(targets))
    batch, dtype = batch_size(potentials, lengths, steps, first), potentials.pairs.dtype
    levels = jnp.broadcast_to(jnp.arange(rule.levels, dtype=jnp.int32)[:, None],
                              (rule.levels, batch))  # fmt: skip
    begin = jnp.where(levels == first[None], 0, -jnp.inf).astype(dtype)
    given = Given(potentials, lengths, begin, steps)
    kept = recursion.values(rule, local, given)
    values, d, i = recursion.ends(rule, local, given, kept)
    cell = jnp.argmax(values, axis=1)
    score = jnp.take_along_axis(values, cell[:, None], axis=1)[:, 0]
    d, i = (jnp.take_along_axis(leaf, cell, axis=0) for leaf in (d, i))
    return _alignments(rule, local, given, kept, (d, i, levels), score)


def _scores(found: Alignment, potentials: AlignmentPotentials, lengths: Array, *_: Array) -> Array:
    del lengths
    return jax.vmap(score_operations, (None, 0, 0))(potentials, found.operations, found.begin)


@functools.cache
def _ranked_of_one(k: int, local: bool) -> Callable:
    return recursion.of_one(partial(_k_best, k, local), _scores, 4 * k)


@functools.cache
def _levels_of_one(targets: tuple, local: bool) -> Callable:
    kernel = partial(_best_of_levels, targets, local)
    return recursion.of_one(kernel, _scores, 4 * len(targets[0]), 1)


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
      derivative of a score counts what its alignment uses. Memory: some 16 k (M + N) (M + 1) bytes
      a pair.

    Raises:
      ValueError: k < 1, shapes do not fit together, or a dtype is not what it should be.
    """
    return _ranked_of_one(checked_size("k", k), False)(*checked_pair(potentials, lengths))


def k_best_local(potentials: AlignmentPotentials, lengths: Array, k: int) -> Alignment:
    """The k alignments of the largest scores between any two stretches of letters.

    As `k_best_global`, the first one being that of `local_alignment`. The empty alignment, of
    score 0, is one of them, at (0, 0). Two alignments may differ in where they begin alone, and
    most of the best ones differ from the first by a letter at an end.
    """
    return _ranked_of_one(checked_size("k", k), True)(*checked_pair(potentials, lengths))


def best_of_levels(
    potentials: AlignmentPotentials, lengths: Array, levels: ErrorLevels, *, local: bool
) -> Alignment:
    """The best alignment of every number of errors.

    Args:
      potentials, lengths: as in `k_best_global`. levels: how pairs change the number.

    Returns:
      An Alignment with a leading axis [H]; -inf and PADDING where a level has none.
    """
    targets = tuple(map(tuple, levels.targets.tolist()))
    given = *checked_pair(potentials, lengths), levels.steps, levels.first
    return _levels_of_one(targets, local)(*given)
