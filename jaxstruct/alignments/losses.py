"""Losses of an alignment against the true one, additive over the pairs that it makes.

    positions             Delta = letters of both sequences whose partner, a letter or none, differs
    pairs                 Delta = true pairs that are missing
    normalised_positions  Delta = positions / letters that the true alignment covers
    normalised_pairs      Delta = pairs / true pairs = 1 - Q    (Q: the share of true pairs found)

With t the true partner, e = 1 for a letter that has one and 0 otherwise, and sums over i and j over
the letters of the first and the second sequence, positions are

    Delta = sum_i e_i + sum_j e_j + sum over pairs (i, j) made of
                                         ([t(i) != j] - e_i + [t(j) != i] - e_j)

since a letter that is not paired costs e and one that is costs [t != its partner]; the missing
pairs are the number of true ones less those made. So F + lambda Delta is, up to a constant, the F
of one alignment with other pair scores, be it local or global: letters left out are not paired.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxstruct.alignments.potentials import PADDING, PAIR, steps_of
from jaxstruct.core.checks import check_choice
from jaxstruct.core.types import AnyArray, Array, static

NAMES = ("positions", "pairs", "normalised_positions", "normalised_pairs")


@static
class AlignmentLoss:
    """One of the losses of the module: its name, and the dtype of Delta."""

    name: str
    dtype: str

    @property
    def of_pairs(self) -> bool:
        """Whether true pairs are counted, not letters."""
        return self.name.endswith("pairs")


class AlignmentOutput(NamedTuple):
    """An alignment of two sequences of at most M and N letters.

    Fields:
      operations: [M + N] int32 of PAIR, DELETE, INSERT, then PADDING (-1).
      begin: [2] int32, letters of both sequences left out before it; 0 of a global one.
    """

    operations: AnyArray
    begin: AnyArray


def alignment_loss(name: str, dtype: str) -> AlignmentLoss:
    """The loss of a name.

    Raises:
      ValueError: an unknown name.
    """
    check_choice("loss", name, NAMES)
    return AlignmentLoss(name, dtype)


def partners(y: AlignmentOutput) -> tuple[Array, Array]:
    """([L], [L]) int32 the partner of each letter of both sequences, -1 where it has none.

    L = M + N holds either sequence; places behind its letters have none.
    """
    steps, L = steps_of(y.operations, y.begin), y.operations.shape[0]
    i, j = (jnp.where(steps.paired, end, L) for end in (steps.i, steps.j))
    none = jnp.full(L, -1, jnp.int32)
    return none.at[i].set(j, mode="drop"), none.at[j].set(i, mode="drop")


def _greatest(loss: AlignmentLoss, y_true: AlignmentOutput) -> Array:
    """What a normalised loss is divided by, at least 1."""
    operations = y_true.operations
    pairs = jnp.sum(operations == PAIR)
    if loss.of_pairs:
        return jnp.maximum(pairs, 1)
    return jnp.maximum(jnp.sum(operations != PADDING) + pairs, 1)


def _shared_out(loss: AlignmentLoss, y_true: AlignmentOutput, count: Array) -> Array:
    count = count.astype(loss.dtype)
    if loss.name.startswith("normalised"):
        return count / _greatest(loss, y_true).astype(loss.dtype)
    return count


def delta(loss: AlignmentLoss, y_true: AlignmentOutput, y: AlignmentOutput) -> Array:
    """Delta(y_true, y) of alignments of one pair of sequences, a scalar."""
    (first, second), (made_first, made_second) = partners(y_true), partners(y)
    if loss.of_pairs:
        count = jnp.sum((first >= 0) & (made_first != first))
    else:
        count = jnp.sum(made_first != first) + jnp.sum(made_second != second)
    return _shared_out(loss, y_true, count)


def _changes(loss: AlignmentLoss, y_true: AlignmentOutput, M: int, N: int) -> Array:
    """[M, N] int32 what each pair adds to the errors of the alignment that pairs nothing."""
    first, second = partners(y_true)
    first, second = first[:M, None], second[None, :N]
    right = (first == jnp.arange(N, dtype=jnp.int32)[None, :]).astype(jnp.int32)
    if loss.of_pairs:
        return -right
    return 2 - 2 * right - (first >= 0) - (second >= 0)


def pair_costs(loss: AlignmentLoss, y_true: AlignmentOutput, M: int, N: int) -> Array:
    """[M, N] what each pair adds to the Delta of the alignment that pairs nothing."""
    return _shared_out(loss, y_true, _changes(loss, y_true, M, N))


class ErrorLevels(NamedTuple):
    """Delta as a number of errors 0..H - 1, which pairs change.

    Fields:
      steps: [M, N] int32, the row of `targets` of each pair. first: int32, errors where nothing is
        paired. losses: [H] Delta of each number of errors.
      targets: [5, H] errors after so many and a pair that adds 0, 1, 2, -2 or -1; H where none.
    """

    steps: Array
    first: Array
    losses: Array
    targets: np.ndarray


def error_levels(loss: AlignmentLoss, y_true: AlignmentOutput, M: int, N: int) -> ErrorLevels:
    """The levels of a loss against the true alignment of sequences of at most M and N letters."""
    H = 1 + (min(M, N) if loss.of_pairs else M + N)
    targets = np.arange(H)[None] + np.array([0, 1, 2, -2, -1])[:, None]
    targets[(targets < 0) | (targets > H)] = H
    pairs = jnp.sum(y_true.operations == PAIR, dtype=jnp.int32)
    losses = _shared_out(loss, y_true, jnp.arange(H))
    steps = _changes(loss, y_true, M, N) % 5
    return ErrorLevels(steps, pairs if loss.of_pairs else 2 * pairs, losses, targets)
