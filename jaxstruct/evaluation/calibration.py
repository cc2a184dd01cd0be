"""Whether stated confidences are right as often as they say.

    ECE = sum_b |b| / N |accuracy(b) - confidence(b)|

over bins b of equal width of the stated confidence (Guo, Pleiss, Sun and Weinberger, "On
calibration of modern neural networks", ICML 2017). On the host, float64.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike


class Reliability(NamedTuple):
    """What was stated and what came true, by bins of the stated confidence.

    Fields:
      edges: [bins + 1] of the bins, from 0 to 1; bin b holds edges[b] < p <= edges[b + 1], the
        first one p = 0, too.
      count: [bins] predictions in each.
      confidence: [bins] their mean stated confidence. accuracy: [bins] the share that is right;
        both NaN where there is none.
    """

    edges: np.ndarray
    count: np.ndarray
    confidence: np.ndarray
    accuracy: np.ndarray


def _checked(probabilities: ArrayLike, correct: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    stated, right = np.asarray(probabilities), np.asarray(correct)
    if stated.ndim != 1 or stated.size == 0 or stated.dtype.kind != "f":
        raise ValueError(
            f"probabilities: got {stated.dtype} of shape {stated.shape}, expected floats [N], "
            "N >= 1: the probability of each prediction"
        )
    if not ((stated >= 0) & (stated <= 1 + 1e-5)).all():
        raise ValueError(
            f"probabilities: got {stated.min():g}..{stated.max():g}, expected numbers in 0..1"
        )
    if right.shape != stated.shape or right.dtype.kind != "b":
        raise ValueError(
            f"correct: got {right.dtype} of shape {right.shape}, expected booleans "
            f"[N] = [{stated.size}]: whether each prediction is right"
        )
    return np.minimum(stated.astype(np.float64), 1.0), right


def reliability(probabilities: ArrayLike, correct: ArrayLike, bins: int = 15) -> Reliability:
    """The reliability table of N predictions.

    Args:
      probabilities: [N] the confidence stated of each prediction, in 0..1.
      correct: [N] booleans, whether it is right.
      bins: of equal width, at least 1.

    Raises:
      ValueError: an argument does not fit.
    """
    stated, right = _checked(probabilities, correct)
    if isinstance(bins, bool) or not isinstance(bins, (int, np.integer)) or bins < 1:
        raise ValueError(f"bins: got {bins!r}, expected an integer of at least 1")
    edges = np.linspace(0, 1, bins + 1)
    place = np.clip(np.searchsorted(edges, stated, side="left") - 1, 0, bins - 1)
    count = np.bincount(place, minlength=bins)
    with np.errstate(invalid="ignore"):
        confidence, accuracy = (
            np.bincount(place, weights=values, minlength=bins) / count for values in (stated, right)
        )
    return Reliability(edges, count, confidence, accuracy)


def expected_calibration_error(
    probabilities: ArrayLike, correct: ArrayLike, bins: int = 15
) -> float:
    """ECE of N predictions, in 0..1; 0 where every bin is right as often as it says.

    Args:
      probabilities, correct, bins: as in `reliability`.

    Raises:
      ValueError: an argument does not fit.
    """
    table = reliability(probabilities, correct, bins)
    some = table.count > 0
    gaps = np.abs(table.accuracy[some] - table.confidence[some])
    return float(np.sum(table.count[some] * gaps) / np.sum(table.count))
