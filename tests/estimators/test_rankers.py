"""DocumentRanker and MeasureClassifier: queries and samples in, orders and labels out."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import f1_score, ndcg_score
from sklearn.utils import estimator_checks as checks

import jaxstruct as js
from jaxstruct.estimators import DocumentRanker, MeasureClassifier, PathSearchCV
from tests.lib.refusals import refused
from tests.rankings.cases import queries


def rare(seed, n=200):
    """Rows and labels "no" and "yes", a tenth of them "yes"."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 4))
    return X, np.where(X[:, 0] + random.normal(size=n) > 1.8, "yes", "no")


@pytest.mark.smoke
def test_a_ranker_has_the_optimum_of_fit():
    X, y = queries(5, 20, most=3)
    ranker = DocumentRanker(C=20.0, at=2).fit(X, y)
    solution = js.fit(*js.rankings.prepare(X, y, at=2), C=20.0)
    assert ranker.primal_ >= solution.dual and solution.primal >= ranker.dual_
    assert clone(ranker).get_params() == ranker.get_params()
    scores = ranker.decision_function(X)
    for own, order in zip(scores, ranker.predict(X), strict=True):
        assert np.argsort(own).tolist() == np.argsort(order).tolist()
    pairs = zip(y, scores, strict=True)
    each = [ndcg_score([2.0**own - 1], [found], k=2) for own, found in pairs]
    assert ranker.score(X, y) == pytest.approx(np.mean(each), abs=1e-6)
    weights = np.arange(20)
    assert ranker.score(X, y, weights) == pytest.approx(np.average(each, weights=weights), abs=1e-6)
    with refused("y must have a relevance for each document of X"):
        ranker.score(X, [own[1:] for own in y])
    with refused('"log_loss" is none of DocumentRanker'):
        DocumentRanker(objective="log_loss").fit(X, y)


def test_labels_for_the_measure(tmp_path):
    X, y = rare(0)
    model = MeasureClassifier(C=100.0, tol=1e-2).fit(X, y)
    found = model.predict(X)
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.score(X, y) == pytest.approx(f1_score(y, found, pos_label="yes"))
    assert ((model.decision_function(X) > 0) == (found == "yes")).all()
    np.testing.assert_allclose(
        model.decision_function(X), X @ model.coef_[0] + model.intercept_[0], rtol=1e-5, atol=1e-5
    )
    plain = MeasureClassifier(C=100.0, loss="error_rate", tol=1e-2).fit(X, y)
    assert model.score(X, y) > f1_score(y, plain.predict(X), pos_label="yes")
    loaded = js.load(js.save(model, tmp_path / "own.model"))
    assert loaded.predict([X]) == [found.tolist()]
    assert "features of yes" in str(js.explain(loaded))


@pytest.mark.parametrize("check", [
    checks.check_classifier_not_supporting_multiclass, checks.check_classifiers_regression_target,
    checks.check_classifiers_one_label, checks.check_requires_y_none,
])  # fmt: skip
def test_scikit_learn_is_refused_in_its_words(check):
    """All of `check_estimator` passes, too, in 23 seconds: samples of many sizes are compiled."""
    check("MeasureClassifier", MeasureClassifier())


def test_a_search_of_c_scores_by_the_measure():
    X, y = rare(2)
    halves = np.arange(100), np.arange(100, 200)
    splits = [halves, halves[::-1]]
    search = PathSearchCV(MeasureClassifier(tol=1e-2), [1.0, 100.0], cv=splits).fit(X, y)
    each = []
    for train, test in splits:
        found = MeasureClassifier(1.0, tol=1e-2).fit(X[train], y[train]).predict(X[test])
        each.append(f1_score(y[test], found, pos_label="yes"))
    assert search.mean_scores_[0] == pytest.approx(np.mean(each))
    assert search.score(X, y) == search.best_estimator_.score(X, y) > 0
    refused("sample_weight must be None", search.score, X, y, np.ones(200))


def test_precision_at_labels_so_many():
    X, y = rare(1)
    model = MeasureClassifier(C=100.0, loss="precision_at", tol=1e-2).fit(X, y)
    found = model.predict(X) == "yes"
    assert found.sum() == (y == "yes").sum()
    assert model.decision_function(X)[found].min() >= model.decision_function(X)[~found].max()
    assert model.score(X, y) == pytest.approx((y[found] == "yes").mean())
    few = MeasureClassifier(C=100.0, loss="precision_at", at=5, tol=1e-2).fit(X, y)
    assert (few.predict(X) == "yes").sum() == 5


@pytest.mark.parametrize(
    ("words", "y", "options"),
    [
        ("Only binary classification is supported.*two classes, got 3", np.arange(200) % 3, {}),
        ("loss is 'ndcg'; choose one of", rare(0)[1], {"loss": "ndcg"}),
        ('"log_loss" is none of MeasureClassifier', rare(0)[1], {"objective": "log_loss"}),
    ],
)
def test_refusals(words, y, options):
    refused(words, MeasureClassifier(**options).fit, rare(0)[0], y)
