"""Cokriging against the explicit covariance of all outputs of all examples at once."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from experiments.machines import kernel_dependency_estimation as kde
from experiments.machines.kernel_dependency_estimation import RATIOS, Cokriging, fit_cokriging

RNG = np.random.default_rng(0)
X, Z = RNG.normal(size=(25, 3)), RNG.normal(size=(9, 3))
OUTPUTS = X @ RNG.normal(size=(3, 4)) * [3, 1, 1, 0.1] + 0.7 * RNG.normal(size=(25, 4))


def gaussian(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.exp(-((a[:, None] - b) ** 2).sum(-1) / 8)


GRAM, ACROSS, OUTPUT_GRAM = gaussian(X, X), gaussian(Z, X), OUTPUTS @ OUTPUTS.T
CENTRED = OUTPUTS - OUTPUTS.mean(0)
AXES = np.linalg.svd(CENTRED)[2].T
"""[4, 4] the outputs' principal axes, the columns."""


def whole_covariance(process: Cokriging) -> tuple[np.ndarray, np.ndarray]:
    """(B, the covariance [25 4, 25 4] of the outputs as they come, not of their components)."""
    B = AXES * process.variances @ AXES.T
    noise = AXES * (process.variances * process.ratios) @ AXES.T
    return B, np.kron(GRAM, B) + np.kron(np.eye(25), noise)


def log_likelihood(process: Cokriging) -> float:
    return multivariate_normal(cov=whole_covariance(process)[1]).logpdf(CENTRED.reshape(-1))


@pytest.mark.parametrize("own_noise", [True, False])
def test_it_is_the_process_of_the_whole_kronecker_product(own_noise: bool) -> None:
    process = fit_cokriging(GRAM, OUTPUT_GRAM, own_noise=own_noise)
    np.testing.assert_allclose(process.evidence, log_likelihood(process), rtol=1e-8)
    B, covariance = whole_covariance(process)
    solved = np.linalg.solve(covariance, CENTRED.reshape(-1))
    mean = (np.kron(ACROSS, B) @ solved).reshape(9, 4)
    found = ACROSS @ process.machine.coefficients
    signs = np.sign(np.sum(process.machine.targets * (CENTRED @ AXES), axis=0))
    np.testing.assert_allclose(found * signs, mean @ AXES, atol=1e-8)
    nearest = ((mean[:, None] - CENTRED) ** 2).sum(-1).argmin(1)
    np.testing.assert_array_equal(kde.predict_kernel_dependency(process.machine, ACROSS), nearest)


def test_autokrigeability_with_one_ratio_it_is_the_ridge_regression() -> None:
    process = fit_cokriging(GRAM, OUTPUT_GRAM, own_noise=False)
    (ratio,) = set(process.ratios)
    ridge = kde.fit_kernel_dependency(GRAM, OUTPUT_GRAM, ratio)
    np.testing.assert_allclose(process.machine.coefficients, ridge.coefficients, atol=1e-9)
    own = fit_cokriging(GRAM, OUTPUT_GRAM)
    assert own.evidence > process.evidence and own.ratios.max() > 3 * own.ratios.min()


@pytest.mark.parametrize("own_noise", [True, False])
def test_no_other_parameters_are_more_likely_nearby(own_noise: bool) -> None:
    process = fit_cokriging(GRAM, OUTPUT_GRAM, own_noise=own_noise)
    assert (process.ratios == RATIOS[-1]).tolist() == [False, False, False, own_noise]
    for r, factor in itertools.product(range(4), (0.7, 1.4)):
        where = np.where(np.arange(4) == r, factor, 1.0)
        others = [process._replace(variances=process.variances * where)]
        if process.ratios[r] < RATIOS[-1]:  # there is some signal
            ratios = process.ratios * (where if own_noise else factor)
            others.append(process._replace(ratios=ratios))
        assert max(map(log_likelihood, others)) < process.evidence
