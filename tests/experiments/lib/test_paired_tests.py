"""experiments.lib.paired_tests by hand, and beside all swaps of a few examples."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from experiments.lib.paired_tests import f1_difference


def f1(counts: np.ndarray) -> float:
    right, both = counts.sum(axis=0)
    return 200 * right / both


def test_p_is_the_share_of_swaps_that_differ_as_much() -> None:
    random = np.random.default_rng(0)
    right = random.integers(0, 3, (2, 6))
    a, b = np.stack([right, right + random.integers(2, 4, (2, 6))], axis=2)
    found = f1_difference(a, b, 0)
    assert found.points == pytest.approx(f1(a) - f1(b))
    swapped = [
        f1(np.where(swap, b, a)) - f1(np.where(swap, a, b))
        for swap in (np.reshape(each, (6, 1)) for each in itertools.product([0, 1], repeat=6))
    ]
    shares = [np.mean(np.array(swapped) * sign >= found.points * sign - 1e-9) for sign in (1, -1)]
    assert found.p_value == pytest.approx(min(1, 2 * min(shares)))


def test_machines_that_answer_alike_do_not_differ() -> None:
    a = np.array([[1, 2], [0, 3], [2, 4]] * 5)
    assert f1_difference(a, a, 0) == (0, 1)
