"""Kernel dependency estimation against principal components and ridge regressions of vectors."""

from __future__ import annotations

import numpy as np
from sklearn.decomposition import PCA
from sklearn.kernel_ridge import KernelRidge

from experiments.machines.kernel_dependency_estimation import (
    choose_kernel_dependency,
    fit_kernel_dependency,
    predict_kernel_dependency,
    principal_components,
)

RNG = np.random.default_rng(0)
X, Z = RNG.normal(size=(30, 3)), RNG.normal(size=(9, 3))
OUTPUTS = RNG.normal(size=(30, 4)) + X @ RNG.normal(size=(3, 4))
GRAM, OUTPUT_GRAM = X @ X.T, OUTPUTS @ OUTPUTS.T


def test_components_are_those_of_the_vectors() -> None:
    found, want = principal_components(OUTPUT_GRAM), PCA(4).fit_transform(OUTPUTS)
    assert found.shape == (30, 4)
    np.testing.assert_allclose(np.abs(found), np.abs(want), atol=1e-8)
    np.testing.assert_array_equal(principal_components(OUTPUT_GRAM, 2), found[:, :2])
    assert principal_components(np.ones((3, 3))).shape == (3, 0)


def test_regressions_are_ridge_regressions_and_pre_images_training_outputs() -> None:
    machine = fit_kernel_dependency(GRAM, OUTPUT_GRAM, 0.5)
    peer = KernelRidge(alpha=0.5, kernel="precomputed").fit(GRAM, OUTPUTS - OUTPUTS.mean(0))
    found = peer.predict(Z @ X.T) + OUTPUTS.mean(0)
    want = ((found[:, None] - OUTPUTS) ** 2).sum(-1).argmin(1)
    np.testing.assert_array_equal(predict_kernel_dependency(machine, Z @ X.T), want)
    assert len(set(want)) > 3


def test_few_components_lose_what_lies_across_them() -> None:
    one = fit_kernel_dependency(GRAM, OUTPUT_GRAM, 0.5, components=1)
    whole = fit_kernel_dependency(GRAM, OUTPUT_GRAM, 0.5)
    found = [predict_kernel_dependency(machine, Z @ X.T) for machine in (one, whole)]
    assert (found[0] != found[1]).any()
    line = principal_components(OUTPUT_GRAM, 1)
    value = (Z @ X.T) @ np.linalg.solve(GRAM + 0.5 * np.eye(30), line)
    np.testing.assert_array_equal(found[0], np.abs(value - line[:, 0]).argmin(1))


def test_the_kernel_and_the_ridge_are_chosen() -> None:
    rng = np.random.default_rng(1)
    x = rng.uniform(-3, 3, size=(80, 1))
    y = (np.sin(2 * x[:, 0]) > 0).astype(int)  # no line separates them
    same = (y[:, None] == y).astype(float)
    grams = [np.exp(-((x - x.T) ** 2) / (2 * s**2)) for s in (0.01, 0.5, 50.0)]
    choice = choose_kernel_dependency(grams, same, 1 - same, [1e-2, 1e2])
    assert choice.setting == (1, 1e-2) and choice.losses.shape == (6,)
    assert choice.losses.min() < 0.1
