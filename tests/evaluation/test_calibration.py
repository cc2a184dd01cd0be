"""Reliability tables and the expected calibration error against sums written down."""

from __future__ import annotations

import numpy as np
import pytest

from jaxstruct.evaluation.metrics import expected_calibration_error, reliability
from tests.lib.refusals import refused


def test_bins_hold_their_upper_edge() -> None:
    stated = np.array([0.0, 0.25, 0.2500001, 0.5, 0.75, 1.0, 0.9])
    right = np.array([False, True, True, False, True, True, False])
    table = reliability(stated, right, bins=4)
    np.testing.assert_array_equal(table.count, [2, 2, 1, 2])
    np.testing.assert_allclose(table.confidence, [0.125, 0.37500005, 0.75, 0.95])
    np.testing.assert_allclose(table.accuracy, [0.5, 0.5, 1.0, 0.5])


def test_the_error_is_the_weighted_gap() -> None:
    random = np.random.default_rng(0)
    stated = random.random(5000)
    right = random.random(5000) < stated**2
    total = 0.0
    for b in range(10):
        own = (stated > b / 10) & (stated <= (b + 1) / 10)
        total += own.sum() / 5000 * abs(right[own].mean() - stated[own].mean())
    assert expected_calibration_error(stated, right, bins=10) == pytest.approx(total)
    honest = random.random(5000) < stated
    assert expected_calibration_error(stated, honest, bins=10) < 0.03 < total


def test_empty_bins_are_not_numbers_and_weigh_nothing() -> None:
    table = reliability(np.array([0.95, 0.97]), np.array([True, True]), bins=3)
    assert np.isnan(table.accuracy[:2]).all() and table.accuracy[2] == 1
    assert expected_calibration_error(np.array([0.95, 0.97]), np.array([True, True])) == (
        pytest.approx(0.04)
    )


def test_arguments_are_checked() -> None:
    half, yes = np.array([0.5]), np.array([True])
    for call, wanted in (
        ((np.array([1]), yes), "probabilities: got int64"),
        ((np.array([1.5]), yes), r"probabilities: got 1.5..1.5, expected numbers in 0..1"),
        ((half, np.array([1])), r"correct: got int64 of shape \(1,\), expected booleans"),
        ((half, yes, 0), "bins: got 0, expected an integer of at least 1"),
    ):
        refused(wanted, reliability, *call)
