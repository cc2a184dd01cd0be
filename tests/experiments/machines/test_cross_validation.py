"""Folds, and the choice of a setting by them."""

from __future__ import annotations

import numpy as np

from experiments.machines.cross_validation import choose_setting, fold_numbers
from tests.lib.refusals import refused


def test_folds_are_even_and_drawn() -> None:
    folds = fold_numbers(11, 3, seed=4)
    assert sorted(np.bincount(folds)) == [3, 4, 4]
    np.testing.assert_array_equal(folds, fold_numbers(11, 3, seed=4))
    assert (folds != fold_numbers(11, 3, seed=5)).any()


def test_every_example_is_held_out_once_and_the_first_best_wins() -> None:
    n, seen = 10, []
    loss = np.arange(n * n, dtype=float).reshape(n, n)

    def predict(setting, train, held):
        assert not set(train) & set(held) and len(train) + len(held) == n
        seen.append((setting, *held))
        return np.full(len(held), setting % 2)

    choice = choose_setting([1, 0, 2], predict, loss, folds=5)
    assert choice.setting == 0 and choice.losses[1] == choice.losses[2] < choice.losses[0]
    assert sorted(i for setting, *held in seen if setting == 2 for i in held) == list(range(n))
    folds = fold_numbers(n, 5)
    want = [loss[i, np.flatnonzero(folds != folds[i])[0]] for i in range(n)]
    assert choice.losses[1] == np.mean(want)


def test_more_folds_than_examples_are_refused() -> None:
    refused("folds must be at most 4, got 5", fold_numbers, 4, 5)
