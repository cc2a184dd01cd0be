"""Baselines of table 4.5 against distances, principal components and ridge regressions."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.kernel_ridge import KernelRidge

from experiments.machines import kernel_dependency_estimation as kde

RNG = np.random.default_rng(0)
X, Z = RNG.normal(size=(30, 3)), RNG.normal(size=(9, 3))
OUTPUTS = RNG.normal(size=(30, 4)) + X @ RNG.normal(size=(3, 4))
GRAM, OUTPUT_GRAM = X @ X.T, OUTPUTS @ OUTPUTS.T
OWN = np.sum(X**2, axis=1)


def test_components_are_those_of_the_vectors() -> None:
    found, want = kde.principal_components(OUTPUT_GRAM), PCA(4).fit_transform(OUTPUTS)
    assert found.shape == (30, 4)
    np.testing.assert_allclose(np.abs(found), np.abs(want), atol=1e-8)
    assert kde.principal_components(np.ones((3, 3))).shape == (3, 0)


def test_regressions_are_ridge_regressions_and_pre_images_training_outputs() -> None:
    machine = kde.fit_kernel_dependency(GRAM, OUTPUT_GRAM, 0.5)
    peer = KernelRidge(alpha=0.5, kernel="precomputed").fit(GRAM, OUTPUTS - OUTPUTS.mean(0))
    found = peer.predict(Z @ X.T) + OUTPUTS.mean(0)
    want = ((found[:, None] - OUTPUTS) ** 2).sum(-1).argmin(1)
    np.testing.assert_array_equal(kde.predict_kernel_dependency(machine, Z @ X.T), want)
    assert len(set(want)) > 3


def test_the_kernel_and_the_ridge_are_chosen() -> None:
    rng = np.random.default_rng(1)
    x = rng.uniform(-3, 3, size=(80, 1))
    y = (np.sin(2 * x[:, 0]) > 0).astype(int)  # no line separates them
    same = (y[:, None] == y).astype(float)
    grams = [np.exp(-((x - x.T) ** 2) / (2 * s**2)) for s in (0.01, 0.5, 50.0)]
    choice = kde.choose_kernel_dependency(grams, same, 1 - same, [1e-2, 1e2])
    assert choice.setting == (1, 1e-2) and choice.losses.shape == (6,)
    assert choice.losses.min() < 0.1


@pytest.mark.smoke
def test_several_have_the_output_closest_to_their_mean() -> None:
    found = kde.nearest_outputs(Z @ X.T, OWN, OUTPUT_GRAM, 4)
    near = ((Z[:, None] - X) ** 2).sum(-1).argsort(1)[:, :4]
    means = OUTPUTS[near].mean(axis=1)
    want = ((means[:, None] - OUTPUTS) ** 2).sum(-1).argmin(1)
    np.testing.assert_array_equal(found, want)
    assert (found != near[:, 0]).any()
    for k in (1, 2):  # ties go to the lowest index
        assert kde.nearest_outputs(np.zeros((1, 3)), np.zeros(3), np.eye(3), k).tolist() == [0]


def test_noise_asks_for_more_neighbours() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(120, 1)), rng.integers(0, 2, 120)
    noisy = np.where(rng.random(120) < 0.25, y, (x[:, 0] > 0).astype(int))
    same = (noisy[:, None] == noisy).astype(float)
    choice = kde.choose_neighbours(x @ x.T, same, 1 - same, [1, 3, 15])
    assert choice.setting == 15 and choice.losses[2] < choice.losses[0]


def test_folds_are_even_and_drawn() -> None:
    folds = kde.fold_numbers(11, 3, seed=4)
    assert sorted(np.bincount(folds)) == [3, 4, 4]
    np.testing.assert_array_equal(folds, kde.fold_numbers(11, 3, seed=4))
    assert (folds != kde.fold_numbers(11, 3, seed=5)).any()


def test_every_example_is_held_out_once_and_the_first_best_wins() -> None:
    n, seen = 10, []
    loss = np.arange(n * n, dtype=float).reshape(n, n)

    def predict(setting, train, held):
        assert not set(train) & set(held) and len(train) + len(held) == n
        seen.append((setting, *held))
        return np.full(len(held), setting % 2)

    choice = kde.choose_setting([1, 0, 2], predict, loss, folds=5)
    assert choice.setting == 0 and choice.losses[1] == choice.losses[2] < choice.losses[0]
    assert sorted(i for setting, *held in seen if setting == 2 for i in held) == list(range(n))
    folds = kde.fold_numbers(n, 5)
    want = [loss[i, np.flatnonzero(folds != folds[i])[0]] for i in range(n)]
    assert choice.losses[1] == np.mean(want)


def test_it_is_where_the_commonest_output_first_occurs() -> None:
    assert kde.most_frequent_output(["a", "bc", "d", "bc"]) == 1
    assert kde.most_frequent_output([(1, 2), (0,), (0,)]) == 1
