"""Folds, and the choice of a setting by them."""

from __future__ import annotations

import numpy as np
import pytest

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


@pytest.mark.parametrize(
    ("settings", "loss", "folds", "message"),
    [
        ([], np.ones((4, 4)), 2, "settings must be a non-empty sequence"),
        ([1], np.ones((4, 3)), 2, r"loss must be \[n, n\] numbers, got shape \(4, 3\)"),
        ([1], np.full((4, 4), np.nan), 2, "loss must be finite"),
        ([1], np.ones((4, 4)), 5, "folds must be at most 4, got 5"),
    ],
)
def test_what_does_not_fit_is_refused(settings, loss, folds, message) -> None:
    refused(message, choose_setting, settings, lambda *_: np.zeros(1, int), loss, folds=folds)
