"""SegmentLabeller: sentences in, segments out, of the kind that was given."""

from __future__ import annotations

import pytest
from sklearn.base import clone

import jaxstruct as js
from jaxstruct.core.labels import UnseenLabels
from jaxstruct.estimators import SegmentLabeller
from tests.lib.refusals import refused
from tests.segments.cases import names, tagged

X, SPANS = names()


def test_the_optimum_is_that_of_fit():
    model = SegmentLabeller(C=10.0, phrases=["word"]).fit(X, SPANS)
    solution = js.fit(*js.segments.prepare(X, SPANS, phrases=["word"]), C=10.0)
    assert model.primal_ >= solution.dual and solution.primal >= model.dual_
    assert model.predict([[], *X]) == [[], *SPANS] and model.score(X, SPANS) == 1.0
    assert model.classes_.tolist() == ["O", "LOC", "PER"]
    assert clone(model).get_params() == model.get_params()
    # one of two segments is missed, and the other one found in 12: 2 * 12 / (12 + 24)
    half = [own[:1] for own in SPANS]
    assert model.score(X, half) == pytest.approx(2 / 3)
    weights = [1.0] * 6 + [0.0] * 6
    assert model.score(X, half[:6] + [[]] * 6, weights) == pytest.approx(2 / 3)
    assert model.score(X, tagged(X, SPANS)) == 1.0
    with refused("y must be of n = 12 sequences, got 1"):
        model.score(X, SPANS[:1])


def test_labels_that_training_did_not_have_are_told_of():
    model = SegmentLabeller(C=1.0, max_iter=1, tol=10.0).fit(X[:4], SPANS[:4])
    with pytest.warns(UnseenLabels, match="y has 1 labels that training did not"):
        model.score(X[:1], [[(0, 1, "ORG")]])
    with refused("y has the label 3, but training had text"):
        model.score(X[:1], [[(0, 1, 3)]])


def test_labels_come_back_as_labels():
    labels = tagged(X, SPANS)
    model = SegmentLabeller(objective="log_loss").fit(X, labels)
    assert model.predict(X) == labels and model.status_.name == "CONVERGED"
