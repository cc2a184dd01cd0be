"""Nearest neighbours for outputs of any kind, inputs and outputs seen through kernels.

Source: Weston, Chapelle, Elisseeff, Schoelkopf, Vapnik, Kernel Dependency Estimation, NIPS 15,
2003, section 5.1; thesis 4.6.4 and table 4.5. NumPy in float64 on the host.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from experiments.machines.cross_validation import (
    Choice,
    checked_finite,
    checked_rows,
    checked_square,
    choose_setting,
)
from jaxstruct.core.checks import as_list, as_numbers, checked_size


def nearest_outputs(
    kernel: np.ndarray, own: np.ndarray, output_gram: np.ndarray, neighbours: int
) -> np.ndarray:
    """Returns for each of m inputs which training output to predict, [m] of 0 .. n - 1.

    The neighbours of x are the k training inputs of least K(x_i, x_i) - 2 K(x, x_i). With k = 1
    the neighbour's output is predicted. With k > 1 it is the training output that is closest, in
    the feature space of L, to the mean of the neighbours' outputs: the pre-image
    argmin_j L(y_j, y_j) - (2 / k) sum_{i in N} L(y_i, y_j). Ties go to the lowest index.

    Args:
      kernel: [m, n] K(x, x_i) with the training inputs.
      own: [n] K(x_i, x_i) of the training inputs.
      output_gram: [n, n] L(y_i, y_j) of the training outputs.
      neighbours: k, 1 .. n.

    Raises:
      ValueError: a shape or a value does not fit.
    """
    output_gram = checked_square("output_gram", output_gram)
    n = len(output_gram)
    kernel = checked_rows("kernel", kernel, n)
    own = checked_finite("own", as_numbers("own", own, f"[{n}] numbers"))
    if own.shape != (n,):
        raise ValueError(f"own must be [{n}], K(x_i, x_i) a training input, got {own.shape}")
    neighbours = checked_size("neighbours", neighbours, 1, n)
    order = np.argsort(own - 2 * kernel, axis=1, kind="stable")[:, :neighbours]
    if neighbours == 1:
        return order[:, 0]
    mean = output_gram[order].mean(axis=1)
    return np.argmin(np.diag(output_gram) - 2 * mean, axis=1)


def choose_neighbours(
    gram: np.ndarray,
    output_gram: np.ndarray,
    loss: np.ndarray,
    neighbours: Sequence[int],
    *,
    folds: int = 5,
    seed: int = 0,
) -> Choice:
    """Returns the number of neighbours of least held-out loss, by cross-validation.

    Args:
      gram: [n, n] K of the training inputs. output_gram: [n, n] L of their outputs.
      loss: [n, n] Delta(y_i, y_j). neighbours: the numbers to choose from.
      folds: of the cross-validation. seed: of the order that it deals the examples in.

    Raises:
      ValueError: a shape does not fit, or a number of neighbours exceeds what a fold trains on.
    """
    gram = checked_square("gram", gram)
    output_gram = checked_square("output_gram", output_gram, len(gram))
    checked_square("loss", loss, len(gram))
    own = np.diag(gram)

    def predict(k: int, train: np.ndarray, held: np.ndarray) -> np.ndarray:
        pairs = np.ix_(train, train)
        return nearest_outputs(gram[np.ix_(held, train)], own[train], output_gram[pairs], k)

    sizes = as_list("neighbours", neighbours, "a sequence of integers")
    return choose_setting(sizes, predict, loss, folds=folds, seed=seed)
