"""Cokriging: a Gaussian process of several outputs with a separable covariance.

The outputs' principal components t_r are f_r(x) + noise (intrinsic coregionalisation),

    cov(f_r(x), f_s(x')) = [r = s] b_r K(x, x'),    noise of variance b_r ratio_r in component r.

With the principal axes v_r this is, in the space of outputs, the covariance B K(x, x') with B =
sum_r b_r v_r v_r', and noise of the covariance sum_r b_r ratio_r v_r v_r'. Where all ratios are
alike the noise has the covariance B as well, and B cancels in the prediction (autokrigeability): it
is the ridge regression of `kernel_dependency_estimation`. With a ratio of its own a component of
little signal is shrunk more.

Source: named in thesis 5.2, without equations; Alvarez, Rosasco, Lawrence, Kernels for
Vector-Valued Functions: a Review, 2012, 4.2. NumPy in float64 on the host; O(n^3).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from experiments.machines.kernel_dependency_estimation import (
    KernelDependency,
    principal_components,
)

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
    gram: np.ndarray,
    output_gram: np.ndarray,
    *,
    own_noise: bool = True,
    components: int | None = None,
) -> Cokriging:
    """Fits b_r and ratios by the evidence; the mean of component r is K (K + ratio_r I)^-1 t_r.

    log p = sum_r log N(t_r; 0, b_r (K + ratio_r I)) has its largest value over b_r at
    b_r = t_r' (K + ratio_r I)^-1 t_r / n. Of `RATIOS` the best is taken, of equal ones the first.

    Args:
      gram: [n, n] K of the training inputs. output_gram: [n, n] L of their outputs, which differ.
      own_noise: whether components have ratios of their own, or one for all.
      components: as in `principal_components`.
    """
    n = len(gram)
    targets = principal_components(output_gram, components)
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
