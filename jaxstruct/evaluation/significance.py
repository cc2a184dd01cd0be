"""Is one classifier better than another on the same examples? McNemar's test (1947)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

EXACT_BELOW = 25
"""With fewer discordant examples than this the exact test is the default."""


class McNemarResult(NamedTuple):
    """The outcome of McNemar's test.

    Fields:
      only_a: examples that a has right and b wrong.
      only_b: examples that b has right and a wrong.
      statistic: min(only_a, only_b) of the exact test, else the corrected chi-square.
      p_value: two-sided, of the hypothesis that both differences are equally likely.
      exact: which test it was.
    """

    only_a: int
    only_b: int
    statistic: float
    p_value: float
    exact: bool


def _as_correct(values: ArrayLike, name: str) -> np.ndarray:
    values = np.asarray(values)
    if values.ndim != 1 or values.size == 0 or values.dtype.kind != "b":
        raise ValueError(
            f"{name}: got {values.dtype} of shape {values.shape}, expected bool [n], n >= 1: "
            "y_pred == y_true"
        )
    return values


def _two_sided_binomial(successes: int, trials: int) -> float:
    """2 P(X <= successes), at most 1, for X ~ Binomial(trials, 1/2), in exact integers."""
    term, total = 1, 1
    for i in range(successes):
        term = term * (trials - i) // (i + 1)
        total += term
    return min(1.0, 2 * total / 2**trials)


def mcnemar(correct_a: ArrayLike, correct_b: ArrayLike, exact: bool | None = None) -> McNemarResult:
    """Tests whether classifiers a and b err equally often on n shared examples.

    With b = only_a and c = only_b, under the hypothesis b ~ Binomial(b + c, 1/2). The exact
    p-value is 2 P(X <= min(b, c)), at most 1; for many discordant examples
    (|b - c| - 1)^2 / (b + c), with the continuity correction, is chi-square with one degree of
    freedom, whose tail beyond t is erfc(sqrt(t / 2)). No discordant example: p = 1.

    Args:
      correct_a: bool [n], whether a is right on example i.
      correct_b: bool [n], the same examples in the same order.
      exact: which test; None for the exact one with fewer than 25 discordant examples.

    Raises:
      ValueError: the arrays are not bool, or differ in length.
    """
    correct_a = _as_correct(correct_a, "correct_a")
    correct_b = _as_correct(correct_b, "correct_b")
    if correct_a.shape != correct_b.shape:
        raise ValueError(
            f"correct_b: got {correct_b.size} examples, expected {correct_a.size} as in correct_a"
        )
    only_a = int(np.sum(correct_a & ~correct_b))
    only_b = int(np.sum(correct_b & ~correct_a))
    discordant = only_a + only_b
    exact = discordant < EXACT_BELOW if exact is None else bool(exact)
    if exact:
        fewer = min(only_a, only_b)
        return McNemarResult(
            only_a, only_b, float(fewer), _two_sided_binomial(fewer, discordant), True
        )
    excess = max(abs(only_a - only_b) - 1, 0)
    statistic = excess**2 / discordant if discordant else 0.0
    return McNemarResult(only_a, only_b, statistic, math.erfc(math.sqrt(statistic / 2)), False)
