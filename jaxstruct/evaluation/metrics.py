"""What is reported of predictions: accuracy, mean loss, confusions; on the host, float64.

Labels are class indices [n] without padding (drop padded positions first).

UAS and LAS say how many words of dependency trees hang where they should. Every word counts,
punctuation too, as in the CoNLL 2018 shared task of Universal Dependencies.
"""

from __future__ import annotations

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
