"""Nearest neighbours through kernels against distances of vectors."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from experiments.machines.nearest_neighbours import choose_neighbours, nearest_outputs

RNG = np.random.default_rng(0)
X, Z = RNG.normal(size=(30, 3)), RNG.normal(size=(9, 3))
CLASSES = RNG.integers(0, 3, 30)
FEATURES = RNG.normal(size=(30, 4))
OWN = np.sum(X**2, axis=1)


def test_one_neighbour_is_the_closest_input() -> None:
    found = nearest_outputs(Z @ X.T, OWN, FEATURES @ FEATURES.T, 1)
    np.testing.assert_array_equal(found, ((Z[:, None] - X) ** 2).sum(-1).argmin(1))


@pytest.mark.smoke
def test_several_have_the_output_closest_to_their_mean() -> None:
    found = nearest_outputs(Z @ X.T, OWN, FEATURES @ FEATURES.T, 4)
    near = ((Z[:, None] - X) ** 2).sum(-1).argsort(1)[:, :4]
    means = FEATURES[near].mean(axis=1)
    want = ((means[:, None] - FEATURES) ** 2).sum(-1).argmin(1)
    np.testing.assert_array_equal(found, want)
    assert (found != near[:, 0]).any()


def test_of_classes_it_is_the_vote() -> None:
    same = (CLASSES[:, None] == CLASSES).astype(float)
    found = CLASSES[nearest_outputs(Z @ X.T, OWN, same, 5)]
    votes = np.array([np.bincount(CLASSES[row], minlength=3) for row in
                      ((Z[:, None] - X) ** 2).sum(-1).argsort(1)[:, :5]])  # fmt: skip
    clear = np.sort(votes)[:, -1] > np.sort(votes)[:, -2]
    want = KNeighborsClassifier(5).fit(X, CLASSES).predict(Z)
    assert clear.sum() > 4
    np.testing.assert_array_equal(found[clear], want[clear])


def test_ties_go_to_the_lowest_index() -> None:
    assert nearest_outputs(np.zeros((1, 3)), np.zeros(3), np.eye(3), 1).tolist() == [0]
    assert nearest_outputs(np.zeros((1, 3)), np.zeros(3), np.eye(3), 2).tolist() == [0]


def test_noise_asks_for_more_neighbours() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(120, 1)), rng.integers(0, 2, 120)
    noisy = np.where(rng.random(120) < 0.25, y, (x[:, 0] > 0).astype(int))
    same = (noisy[:, None] == noisy).astype(float)
    choice = choose_neighbours(x @ x.T, same, 1 - same, [1, 3, 15])
    assert choice.setting == 15 and choice.losses[2] < choice.losses[0]
