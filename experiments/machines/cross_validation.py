"""A setting chosen by cross-validation inside a training set, for the baselines of table 4.5."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxstruct.core.checks import checked_size


class Choice(NamedTuple):
    """What cross-validation found.

    Fields:
      setting: the one of least held-out loss, of equal ones the first.
      losses: [s] the mean held-out loss of each setting.
    """

    setting: Any
    losses: np.ndarray


def fold_numbers(n: int, folds: int, seed: int = 0) -> np.ndarray:
    """Returns [n] the fold of each example, sizes that differ by one at most, in a drawn order.

    Raises:
      ValueError: not 2 <= folds <= n.
    """
    n = checked_size("n", n, 2)
    folds = checked_size("folds", folds, 2, n)
    return np.random.default_rng(seed).permutation(np.arange(n) % folds)


def choose_setting(
    settings: Sequence[Any],
    predict: Callable[[Any, np.ndarray, np.ndarray], np.ndarray],
    loss: np.ndarray,
    *,
    folds: int = 5,
    seed: int = 0,
) -> Choice:
    """Returns the setting with the least mean loss on the folds held out in turn.

    Args:
      settings: what to choose from, at least one.
      predict: (setting, train [t], held [h]) -> [h] which of the training examples' outputs each
        held-out example gets, 0 .. t - 1.
      loss: [n, n] Delta(y_i, y_j).
      folds, seed: as in `fold_numbers`.

    Raises:
      ValueError: folds do not fit.
    """
    numbers = fold_numbers(len(loss), folds, seed)
    totals = np.zeros(len(settings))
    for fold in range(folds):
        train, held = np.flatnonzero(numbers != fold), np.flatnonzero(numbers == fold)
        for s, setting in enumerate(settings):
            totals[s] += loss[held, train[predict(setting, train, held)]].sum()
    return Choice(settings[int(np.argmin(totals))], totals / len(loss))
