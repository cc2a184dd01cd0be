"""Metrics against hand counts, loops and scikit-learn."""

from __future__ import annotations

import math
import warnings

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn import metrics as reference

from jaxstruct.evaluation.metrics import accuracy, confusion_matrix, mean_and_deviation, mean_loss
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


def test_zero_one_loss_is_one_minus_accuracy():
    np.testing.assert_allclose(mean_loss(zero_one_loss(4), Y, P), 1 - accuracy(Y, P), rtol=1e-14)


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
    mean, deviation = mean_and_deviation([1, 2, 3, 6])
    assert mean == 3 and deviation == math.sqrt((4 + 1 + 0 + 9) / 3)
    assert mean_and_deviation(np.float32([2.0, 2.0])) == (2.0, 0.0)


def test_the_deviation_of_one_value_is_nan_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = mean_and_deviation([4.0])
    assert result.mean == 4 and math.isnan(result.deviation)


def test_errors():
    refused("y_pred: got 2 predictions, expected 3", accuracy, [0, 1, 2], [0, 1])
    refused("y_true: got .*expected integers", accuracy, ["a", "b"], [0, 1])
    refused("y_true: got .*expected integers", accuracy, [], [])
    refused("y_pred: got .*shape", accuracy, [0, 1], [[0, 1]])
    with refused("y_pred: got 0..2, expected classes 0..1"):
        mean_loss(zero_one_loss(2), [0, 1], [0, 2])
    with refused("y_true: got -1..1, expected classes 0..1"):
        mean_loss(zero_one_loss(2), [-1, 1], [0, 1])
    refused("loss_matrix: got shape", mean_loss, np.zeros((2, 3)), [0], [0])
    refused("expected classes 0..2", confusion_matrix, [3], [0], 3)
    refused(r"values\[1\]: got nan", mean_and_deviation, [1.0, np.nan])
    refused("values: got", mean_and_deviation, [])
