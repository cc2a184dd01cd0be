"""Cokriging: a Gaussian process of several outputs with a separable covariance.

The outputs' principal components t_r are f_r(x) + noise (intrinsic coregionalisation model),

    cov(f_r(x), f_s(x')) = [r = s] b_r K(x, x'),    noise: N(0, sigma) of each, or N(0, sigma b_r).

In the space of outputs this is the covariance B K(x, x') with B = sum_r b_r v_r v_r', v_r the
principal axes. Where the noise has the outputs' covariance B as well, B cancels in the prediction
(autokrigeability): it is the ridge regression of `kernel_dependency_estimation`, whatever B is.
With white noise it is not, and components of little signal are shrunk more.

Source: named in thesis 5.2, without equations; Alvarez, Rosasco, Lawrence, Kernels for
Vector-Valued Functions: a Review, 2012, 4.2. NumPy in float64 on the host; O(n^3).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jaxstruct.baselines.cross_validation import checked_square
from jaxstruct.baselines.kernel_dependency_estimation import (
    KernelDependency,
    principal_components,
)
from jaxstruct.core.checks import check_flag
from jaxstruct.kernels import check_positive_semidefinite

REACH = 12.0
"""exp(-REACH) to exp(REACH) of its start is where the evidence of a parameter is looked for."""


class Cokriging(NamedTuple):
    """A trained process.

    Fields:
      machine: predicts, see `predict_kernel_dependency`.
      variances: [p] b_r, the largest component first. noise: sigma.
      evidence: log p(outputs | inputs) at these.
    """

    machine: KernelDependency
    variances: np.ndarray
    noise: float
    evidence: float


def fit_cokriging(
    gram: np.ndarray, output_gram: np.ndarray, *, white: bool = True, components: int | None = None
) -> Cokriging:
    """Fits b_r and sigma by the evidence; the mean of component r is K (K + ratio_r I)^-1 t_r.

    log p = sum_r log N(t_r; 0, b_r K + sigma_r I), with sigma_r = sigma, or sigma b_r, and ratio_r
    = sigma_r / b_r. A local maximum is found (L-BFGS-B).

    Args:
      gram: [n, n] K of the training inputs. output_gram: [n, n] L of their outputs.
      white: whether the noise is white, or has the outputs' covariance.
      components: as in `principal_components`.

    Raises:
      ValueError: a shape or a value does not fit, all outputs are alike, or gram or output_gram is
        none of a kernel.
    """
    from scipy.optimize import minimize

    gram = checked_square("gram", gram)
    check_positive_semidefinite(gram, "gram")
    check_flag("white", white)
    targets = principal_components(
        checked_square("output_gram", output_gram, len(gram)), components
    )
    if not targets.shape[1]:
        raise ValueError("output_gram must have outputs that differ, got outputs that are alike")
    values, vectors = np.linalg.eigh(gram)
    values = np.maximum(values, 0)[:, None]
    turned = vectors.T @ targets

    def parts(logs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(b, sigma_r, the variances [n, p] of the turned targets)."""
        noise, b = np.exp(logs[0]), np.exp(logs[1:])
        noises = noise * (np.ones_like(b) if white else b)
        return b, noises, values * b + noises

    def loss(logs: np.ndarray) -> tuple[float, np.ndarray]:
        b, noises, v = parts(logs)
        slope = (1 / v - turned**2 / v**2) / 2
        of_b = np.sum(slope * (values * b if white else v), axis=0)
        value = np.sum(turned**2 / v + np.log(2 * np.pi * v)) / 2
        return float(value), np.append(np.sum(slope * noises), of_b)

    b = np.mean(targets**2, axis=0) / np.mean(np.diag(gram))
    start = np.log(np.append(np.mean(targets**2) if white else 1.0, b))
    bounds = list(zip(start - REACH, start + REACH, strict=True))
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds)
    b, noises, _ = parts(found.x)
    coefficients = vectors @ (turned / (values + noises / b))
    machine = KernelDependency(coefficients, targets)
    return Cokriging(machine, b, float(np.exp(found.x[0])), -float(found.fun))
