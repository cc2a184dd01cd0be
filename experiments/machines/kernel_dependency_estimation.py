"""Kernel dependency estimation: kernel PCA on the outputs, then a regression a component.

Source: Weston, Chapelle, Elisseeff, Schoelkopf, Vapnik, Kernel Dependency Estimation, NIPS 15,
2003; thesis 4.6.4, 4.6.5 and table 4.5. NumPy in float64 on the host; O(n^3).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from experiments.machines.cross_validation import Choice, choose_setting

SMALLEST = 1e-10
"""Components whose part of the largest variance is less are rounding."""


class KernelDependency(NamedTuple):
    """A trained machine.

    Fields:
      coefficients: [n, p] alpha, component r of the prediction is sum_i alpha_ir K(x, x_i).
      targets: [n, p] the training outputs by their principal components.
    """

    coefficients: np.ndarray
    targets: np.ndarray


def principal_components(output_gram: np.ndarray, components: int | None = None) -> np.ndarray:
    """Returns [n, p] the outputs' coordinates on their principal axes in L's feature space.

    L is centred, H L H with H = I - 11' / n, and written as V diag(lambda) V': the coordinates are
    V sqrt(lambda), the largest lambda first. Those below 1e-10 of the largest are left out.

    Args:
      output_gram: [n, n] L of the training outputs.
      components: p at most; None: all, so that no distance between outputs is lost.
    """
    gram = np.asarray(output_gram, np.float64)
    centred = gram - gram.mean(axis=0) - gram.mean(axis=1)[:, None] + gram.mean()
    values, vectors = np.linalg.eigh((centred + centred.T) / 2)
    values, vectors = values[::-1], vectors[:, ::-1]
    kept = np.flatnonzero(values > SMALLEST * max(values[0], 0.0))[:components]
    return vectors[:, kept] * np.sqrt(values[kept])


def fit_kernel_dependency(
    gram: np.ndarray, output_gram: np.ndarray, ridge: float, components: int | None = None
) -> KernelDependency:
    """Fits min_alpha sum_i ||t_i - sum_j alpha_j K(x_i, x_j)||^2 + ridge alpha' K alpha.

    t_i are the `principal_components` of output y_i, one ridge regression for each:
    alpha = (K + ridge I)^-1 t.

    Args:
      gram: [n, n] K of the training inputs. output_gram: [n, n] L of their outputs.
      ridge: > 0. components: as in `principal_components`.
    """
    targets = principal_components(output_gram, components)
    system = np.asarray(gram, np.float64) + ridge * np.eye(len(gram))
    return KernelDependency(np.linalg.solve(system, targets), targets)


def predict_kernel_dependency(machine: KernelDependency, kernel: np.ndarray) -> np.ndarray:
    """Returns for each of m inputs which training output to predict, [m] of 0 .. n - 1.

    The pre-image is the training output closest to the prediction in the space of the principal
    components; ties go to the lowest index.

    Args:
      machine: of n training examples. kernel: [m, n] K(x, x_i) with the training inputs.
    """
    targets = machine.targets
    found = kernel @ machine.coefficients
    return np.argmin(np.sum(targets**2, axis=1) - 2 * found @ targets.T, axis=1)


def choose_kernel_dependency(
    grams: Sequence[np.ndarray],
    output_gram: np.ndarray,
    loss: np.ndarray,
    ridges: Sequence[float],
    *,
    folds: int = 5,
    seed: int = 0,
) -> Choice:
    """Returns the (number of the input kernel, ridge) of least held-out loss.

    Args:
      grams: [g, n, n] K of the training inputs, one for each width of a Gaussian for instance.
      output_gram: [n, n] L of their outputs. loss: [n, n] Delta(y_i, y_j).
      ridges: numbers > 0 to choose from. folds: of the cross-validation.
      seed: of the order that it deals the examples in.
    """

    def predict(setting: tuple[int, float], train: np.ndarray, held: np.ndarray) -> np.ndarray:
        number, ridge = setting
        gram = grams[number]
        pairs = np.ix_(train, train)
        machine = fit_kernel_dependency(gram[pairs], output_gram[pairs], ridge)
        return predict_kernel_dependency(machine, gram[np.ix_(held, train)])

    settings = list(itertools.product(range(len(grams)), ridges))
    return choose_setting(settings, predict, loss, folds=folds, seed=seed)
