"""Each check of oracles against enumeration finds the mistake it is there for."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lib.enumeration import Listed, check_alone, check_best, check_k_best, check_samples

EVERY = np.array([[0, -1], [1, -1], [1, 0], [0, 1]])
LISTED = Listed([EVERY] * 2, [np.array([1.0, 3.0, 3.0, -np.inf])] * 2, np.array([True, False]))
RIGHT = np.array([[1, -1], [1, 0], [0, -1], [-1, -1]])
SCORES = np.array([3.0, 3.0, 1.0, -np.inf])


def k_best(outputs, scores, case=0, **options) -> int:
    """Wrong answers to one of the cases, right ones to the other."""
    both = np.stack([RIGHT, RIGHT]), np.stack([SCORES, SCORES])
    both[0][case], both[1][case] = outputs, scores
    return check_k_best(LISTED, *both, 1e-6, **options)


@pytest.mark.smoke
def test_the_k_best() -> None:
    assert k_best(RIGHT, SCORES) == 0
    k_best(RIGHT[[1, 0, 2, 3]], SCORES, 1)  # of equals any where sums are rounded
    for outputs, scores in [
        (RIGHT[[1, 0, 2, 3]], SCORES),
        (RIGHT[[0, 0, 2, 3]], SCORES),
        (RIGHT[[0, 2, 1, 3]], SCORES),
        (np.where(RIGHT == -1, 5, RIGHT), SCORES),
        (RIGHT, SCORES[[0, 2, 1, 3]]),
        (RIGHT, [3, 3, 1, 0]),
        (EVERY[[1, 2, 0, 3]], SCORES),
    ]:
        with pytest.raises(AssertionError):
            k_best(outputs, scores)
    nothing = Listed([EVERY], [np.full(4, -np.inf)], np.array([True]))
    assert check_best(nothing, np.full((1, 2), -1), np.array([-np.inf]), 1e-6) == 1


def test_samples_and_single_calls() -> None:
    case = Listed([EVERY], [np.append(np.log([1.0, 2.0, 5.0]), -np.inf)], np.array([False]))
    draws = np.random.default_rng(0).choice(4, 4000, p=[0.125, 0.25, 0.625, 0])
    check_samples(case, EVERY[None, draws], freedom=1)
    for wrong in (np.append(draws, 3), np.sort(draws) // 2 * 2, np.repeat([0, 1, 2], 1000)):
        with pytest.raises(AssertionError):
            check_samples(case, EVERY[None, wrong], freedom=1)
    check_alone(lambda x: 2 * x, (np.arange(3),), 2 * np.arange(3), range(3))
    with pytest.raises(AssertionError):
        check_alone(lambda x: 2 * x, (np.arange(3),), np.array([0, 2, 5]), range(3))
