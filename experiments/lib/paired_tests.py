"""Two machines on the same examples: is the difference of their F1 more than chance?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

SWAPS = 10_000


class Difference(NamedTuple):
    """F1 of a less that of b, in points, and how often one by chance is as large (two-sided)."""

    points: float
    p_value: float


def f1_difference(a: np.ndarray, b: np.ndarray, seed: int) -> Difference:
    """Swap the answers to each example at random, `SWAPS` times, the given one among them.

    Args:
      a, b: [n, 2] of each example what is right, and what is right or predicted: F1 of all
        examples together is 2 sum of the first / sum of the second.
      seed: of the swaps.
    """
    from scipy.stats import permutation_test

    counts = np.concatenate([a, b])
    places = np.arange(len(counts)).reshape(2, -1)

    def difference(of_a: np.ndarray, of_b: np.ndarray, axis: int = -1) -> np.ndarray:
        matched, total = (
            np.stack([column[of_a].sum(axis), column[of_b].sum(axis)]) for column in counts.T
        )
        f1 = 200 * matched / np.maximum(total, 1)
        return f1[0] - f1[1]

    test = permutation_test(
        tuple(places), difference, permutation_type="samples", n_resamples=SWAPS - 1, batch=500,
        rng=np.random.default_rng(seed),
    )  # fmt: skip
    return Difference(float(test.statistic), float(test.pvalue))
