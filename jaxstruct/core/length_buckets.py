"""Length buckets: sequences of about equal length padded together, with the least padding.

A compiled program needs one shape. One sentence of 1,238 tokens among thousands of about 30 would
pad all of them to 1,238. A few buckets, each with a shape of its own, waste little. But each is
compiled, too: on small data one bucket is soonest done (704 words of OCR letters, one core, first
training: 15 s for 31 s with three buckets).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

Integers: TypeAlias = Sequence[int] | np.ndarray


class LengthBucket(NamedTuple):
    """The sequences `index` [n_b] int64, rising, all padded to `length` positions."""

    index: np.ndarray
    length: int


PRICE = 75_000
"""Padded positions that a further bucket must save. A position padded costs about 1 us a pass, some
75 passes as many us as a bucket is compiled for (6 s): of 1,000 sentences a second bucket saved
120,000 positions, 14 s of running, and compiled for 8 s."""


def bucket_lengths(lengths: Integers, most: int = 6, price: int = PRICE) -> np.ndarray:
    """Returns the padded lengths of at most `most` buckets, as few as pay.

    Minimises price k + sum_i min {b in boundaries: b >= l_i} over k = 1..most boundaries exactly,
    by dynamic programming over the distinct lengths: cost[k, j] = min_{i < j} cost[k - 1, i] +
    b_j #{sequences between}.

    Args:
      lengths: [n] lengths l_i >= 0, n at least 1. A sequence of length 0 is padded to 1.
      most: at least 1. Fewer come back only where there are fewer distinct padded lengths.
      price: positions that a further bucket must save, at least 0; 0 for the least padding.

    Returns:
      [k] int64, rising. The last is the longest length. Ties go to the choice whose last buckets
      start lowest.

    Raises:
      ValueError: an argument is out of range.
    """
    lengths = _lengths(lengths)
    for name, value, least in (("most", most, 1), ("price", price, 0)):
        if value < least:
            raise ValueError(f"{name}: got {value}, expected at least {least}")
    if not lengths.size:
        raise ValueError("lengths: got none, expected at least one sequence")
    sizes, counts = np.unique(np.maximum(lengths, 1), return_counts=True)
    return sizes[_ends(sizes, counts, min(most, len(sizes)), price)]


def _ends(sizes: np.ndarray, counts: np.ndarray, most: int, price: int) -> list[int]:
    """The positions in `sizes` at which at most `most` buckets end, with the least total."""
    below = np.concatenate([[0], np.cumsum(counts)])  # sequences among the first j sizes
    number = len(sizes)
    barred = np.iinfo(np.int64).max // 2
    cost = np.full(number + 1, barred)
    cost[0] = 0
    starts = np.zeros((most, number + 1), dtype=np.int64)
    wholes = []
    for bucket in range(most):
        updated = np.full(number + 1, barred)
        for j in range(1, number + 1):
            totals = cost[:j] + sizes[j - 1] * (below[j] - below[:j])
            starts[bucket, j] = np.argmin(totals)
            updated[j] = min(totals[starts[bucket, j]], barred)
        cost = updated
        wholes.append(cost[number] + price * (bucket + 1))
    buckets = int(np.argmin(wholes)) + 1
    ends, j = [], number
    for bucket in reversed(range(buckets)):
        ends.append(j - 1)
        j = starts[bucket, j]
    return ends[::-1]


def assign_buckets(
    lengths: Integers, boundaries: Integers, empty: bool = False
) -> tuple[LengthBucket, ...]:
    """Puts each sequence into the bucket of the lowest boundary that holds it.

    Args:
      lengths: [n] lengths.
      boundaries: [k], rising, as `bucket_lengths` gives them (of a training set, say).
      empty: whether those that hold no sequence are there, too.

    Returns:
      The buckets that hold at least one sequence, or all k; their indices together are 0 .. n-1.

    Raises:
      ValueError: boundaries do not rise, or a sequence is longer than the last one: nothing is
        cut in silence.
    """
    lengths, boundaries = _lengths(lengths), _lengths(boundaries, "boundaries")
    if not boundaries.size or boundaries[0] < 1 or (np.diff(boundaries) < 1).any():
        raise ValueError(f"boundaries: got {boundaries.tolist()}, expected rising, from 1")
    bucket = np.searchsorted(boundaries, lengths)
    if lengths.size and lengths.max() > boundaries[-1]:
        raise ValueError(
            f"lengths[{lengths.argmax()}]: got {lengths.max()}, but the last bucket holds "
            f"{boundaries[-1]}; choose boundaries that cover these lengths too"
        )
    found = [
        LengthBucket(np.flatnonzero(bucket == number), int(length))
        for number, length in enumerate(boundaries)
    ]
    return tuple(one for one in found if empty or one.index.size)


def _lengths(lengths: Integers, name: str = "lengths") -> np.ndarray:
    lengths = np.asarray(lengths)
    if lengths.ndim != 1 or (lengths.size and lengths.dtype.kind not in "iu"):
        raise ValueError(
            f"{name}: got {lengths.dtype} of shape {lengths.shape}, expected integers of one axis"
        )
    if lengths.size and lengths.min() < 0:
        raise ValueError(f"{name}[{lengths.argmin()}]: got {lengths.min()}, expected at least 0")
    return lengths.astype(np.int64)
