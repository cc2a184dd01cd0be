"""Metrics, calibration, McNemar's test, attachment: sums written down, scikit-learn and SciPy."""

from __future__ import annotations

import math
import warnings

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from sklearn import metrics as reference

from jaxstruct.evaluation import attachment, metrics
from jaxstruct.evaluation.metrics import accuracy, confusion_matrix, mcnemar, mean_loss, reliability
from jaxstruct.multiclass.losses import zero_one_loss
from tests.lib.refusals import refused

RNG = np.random.default_rng(0)
Y, P = RNG.integers(0, 4, 50), RNG.integers(0, 4, 50)


@pytest.mark.smoke
def test_accuracy():
    assert accuracy([0, 1, 2, 2], [0, 1, 1, 2]) == 0.75
    assert accuracy(np.array([-1, 1, 1]), jnp.array([-1, -1, 1])) == 2 / 3
    assert accuracy(np.array([True, False]), np.array([True, False])) == 1.0
    assert accuracy(Y, P) == reference.accuracy_score(Y, P)


def test_mean_loss_has_the_true_class_in_rows():
    delta = np.array([[0.0, 5.0], [1.0, 0.0]])
    assert mean_loss(delta, [0, 1, 0, 1], [1, 0, 0, 1]) == 6 / 4
    assert mean_loss(delta, [0], [1]) == 5
    random = RNG.random((4, 4))
    want = sum(random[y, p] for y, p in zip(Y, P, strict=True)) / 50
    np.testing.assert_allclose(mean_loss(random, Y, P), want, rtol=1e-14)


@pytest.mark.smoke
def test_confusion_matrix():
    got = confusion_matrix([0, 0, 1, 2], [0, 1, 1, 0], 4)
    np.testing.assert_array_equal(got, [[1, 1, 0, 0], [0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]])
    np.testing.assert_array_equal(
        confusion_matrix(Y, P, 4), reference.confusion_matrix(Y, P, labels=range(4))
    )
    delta = RNG.random((4, 4))
    np.testing.assert_allclose(
        np.sum(delta * confusion_matrix(Y, P, 4)) / 50, mean_loss(delta, Y, P), rtol=1e-13
    )


def test_mean_and_deviation():
    mean, deviation = metrics.mean_and_deviation([1, 2, 3, 6])
    assert mean == 3 and deviation == math.sqrt((4 + 1 + 0 + 9) / 3)
    assert metrics.mean_and_deviation(np.float32([2.0, 2.0])) == (2.0, 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = metrics.mean_and_deviation([4.0])
    assert result.mean == 4 and math.isnan(result.deviation)


def test_errors():
    refused("y_pred: got 2 predictions, expected 3", accuracy, [0, 1, 2], [0, 1])
    refused("y_true: got .*expected integers", accuracy, ["a", "b"], [0, 1])
    refused("y_true: got .*expected integers", accuracy, [], [])
    refused("y_pred: got .*shape", accuracy, [0, 1], [[0, 1]])
    loss = zero_one_loss(2)
    refused("y_pred: got 0..2, expected classes 0..1", mean_loss, loss, [0, 1], [0, 2])
    refused("y_true: got -1..1, expected classes 0..1", mean_loss, loss, [-1, 1], [0, 1])
    refused("loss_matrix: got shape", mean_loss, np.zeros((2, 3)), [0], [0])
    refused("expected classes 0..2", confusion_matrix, [3], [0], 3)
    refused(r"values\[1\]: got nan", metrics.mean_and_deviation, [1.0, np.nan])
    refused("values: got", metrics.mean_and_deviation, [])


def make(only_a, only_b, both=3, neither=2):
    counts = [only_a, only_b, both, neither]
    pairs = np.repeat([(True, False), (False, True), (True, True), (False, False)], counts, axis=0)
    return np.random.default_rng(0).permutation(pairs).T


@pytest.mark.parametrize(("only_a", "only_b"), [(0, 5), (1, 8), (7, 7), (20, 4), (1060, 940)])
def test_exact_against_scipy(only_a, only_b):
    result = mcnemar(*make(only_a, only_b), exact=True)
    assert (result.only_a, result.only_b, result.exact) == (only_a, only_b, True)
    assert result.statistic == min(only_a, only_b)
    want = stats.binomtest(only_a, only_a + only_b, 0.5).pvalue
    np.testing.assert_allclose(result.p_value, want, rtol=1e-9)


@pytest.mark.parametrize(("only_a", "only_b"), [(25, 0), (30, 12), (40, 41), (20, 20), (900, 700)])
def test_chi_square_against_scipy(only_a, only_b):
    result = mcnemar(*make(only_a, only_b))
    assert not result.exact
    want = max(abs(only_a - only_b) - 1, 0) ** 2 / (only_a + only_b)
    np.testing.assert_allclose(result.statistic, want, rtol=1e-15)
    np.testing.assert_allclose(result.p_value, stats.chi2.sf(want, 1), rtol=1e-12)


def test_the_default_changes_at_25_discordant_examples():
    assert metrics.EXACT_BELOW == 25
    assert mcnemar(*make(12, 12)).exact and not mcnemar(*make(12, 13)).exact
    assert mcnemar(*make(12, 13), exact=True).exact and not mcnemar(*make(1, 2), exact=False).exact


@pytest.mark.parametrize("exact", [None, True, False])
def test_no_discordant_example_says_nothing(exact):
    result = mcnemar(np.array([True, False]), np.array([True, False]), exact)
    assert result.p_value == 1 and result.statistic == 0


def test_errors_of_mcnemar():
    yes, one = np.array([True, False]), np.array([True])
    refused("correct_b: got 1 examples, expected 2", mcnemar, yes, one)
    refused("correct_a: got int64 .*expected bool", mcnemar, np.array([1, 0]), yes)
    refused("correct_a: got bool of shape", mcnemar, np.zeros((2, 2), bool), np.zeros((2, 2), bool))
    refused("n >= 1", mcnemar, np.zeros(0, bool), np.zeros(0, bool))


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
    assert metrics.expected_calibration_error(stated, right, bins=10) == pytest.approx(total)
    honest = random.random(5000) < stated
    assert metrics.expected_calibration_error(stated, honest, bins=10) < 0.03 < total


def test_empty_bins_are_not_numbers_and_weigh_nothing() -> None:
    table = reliability(np.array([0.95, 0.97]), np.array([True, True]), bins=3)
    assert np.isnan(table.accuracy[:2]).all() and table.accuracy[2] == 1
    assert metrics.expected_calibration_error(np.array([0.95, 0.97]), np.array([True, True])) == (
        pytest.approx(0.04)
    )


def test_arguments_are_checked() -> None:
    half, yes = np.array([0.5]), np.array([True])
    for wanted, *call in (
        ("probabilities: got int64", np.array([1]), yes),
        (r"probabilities: got 1.5..1.5, expected numbers in 0..1", np.array([1.5]), yes),
        (r"correct: got int64 of shape \(1,\), expected booleans", half, np.array([1])),
        ("bins: got 0, expected an integer of at least 1", half, yes, 0),
    ):
        refused(wanted, reliability, *call)


def test_shares_of_words_and_trees():
    true = [[(2, "a"), (0, "r")], [(0, "r")]]
    found = [[(2, "b"), (1, "r")], [(0, "r")]]
    scores = attachment(true, found)
    assert scores.uas == pytest.approx(2 / 3) and scores.las == pytest.approx(1 / 3)
    assert scores.whole == 0.5
    heads = attachment([[2, 0]], [[2, 1]])
    assert heads.uas == 0.5 and heads.las is None and heads.whole == 0


def test_errors_of_attachment():
    refused("got 1 trees, expected 2", lambda: attachment([[0], [0]], [[0]]))
    refused(r"predicted\[0\] has 2 words, expected 1", lambda: attachment([[0]], [[0, 1]]))
    refused("must hold a word", lambda: attachment([], []))
    refused("one kind|pairs", lambda: attachment([[0]], [[(0, "r")]]))
