"""Cokriging against the explicit covariance of all outputs of all examples at once."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from jaxstruct.baselines import (
    fit_cokriging,
    fit_kernel_dependency,
    predict_kernel_dependency,
)
from jaxstruct.baselines.cokriging import Cokriging
from tests.lib.refusals import refused

RNG = np.random.default_rng(0)
X, Z = RNG.normal(size=(25, 3)), RNG.normal(size=(9, 3))
OUTPUTS = X @ RNG.normal(size=(3, 4)) * [3, 1, 1, 0.1] + 0.7 * RNG.normal(size=(25, 4))


def gaussian(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.exp(-((a[:, None] - b) ** 2).sum(-1) / 8)


GRAM, ACROSS, OUTPUT_GRAM = gaussian(X, X), gaussian(Z, X), OUTPUTS @ OUTPUTS.T
CENTRED = OUTPUTS - OUTPUTS.mean(0)
AXES = np.linalg.svd(CENTRED)[2].T
"""[4, 4] the outputs' principal axes, the columns."""


def whole_covariance(process: Cokriging, white: bool) -> tuple[np.ndarray, np.ndarray]:
    """(B, the covariance [25 4, 25 4] of the outputs as they come, not of their components)."""
    B = AXES * process.variances @ AXES.T
    noise = process.noise * (np.eye(4) if white else B)
    return B, np.kron(GRAM, B) + np.kron(np.eye(25), noise)


@pytest.mark.parametrize("white", [True, False])
def test_it_is_the_process_of_the_whole_kronecker_product(white: bool) -> None:
    process = fit_cokriging(GRAM, OUTPUT_GRAM, white=white)
    B, covariance = whole_covariance(process, white)
    flat = CENTRED.reshape(-1)
    want = multivariate_normal.logpdf(flat, cov=covariance)
    np.testing.assert_allclose(process.evidence, want, rtol=1e-8)
    mean = (np.kron(ACROSS, B) @ np.linalg.solve(covariance, flat)).reshape(9, 4)
    found = ACROSS @ process.machine.coefficients
    signs = np.sign(np.sum(process.machine.targets * (CENTRED @ AXES), axis=0))
    np.testing.assert_allclose(found * signs, mean @ AXES, atol=1e-8)
    nearest = ((mean[:, None] - CENTRED) ** 2).sum(-1).argmin(1)
    np.testing.assert_array_equal(predict_kernel_dependency(process.machine, ACROSS), nearest)


@pytest.mark.parametrize("white", [True, False])
def test_no_other_parameters_are_more_likely_nearby(white: bool) -> None:
    process = fit_cokriging(GRAM, OUTPUT_GRAM, white=white)
    flat = CENTRED.reshape(-1)
    for name in ("noise", "variances"):
        for factor in (0.9, 1.1):
            other = process._replace(**{name: getattr(process, name) * factor})
            covariance = whole_covariance(other, white)[1]
            assert multivariate_normal.logpdf(flat, cov=covariance) < process.evidence


def test_autokrigeability_with_the_outputs_noise_it_is_the_ridge_regression() -> None:
    process = fit_cokriging(GRAM, OUTPUT_GRAM, white=False)
    ridge = fit_kernel_dependency(GRAM, OUTPUT_GRAM, process.noise)
    np.testing.assert_allclose(process.machine.coefficients, ridge.coefficients, atol=1e-9)
    white = fit_cokriging(GRAM, OUTPUT_GRAM)
    ratios = white.noise / white.variances
    assert ratios.max() > 5 * ratios.min()  # and with white noise no ridge serves all components


def test_what_does_not_fit_is_refused() -> None:
    refused(r"output_gram must be \[25, 25\] numbers", fit_cokriging, GRAM, np.eye(3))
    refused("output_gram must have outputs that differ", fit_cokriging, GRAM, np.ones((25, 25)))
    with refused("white must be"):
        fit_cokriging(GRAM, OUTPUT_GRAM, white=2)  # pyright: ignore[reportArgumentType]
