"""What lengths are padded to: size classes, and the buckets of a data set.

Lengths are rounded up to size classes, so that other data of one class share programs.

A compiled program needs one shape. One sentence of 1,238 tokens among thousands of about 30 would
pad all of them to 1,238. A few buckets, each with a shape of its own, waste little. But each is
compiled, too: on small data one bucket is soonest done (704 words of OCR letters, one core, first
training: 15 s for 31 s with three buckets).
"""

from __future__ import annotations

import numpy as np

PRICE = 75_000
"""Padded positions that a further bucket must save. A position padded costs about 1 us a pass, some
75 passes as many us as a bucket is compiled for (6 s): of 1,000 sentences a second bucket saved
120,000 positions, 14 s of running, and compiled for 8 s."""


def size_class(n: int, least: int = 8) -> int:
    """The smallest of 2^k and 3 * 2^k, k = 0, 1, .., that is at least `n` and at least `least`.

    8, 12, 16, 24, 32, 48, ..: a class is at most 1.5 times the one before.

    Args:
      n: a length or a count. least: the smallest class that is wanted, at least 1.
    """
    power = 1 << (max(n, least, 1) - 1).bit_length()
    between = 3 * power // 4
    return between if power >= 4 and max(n, least) <= between else power


FEW_ROWS = 64
"""Batches of fewer rows come in powers of four: each size is a program to compile. Eight chains of
30 tokens take as long as one, 1 ms."""


def batch_rows(n: int, batch: int) -> int:
    """Rows that n inputs are decoded in at a time: 4, 16, 64, 128, 256, .., `batch` at most."""
    bits = max((n - 1).bit_length(), 2)
    few = n <= FEW_ROWS
    return min(batch, 1 << (bits + bits % 2 if few else bits))


def text_of_bytes(size: int) -> str:
    """In MB, or in GB from 1 on."""
    return f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"


def bucket_lengths(lengths: np.ndarray, most: int = 6, price: int = PRICE) -> np.ndarray:
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
    """
    sizes, counts = np.unique(np.maximum(np.asarray(lengths, np.int64), 1), return_counts=True)
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
