"""Baselines of table 4.5: nearest neighbours, kernel dependency estimation, cokriging.

Settings are chosen by cross-validation inside a training set. The least of the baselines is the
output that occurs most often in training, whatever the input. Nearest neighbours see inputs and
outputs of any kind through kernels (Weston et al., section 5.1; thesis 4.6.4).

Kernel dependency estimation is kernel PCA on the outputs, then a regression a component. Source:
Weston, Chapelle, Elisseeff, Schoelkopf, Vapnik, Kernel Dependency Estimation, NIPS 15, 2003;
thesis 4.6.4, 4.6.5 and table 4.5. NumPy in float64 on the host; O(n^3).

Cokriging is a Gaussian process of several outputs with a separable covariance. The outputs'
principal components t_r are f_r(x) + noise (intrinsic coregionalisation),

    cov(f_r(x), f_s(x')) = [r = s] b_r K(x, x'),    noise of variance b_r ratio_r in component r.

With the principal axes v_r this is, in the space of outputs, the covariance B K(x, x') with B =
sum_r b_r v_r v_r', and noise of the covariance sum_r b_r ratio_r v_r v_r'. Where all ratios are
alike the noise has the covariance B as well, and B cancels in the prediction (autokrigeability): it
is the ridge regression above. With a ratio of its own a component of little signal is shrunk more.

Source: named in thesis 5.2, without equations; Alvarez, Rosasco, Lawrence, Kernels for
Vector-Valued Functions: a Review, 2012, 4.2.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np


class Choice(NamedTuple):
    """What cross-validation found.

    Fields:
      setting: the one of least held-out loss, of equal ones the first.
      losses: [s] the mean held-out loss of each setting.
    """

    setting: Any
    losses: np.ndarray


def fold_numbers(n: int, folds: int, seed: int = 0) -> np.ndarray:
    """Returns [n] the fold of each example, sizes that differ by one at most, in a drawn order."""
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


def principal_components(output_gram: np.ndarray) -> np.ndarray:
    """Returns [n, p] the outputs' coordinates on their principal axes in L's feature space.

    L is centred, H L H with H = I - 11' / n, and written as V diag(lambda) V': the coordinates are
    V sqrt(lambda), the largest lambda first. Those below 1e-10 of the largest are left out.

    Args:
      output_gram: [n, n] L of the training outputs.
    """
    gram = np.asarray(output_gram, np.float64)
    centred = gram - gram.mean(axis=0) - gram.mean(axis=1)[:, None] + gram.mean()
    values, vectors = np.linalg.eigh((centred + centred.T) / 2)
    values, vectors = values[::-1], vectors[:, ::-1]
    kept = np.flatnonzero(values > SMALLEST * max(values[0], 0.0))
    return vectors[:, kept] * np.sqrt(values[kept])


def fit_kernel_dependency(
    gram: np.ndarray, output_gram: np.ndarray, ridge: float
) -> KernelDependency:
    """Fits min_alpha sum_i ||t_i - sum_j alpha_j K(x_i, x_j)||^2 + ridge alpha' K alpha.

    t_i are the `principal_components` of output y_i, one ridge regression for each:
    alpha = (K + ridge I)^-1 t.

    Args:
      gram: [n, n] K of the training inputs. output_gram: [n, n] L of their outputs.
      ridge: > 0.
    """
    targets = principal_components(output_gram)
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


RATIOS = np.logspace(-5, 5, 101)
"""Variances of noise to signal that are tried; at the last one there is no signal."""


class Cokriging(NamedTuple):
    """A trained process.

    Fields:
      machine: predicts, see `predict_kernel_dependency`.
      variances: [p] b_r, the largest component first. ratios: [p] of noise to signal.
      evidence: log p(outputs | inputs) at these.
    """

    machine: KernelDependency
    variances: np.ndarray
    ratios: np.ndarray
    evidence: float


def fit_cokriging(
    gram: np.ndarray, output_gram: np.ndarray, *, own_noise: bool = True
) -> Cokriging:
    """Fits b_r and ratios by the evidence; the mean of component r is K (K + ratio_r I)^-1 t_r.

    log p = sum_r log N(t_r; 0, b_r (K + ratio_r I)) has its largest value over b_r at
    b_r = t_r' (K + ratio_r I)^-1 t_r / n. Of `RATIOS` the best is taken, of equal ones the first.

    Args:
      gram: [n, n] K of the training inputs. output_gram: [n, n] L of their outputs, which differ.
      own_noise: whether components have ratios of their own, or one for all.
    """
    n = len(gram)
    targets = principal_components(output_gram)
    values, vectors = np.linalg.eigh(np.asarray(gram, np.float64))
    turned = vectors.T @ targets
    scales = np.maximum(values, 0) + RATIOS[:, None]
    variances = (1 / scales) @ turned**2 / n
    sizes = np.sum(np.log(scales), axis=1)[:, None]
    evidence = -(n * (np.log(2 * np.pi * variances) + 1) + sizes) / 2
    each = np.argmax(evidence if own_noise else np.sum(evidence, axis=1, keepdims=True), axis=0)
    best, every = np.broadcast_to(each, turned.shape[1]), np.arange(turned.shape[1])
    coefficients = vectors @ (turned / scales[best].T)
    return Cokriging(
        KernelDependency(coefficients, targets), variances[best, every], RATIOS[best],
        float(evidence[best, every].sum()),
    )  # fmt: skip


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


def most_frequent_output(outputs: Sequence[Hashable]) -> int:
    """Returns the position of the most frequent training output, where it first occurs.

    Of equally frequent ones the one that occurs first.

    Args:
      outputs: n training outputs that can be compared: strings, tuples of labels, class numbers.
    """
    counts = Counter(outputs)
    return outputs.index(max(counts, key=counts.__getitem__))
