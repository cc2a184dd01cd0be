"""Trainings on scikit-learn's digits find optima that float64 has certified."""

from __future__ import annotations

import numpy as np
import pytest

import jaxstruct as js
from jaxstruct.data.digits import load_digit_words, load_digits_split


def _digits() -> tuple:
    split = load_digits_split()
    training = js.multiclass.multiclass(64, 10), split.train_x, split.train_y
    return training, split.test_x, split.test_y


def _words() -> tuple:
    train, test = load_digit_words()
    x, x_test = (js.chains.chain_inputs(js.Ragged(w.pixels, w.offsets)) for w in (train, test))
    training = js.chains.chain(64, 10), x, js.Ragged(train.labels, train.offsets)
    return training, x_test, test.labels


@pytest.mark.parametrize(
    ("case", "optimum", "error"), [(_digits, 29.934144, 0.03), (_words, 28.64182, 0.065)]
)
def test_the_certificate_encloses_the_optimum(case, optimum, error) -> None:
    (problem, x, y), x_test, y_test = case()
    solution = js.fit(problem, x, y, "svm1_margin", C=0.1 * len(y))
    assert solution.status is js.Status.CONVERGED
    assert 0.999 * optimum < solution.dual <= optimum + 1e-4
    assert optimum - 1e-4 <= solution.primal < 1.001 * optimum
    found = js.predict(problem, solution, x_test)
    assert np.mean(getattr(found, "rows", found) != y_test) < error
