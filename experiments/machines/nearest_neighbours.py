"""Nearest neighbours for outputs of any kind, inputs and outputs seen through kernels.

Source: Weston, Chapelle, Elisseeff, Schoelkopf, Vapnik, Kernel Dependency Estimation, NIPS 15,
2003, section 5.1; thesis 4.6.4 and table 4.5. NumPy in float64 on the host.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from experiments.machines.cross_validation import Choice, choose_setting


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
    """
    order = np.argsort(own - 2.0 * kernel, axis=1, kind="stable")[:, :neighbours]
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
    """
    own = np.diag(gram)

    def predict(k: int, train: np.ndarray, held: np.ndarray) -> np.ndarray:
        pairs = np.ix_(train, train)
        return nearest_outputs(gram[np.ix_(held, train)], own[train], output_gram[pairs], k)

    return choose_setting(neighbours, predict, loss, folds=folds, seed=seed)
