"""Sets of labels of which some are known, against enumeration."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import jaxstruct as js
from jaxstruct.core.contract import Incomplete
from tests.lib.incomplete import check_completions, check_same_as_fit, check_training
from tests.lib.refusals import refused

pytestmark = pytest.mark.usefixtures("x64")
LABELS = "abc"
KNOWN: list[Any] = [
    {"a": True, "b": False}, None, {"a", "c"}, {"c": None, "b": True}, {}, {"a": 1, "b": 0, "c": 1},
    set(),
]  # fmt: skip
"""The last but two is a mapping that names nothing."""
VALUES = [[1, 0, None], [None] * 3, [1, 0, 1], [None, 1, None], [None] * 3, [1, 0, 1], [0, 0, 0]]
X = np.random.default_rng(0).normal(size=(len(KNOWN), 2))
SETS = np.array([*itertools.product(range(2), repeat=3)])


def outputs_of(loss: str):
    """All sets, which agree with `KNOWN`, and Delta of each; see `tests.lib.incomplete`."""

    def of(i: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        wrong = np.array([[value not in (None, y) for value, y in zip(VALUES[i], own, strict=True)]
                          for own in SETS.tolist()])  # fmt: skip
        ones, zeros = VALUES[i].count(1), VALUES[i].count(0)
        if loss == "ranking":
            each = [0.5 / {1: ones, 0: zeros, None: 1}[value] for value in VALUES[i]]
            delta = wrong @ each if ones and zeros else np.zeros(len(SETS))
        else:
            delta = wrong.sum(axis=1) / (3 if loss == "normalised_hamming" else 1)
        return SETS, ~wrong.any(axis=1), delta

    return of


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("loss", ["hamming", "normalised_hamming", "ranking"])
def test_what_agrees_is_found_and_costs_nothing(loss: str, pairs: bool, dtype: str) -> None:
    data = js.graphs.prepare_sets(X, KNOWN, classes=LABELS, loss=loss, pairs=pairs, dtype=dtype)
    assert isinstance(data.outputs, Incomplete)
    check_completions(data, outputs_of(loss))


def test_training_ends_at_a_critical_point() -> None:
    data = js.graphs.prepare_sets(X, KNOWN, classes=LABELS, dtype="float64")
    check_training(data, outputs_of("hamming"), 5.0, tolerance=1e-5)
    sets = [{label for label, there in zip(LABELS, row, strict=True) if there} for row in SETS[:7]]
    named = [{label: label in own for label in LABELS} for own in sets]
    named[0]["a"] = False
    whole, known = (
        js.graphs.prepare_sets(X, own, classes=LABELS, dtype="float64") for own in (sets, named)
    )
    table = np.eye(2, dtype=bool)[whole.outputs]
    np.testing.assert_array_equal(known.outputs, whole.outputs)
    alike = [whole.problem, whole.inputs, Incomplete(whole.outputs, table)]
    check_same_as_fit(whole, alike, 5.0)


@pytest.mark.parametrize("objective", ["svm1_margin", "log_loss"])
def test_sets_are_learned_from_half_of_their_labels(objective: str) -> None:
    random = np.random.default_rng(1)
    X = random.normal(size=(60, 3))
    y = (X > 0).astype(int)
    known = np.where(random.random(y.shape) < 0.5, y, None)
    model = js.estimators.MultiLabelClassifier(C=10.0, objective=objective).fit(X, known)
    assert model.status_ is js.Status.CONVERGED
    assert (model.predict(X) == y).mean() > 0.8
    again = js.estimators.MultiLabelClassifier(C=10.0, objective=objective)
    again.fit(X, known, sample_weight=np.ones(60))
    np.testing.assert_allclose(again.coef_, model.coef_, rtol=1e-6)


def test_what_does_not_fit_is_refused() -> None:
    for rows, words in (
        ([{"a": 2}, *KNOWN[1:]], r"labels\[0\]\[0\]: 2 is none of the 2 known classes"),
        ([{"q": True}, *KNOWN[1:]], r"labels\[0\]\[0\]: 'q' is none of the 3"),
        ([{"a": np.nan}, *KNOWN[1:]], "a missing label"),
    ):
        refused(words, js.graphs.prepare_sets, X, rows, classes=LABELS)
    data = js.graphs.prepare_sets(X, KNOWN, classes=LABELS, loss="f1")
    refused("does not add up over labels", js.fit_latent, *data)
    relaxed = js.graphs.prepare_sets(X, KNOWN, classes=LABELS, inference="relaxed")
    refused("does not say what agrees", js.fit_latent, *relaxed)
    y = [[1, 0, None], [0, 5, 1]]
    refused(r"labels\[1\]\[1\]: 5", js.estimators.MultiLabelClassifier().fit, X[:2], y)
    model = js.estimators.MultiLabelClassifier().fit(X, SETS[:7])
    refused("y must be .* zeros and ones", model.score, X[:2], y)
