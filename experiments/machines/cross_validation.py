"""A setting chosen by cross-validation inside a training set, for the baselines of table 4.5."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxstruct.core.checks import as_list, as_numbers, checked_size
from jaxstruct.kernels import check_positive_semidefinite


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
      settings: what to choose from.
      predict: (setting, train [t], held [h]) -> [h] which of the training examples' outputs each
        held-out example gets, 0 .. t - 1.
      loss: [n, n] Delta(y_i, y_j).
      folds, seed: as in `fold_numbers`.

    Raises:
      ValueError: no settings, loss is no square matrix, or folds do not fit.
    """
    settings = as_list("settings", settings, "a non-empty sequence of settings")
    if not settings:
        raise ValueError("settings must be a non-empty sequence of settings, got none")
    loss = checked_square("loss", loss)
    numbers = fold_numbers(len(loss), folds, seed)
    totals = np.zeros(len(settings))
    for fold in range(folds):
        train, held = np.flatnonzero(numbers != fold), np.flatnonzero(numbers == fold)
        for s, setting in enumerate(settings):
            totals[s] += loss[held, train[predict(setting, train, held)]].sum()
    return Choice(settings[int(np.argmin(totals))], totals / len(loss))


def checked_square(name: str, matrix: np.ndarray, n: int | None = None) -> np.ndarray:
    """Returns a matrix [n, n] as float64.

    Raises:
      ValueError: another shape, or entries that are no finite numbers.
    """
    size = "n" if n is None else n
    matrix = as_numbers(name, matrix, f"[{size}, {size}] numbers")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or (n not in (None, len(matrix))):
        raise ValueError(f"{name} must be [{size}, {size}] numbers, got shape {matrix.shape}")
    return checked_finite(name, matrix)


def checked_gram(name: str, matrix: np.ndarray, n: int | None = None) -> np.ndarray:
    """Returns the matrix [n, n] of a kernel as float64; its dtype says how far it is rounded.

    Raises:
      ValueError: another shape, entries that are no finite numbers, or no matrix of a kernel.
    """
    gram = checked_square(name, matrix, n)
    check_positive_semidefinite(matrix, name)
    return gram


def checked_rows(name: str, matrix: np.ndarray, n: int) -> np.ndarray:
    """Returns a matrix [m, n], a row for each input to predict, as float64.

    Raises:
      ValueError: another shape, or entries that are no finite numbers.
    """
    matrix = as_numbers(name, matrix, f"[m, {n}] numbers")
    if matrix.ndim != 2 or matrix.shape[1] != n:
        raise ValueError(
            f"{name} must be [m, {n}], a row of kernel values with the training inputs for each "
            f"input, got shape {matrix.shape}"
        )
    return checked_finite(name, matrix)


def checked_finite(name: str, matrix: np.ndarray) -> np.ndarray:
    """Returns the matrix, refused where an entry is nan or infinite."""
    if not np.isfinite(matrix).all():
        raise ValueError(f"{name} must be finite, got nan or infinite entries")
    return matrix
