"""What is reported of predictions: accuracy, mean loss, confusions; on the host, float64.

Labels are class indices [n] without padding (drop padded positions first).

UAS and LAS say how many words of dependency trees hang where they should. Every word counts,
punctuation too, as in the CoNLL 2018 shared task of Universal Dependencies.

Calibration says whether stated confidences are right as often as they say,

    ECE = sum_b |b| / N |accuracy(b) - confidence(b)|

over bins b of equal width of the stated confidence (Guo, Pleiss, Sun and Weinberger, "On
calibration of modern neural networks", ICML 2017). On the host, float64.

McNemar's test (1947) asks whether one classifier is better than another on the same examples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike


class MeanAndDeviation(NamedTuple):
    """A mean and a sample deviation, Python floats."""

    mean: float
    deviation: float


def _integers(values: ArrayLike, name: str) -> np.ndarray:
    values = np.asarray(values)
    if values.ndim != 1 or values.size == 0 or values.dtype.kind not in "iub":
        raise ValueError(
            f"{name}: got {values.dtype} of shape {values.shape}, expected integers [n], n >= 1; "
            "labels.encode makes class indices of other labels"
        )
    return values.astype(np.int64)


def _pair(y_true: ArrayLike, y_pred: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    y_true, y_pred = _integers(y_true, "y_true"), _integers(y_pred, "y_pred")
    if y_true.shape != y_pred.shape:
        raise ValueError(
            f"y_pred: got {y_pred.size} predictions, expected {y_true.size}, one for each y_true"
        )
    return y_true, y_pred


def _classes(y_true: ArrayLike, y_pred: ArrayLike, k: int) -> tuple[np.ndarray, np.ndarray]:
    y_true, y_pred = _pair(y_true, y_pred)
    for name, y in (("y_true", y_true), ("y_pred", y_pred)):
        if y.min() < 0 or y.max() >= k:
            raise ValueError(f"{name}: got {y.min()}..{y.max()}, expected classes 0..{k - 1}")
    return y_true, y_pred


def accuracy(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """Returns the share of i with y_true[i] = y_pred[i], both integers [n] of any range."""
    y_true, y_pred = _pair(y_true, y_pred)
    return float(np.mean(y_true == y_pred))


def mean_loss(loss_matrix: ArrayLike, y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """Returns (1/n) sum_i Delta(y_true[i], y_pred[i]), the empirical risk.

    Args:
      loss_matrix: Delta [k, k], row = true class.
      y_true: classes 0..k-1, integers [n].
      y_pred: classes 0..k-1, integers [n].
    """
    delta = np.asarray(loss_matrix, np.float64)
    if delta.ndim != 2 or delta.shape[0] != delta.shape[1]:
        raise ValueError(f"loss_matrix: got shape {delta.shape}, expected Delta, [k, k]")
    y_true, y_pred = _classes(y_true, y_pred, delta.shape[0])
    return float(np.mean(delta[y_true, y_pred]))


def confusion_matrix(y_true: ArrayLike, y_pred: ArrayLike, k: int) -> np.ndarray:
    """Returns the number of examples of class i predicted as class j, [k, k] int64.

    Row = true class. Row sums are the class sizes, the trace is n times the accuracy.
    """
    y_true, y_pred = _classes(y_true, y_pred, k)
    return np.bincount(y_true * k + y_pred, minlength=k * k).reshape(k, k)


def mean_and_deviation(values: ArrayLike) -> MeanAndDeviation:
    """Returns the mean and the sample deviation sqrt(sum_i (v_i - mean)^2 / (n - 1)) of v [n].

    The deviation of one value is nan: one run says nothing of the spread.

    Raises:
      ValueError: values are not real numbers [n], n >= 1, or one is not finite.
    """
    values = np.asarray(values)
    if values.ndim != 1 or values.size == 0 or values.dtype.kind not in "fiub":
        raise ValueError(
            f"values: got {values.dtype} of shape {values.shape}, expected numbers [n], n >= 1"
        )
    values = values.astype(np.float64)
    if not np.all(np.isfinite(values)):
        wrong = int(np.flatnonzero(~np.isfinite(values))[0])
        raise ValueError(f"values[{wrong}]: got {values[wrong]}, expected a finite number")
    deviation = float(np.std(values, ddof=1)) if values.size > 1 else float("nan")
    return MeanAndDeviation(float(np.mean(values)), deviation)


class Attachment(NamedTuple):
    """Shares of the words of n trees.

    Fields:
      uas: with the right head. las: with the right head and label, None where trees have no labels.
      whole: the share of trees that are right throughout.
    """

    uas: float
    las: float | None
    whole: float


def attachment(trees: Sequence[Sequence[Any]], predicted: Sequence[Sequence[Any]]) -> Attachment:
    """The attachment scores of predicted trees.

    Args:
      trees, predicted: n trees, lists of heads or of pairs (head, label), both of one kind.

    Raises:
      ValueError: they are of different numbers, lengths or kinds, or hold no word.
    """
    if len(trees) != len(predicted):
        raise ValueError(f"predicted: got {len(predicted)} trees, expected {len(trees)}")
    words = right_heads = right = whole = 0
    kinds = set()
    for i, (true, found) in enumerate(zip(trees, predicted, strict=True)):
        if len(true) != len(found):
            raise ValueError(f"predicted[{i}] has {len(found)} words, expected {len(true)}")
        pairs = [(_head_and_label(a), _head_and_label(b)) for a, b in zip(true, found, strict=True)]
        kinds |= {len(one) for pair in pairs for one in pair}
        words += len(pairs)
        right_heads += sum(a[0] == b[0] for a, b in pairs)
        correct = sum(a == b for a, b in pairs)
        right, whole = right + correct, whole + (correct == len(pairs))
    if len(kinds) != 1:
        raise ValueError(
            "trees and predicted must hold a word, and be lists of heads or of pairs (head, label)"
        )
    las = right / words if kinds == {2} else None
    return Attachment(right_heads / words, las, whole / len(trees))


def _head_and_label(one: Any) -> tuple:
    return tuple(one) if isinstance(one, (tuple, list)) else (int(one),)


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
