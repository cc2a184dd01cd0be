"""SequenceLabeller: own data in, labels out, weights, marginals, pipelines and grids."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import jaxstruct as js
from jaxstruct.estimators import SequenceLabeller
from tests.estimators.cases import reordered, sentences
from tests.lib.refusals import refused


def _as_names(X: list) -> list:
    return [
        [[f"{key}={value}" for key, value in token.items() if value] for token in one] for one in X
    ]


def test_the_optimum_is_that_of_fit() -> None:
    X, y = sentences()
    model = SequenceLabeller().fit(X, y)
    solution = js.fit(*js.chains.prepare(X, y), "svm1_margin", C=100.0)
    assert model.primal_ >= solution.dual and solution.primal >= model.dual_
    assert model.classes_.tolist() == ["name", "next", "other"] and model.n_features_in_ == 7
    predicted = model.predict(X)
    right = [a == b for one, two in zip(predicted, y, strict=True) for a, b in zip(one, two)]  # noqa: B905
    assert model.score(X, y) == np.mean(right) > 0.75
    assert [len(one) for one in predicted] == [len(one) for one in y]
    assert pickle.loads(pickle.dumps(model)).predict(X) == predicted
    assert 0 < len(model.support_) <= 24


def test_a_weight_of_two_is_the_sequence_twice() -> None:
    X, y = sentences()
    weights = np.ones(24)
    weights[:4] = 2
    weighted = SequenceLabeller().fit(X, y, weights)
    twice = SequenceLabeller().fit(X + X[:4], y + y[:4])
    assert weighted.primal_ >= twice.dual_ and twice.primal_ >= weighted.dual_
    assert weighted.score(X, y, weights) == pytest.approx(
        weighted.score(X + X[:4], y + y[:4]), rel=1e-12
    )


def test_weights_of_labels_are_what_their_errors_cost() -> None:
    X, y = sentences()
    model = SequenceLabeller(1.0, class_weight={"name": 1, "next": 5, "other": 1}).fit(X, y)
    data = js.chains.prepare(X, y, loss=js.chains.label_weights([1, 5, 1]))
    solution = js.fit(*data, "svm1_margin", C=1.0)
    assert model.primal_ >= solution.dual and solution.primal >= model.dual_
    balanced = SequenceLabeller(1.0, class_weight="balanced").fit(X, y)
    assert balanced.primal_ != model.primal_
    with refused("class_weight needs"):
        SequenceLabeller(class_weight="balanced", objective="log_loss").fit(X, y)


def test_marginals_of_the_random_field() -> None:
    X, y = sentences()
    model = SequenceLabeller(objective="log_loss", window=1).fit(X, y)
    found = model.predict_marginals(X)
    assert [len(one) for one in found] == [len(one) for one in y]
    np.testing.assert_allclose(np.concatenate(found).sum(axis=1), 1, atol=1e-5)
    likely = [model.classes_[own.argmax(axis=1)].tolist() for own in found]
    right = [a == b for one, two in zip(likely, y, strict=True) for a, b in zip(one, two)]  # noqa: B905
    assert np.mean(right) > 0.95
    assert not hasattr(SequenceLabeller(), "predict_marginals")


def test_a_pipeline_and_a_grid_search() -> None:
    X, y = sentences()
    model = make_pipeline(FunctionTransformer(_as_names), SequenceLabeller())
    grid = {"sequencelabeller__C": [1.0, 100.0]}
    search = GridSearchCV(model, grid, cv=reordered(24)).fit(X, y)
    assert search.best_score_ > 0.7 and len(search.predict(X)) == 24
    assert clone(model)[-1].get_params() == SequenceLabeller().get_params()


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (lambda y: y[:-1], "X has 24 sequences, but y has 23"),
        (lambda y: [y[0][:-1], *y[1:]], r"y\[0\] has \d labels, but X\[0\] has \d tokens"),
        (lambda y: [["a"] * len(one) for one in y], "at least two labels"),
    ],
)
def test_errors_name_the_place(y: object, message: str) -> None:
    X, labels = sentences()
    refused(message, lambda: SequenceLabeller().fit(X, y(labels)))
