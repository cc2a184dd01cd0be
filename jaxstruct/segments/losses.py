"""Losses of segmentations.

    hamming             Delta = number of tokens with a wrong code (label, or begin for inside)
    normalised_hamming  Delta = number of tokens with a wrong code / length
    zero_one            Delta = 1 for any other segmentation
    f1                  Delta = 1 - 2 p / (g + m), with g true and m predicted segments, p of these
                        right in begin, end and label; 0 where there are none of both

Segments of the outside label do not count in f1. Levels are what the dynamic programs carry: wrong
tokens, or pairs (m, p). Of sequences of more than N = `most_segments` positions all m >= N are one
level for each p, of the loss at m = T, which is at least that of each of them: such a level bounds
the maximum, and no output is taken from it.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from jaxstruct.core.contract import Truth, output_of
from jaxstruct.core.loss_functions import sum_of_costs
from jaxstruct.core.types import Array, static
from jaxstruct.segments.potentials import over_segments, read_codes

NAMES = ("hamming", "normalised_hamming", "zero_one", "f1")


@static
class SegmentLoss:
    """A loss by its name.

    Fields:
      name: of `NAMES`. outside: the label whose segments do not count, or None.
      most_segments: N. dtype: of Delta.
    """

    name: str
    outside: int | None
    most_segments: int
    dtype: str

    @property
    def additive(self) -> bool:
        """Whether Delta adds up over tokens."""
        return self.name.endswith("hamming")

    def check_additive(self) -> None:
        """Raise ValueError where no token has a share of its own in the loss."""
        if not self.additive:
            raise ValueError(
                f'the loss {self.name!r} does not add up over tokens: take loss="hamming" or '
                '"normalised_hamming"'
            )


def counted(loss: SegmentLoss, y: Array) -> Array:
    """[T] bool, True at the first token of each segment that counts."""
    codes = read_codes(y)
    return codes.begins if loss.outside is None else codes.begins & (codes.label != loss.outside)


def matched(loss: SegmentLoss, y_true: Array, y: Array) -> Array:
    """How many of the segments of y that count are true ones."""
    true, own = read_codes(y_true), read_codes(y)
    same = counted(loss, y_true) & (y_true == y)
    begin = jnp.arange(y.shape[0]) - own.place  # of the segment that a token ends
    both = own.ends & true.ends & (true.place == own.place)
    return jnp.sum(both & same[begin])


def f1_loss(true: Array, predicted: Array, right: Array) -> Array:
    """1 - 2 p / (g + m), 0 where g + m is 0."""
    total = true + predicted
    return jnp.where(total > 0, 1 - 2 * right / jnp.maximum(total, 1), 0)


def delta(loss: SegmentLoss, y_true: Array | Truth, y: Array) -> Array:
    """Delta(y_true, y) of codes [T] with -1 on padding."""
    if isinstance(y_true, Truth):
        costs = code_costs(loss, y_true, y_true.numbers.shape[1] // 2)
        return sum_of_costs(costs.reshape(len(y), -1), y)
    real = y_true >= 0
    wrong = jnp.sum(real & (y != y_true))
    if loss.name == "f1":
        sizes = jnp.sum(counted(loss, y_true)), jnp.sum(counted(loss, y))
        found = f1_loss(*sizes, matched(loss, y_true, y))
    else:
        found = wrong / _scale(loss, y_true) if loss.additive else jnp.minimum(wrong, 1)
    return jnp.asarray(found, loss.dtype)


def _scale(loss: SegmentLoss, y_true: Array) -> Array | int:
    by_length = loss.name == "normalised_hamming"
    return jnp.maximum(jnp.sum(y_true >= 0), 1) if by_length else 1


def right_codes(y_true: Array | Truth, labels: int) -> Array:
    """[T, 2 S] bool: the true code of each token, or those that it may be."""
    if isinstance(y_true, Truth):
        return y_true.numbers
    return y_true[:, None] == jnp.arange(2 * labels)[None]


def code_costs(loss: SegmentLoss, y_true: Array | Truth, labels: int) -> Array:
    """[T, S, 2] what the codes 2 s and 2 s + 1 cost at each token, 0 on padding; additive."""
    y = output_of(y_true)
    wrong = (y >= 0)[:, None] & ~right_codes(y_true, labels)
    costs = jnp.where(wrong, 1 / _scale(loss, y), 0)
    return costs.reshape(-1, labels, 2).astype(loss.dtype)


def wrong_tokens(right: Array, lengths: int) -> Array:
    """[T, L, S] int32 how many tokens of each segment have a code that is not right [T, 2 S]."""
    wrong = (~right).astype(jnp.int32)
    inside, first = jnp.moveaxis(wrong.reshape(len(right), -1, 2), 2, 0)
    return jnp.cumsum(over_segments(inside, lengths), axis=1) + (first - inside)[:, None]


def pair_steps(loss: SegmentLoss, y_true: Array, lengths: int, labels: int) -> Array:
    """[T, L, S] int32: 2 for a true segment, 1 for any other that counts, 0 for outside."""
    ends = over_segments(read_codes(y_true).ends, lengths)
    right = (wrong_tokens(right_codes(y_true, labels), lengths) == 0) & ends[..., None]
    steps = 1 + right.astype(jnp.int32)
    return steps if loss.outside is None else steps.at[..., loss.outside].set(0)


def pairs(most: int) -> np.ndarray:
    """[H, 2] the pairs (m, p) of m <= N predicted segments, p <= m of them right."""
    return np.array([(m, p) for m in range(most + 1) for p in range(m + 1)])


def pair_targets(most: int) -> np.ndarray:
    """[3, H] the pair after each step of `pair_steps`; N stands for N and more."""
    every = pairs(most)
    place = {tuple(pair): h for h, pair in enumerate(every.tolist())}
    moves = [(0, 0), (1, 0), (1, 1)]
    return np.array([
        [place[min(m + dm, most), min(p + dp, most)] for m, p in every.tolist()]
        for dm, dp in moves
    ])  # fmt: skip


def bounding_pairs(most: int, tokens: int) -> np.ndarray:
    """[H] bool, True of the pairs of f1 that only bound, none where all m have their own."""
    return (pairs(most)[:, 0] == most) & (most < tokens)


def level_losses(loss: SegmentLoss, y_true: Array) -> Array:
    """[H] Delta of each level."""
    T = y_true.shape[0]
    if loss.name == "f1":
        kept = min(loss.most_segments, T)
        m, p = pairs(kept).T
        m = np.where(bounding_pairs(kept, T), T, m)
        found = f1_loss(jnp.sum(counted(loss, y_true)), jnp.asarray(m), jnp.asarray(p))
        return jnp.maximum(jnp.asarray(found, loss.dtype), 0)  # p > g is no level
    levels = jnp.arange(T + 1 if loss.additive else 2)
    return jnp.asarray(levels / _scale(loss, y_true), loss.dtype)
