"""SetMatcher: examples of pairs in, matchings out."""

from __future__ import annotations

import pytest
from sklearn.base import clone

import jaxstruct as js
from jaxstruct.estimators import SetMatcher
from tests.assignments.cases import examples
from tests.lib.refusals import refused


def test_the_optimum_is_that_of_fit():
    X, y = examples(9, 16)
    model = SetMatcher(C=16.0, loss="items").fit(X, y)
    solution = js.fit(*js.assignments.prepare(X, y, loss="items"), C=16.0)
    assert model.primal_ >= solution.dual and solution.primal >= model.dual_
    assert clone(model).get_params() == model.get_params()
    found = model.predict(X)
    right = sum(len({*a} & {*b}) for a, b in zip(found, y, strict=True))
    assert model.score(X, y) == pytest.approx(right / sum(map(len, y)))
    assert model.score(X, [dict(pairs) for pairs in y]) == model.score(X, y) > 0.6


def test_items_may_be_unmatched():
    X, y = examples(10, 16, unmatched=True, listed=True)
    model = SetMatcher(unmatched=True).fit(X, y)
    assert model.score(X, model.predict(X)) == 1.0
    assert model.score(X[:1], [[]], sample_weight=[2.0]) == (
        0.0 if model.predict(X[:1])[0] else 1.0
    )
    text = str(js.explain(model, example=int(model.support_[0]), data=X))
    assert "support outputs" in text and "('r0', " in text
    with refused(r"X has 16 examples, but y has 1"):
        model.score(X, y[:1])
    with refused('"log_loss" is none of SetMatcher'):
        SetMatcher(objective="log_loss").fit(*examples(9, 4))
