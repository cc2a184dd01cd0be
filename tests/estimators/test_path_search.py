"""PathSearchCV against GridSearchCV."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from jaxstruct.core.compiling import programs_traced
from jaxstruct.core.feature_encoding import UnseenFeatures
from jaxstruct.estimators import (
    DocumentRanker,
    PathSearchCV,
    SequenceLabeller,
    StructuralClassifier,
)
from tests.estimators.cases import blobs, reordered, sentences
from tests.lib.refusals import refused

CS = [100.0, 1.0, 10.0]


def test_it_finds_what_the_grid_finds_in_a_pipeline() -> None:
    X, y = blobs()
    model = make_pipeline(StandardScaler(), StructuralClassifier())
    path = PathSearchCV(model, CS, cv=3).fit(X, y)
    grid = GridSearchCV(model, {"structuralclassifier__C": sorted(CS)}, cv=3).fit(X, y)
    expected = [grid.cv_results_[f"split{fold}_test_score"] for fold in range(3)]
    np.testing.assert_allclose(path.scores_, expected, atol=0.051)  # one example of a fold
    assert path.Cs_.tolist() == sorted(CS) and path.C_ in CS
    assert path.best_score_ == path.mean_scores_.max()
    assert path.best_estimator_[-1].C == path.C_ and path.estimator[-1].C == 100.0
    np.testing.assert_array_equal(path.predict(X), path.best_estimator_.predict(X))
    assert path.classes_.tolist() == ["a", "b", "c"] and path.n_features_in_ == 5
    assert path.score(X, y) > 0.9 and not hasattr(path, "predict_proba")


def test_other_folds_compile_nothing() -> None:
    X, y = blobs()
    values = [0.1, 1.0, 0.01]  # at which no fold stalls, so that none needs a Newton step
    search = PathSearchCV(StructuralClassifier(), values, cv=KFold(2), refit=False).fit(X, y)
    before = programs_traced()
    again = PathSearchCV(StructuralClassifier(), values, cv=KFold(5), refit=False).fit(X, y)
    assert programs_traced() == before
    assert search.scores_.shape == (2, 3) and again.scores_.shape == (5, 3)
    assert not hasattr(again, "best_estimator_")


def test_scores_and_weights_are_those_asked_for() -> None:
    X, y = blobs()
    weights = np.where(y == "a", 1.0, 0.0) + 0.01
    plain = PathSearchCV(StructuralClassifier(), [10.0], cv=2).fit(X, y, weights)
    named = PathSearchCV(StructuralClassifier(), [10.0], cv=2, scoring="f1_macro").fit(X, y)
    direct = StructuralClassifier(10.0).fit(X, y, weights)
    np.testing.assert_array_equal(plain.best_estimator_.coef_, direct.coef_)
    assert 0 < named.best_score_ <= 1 and named.score(X, y) > 0.8


def test_features_of_examples_held_out_are_told_of_in_one_warning() -> None:
    X, y = [["a", "x"], ["b", "x"]] * 4, [0, 1] * 4
    X[0] = ["a", "rare"]
    with pytest.warns(UnseenFeatures) as warned:
        PathSearchCV(StructuralClassifier(tol=0.1), [1.0, 10.0], cv=KFold(4)).fit(X, y)
    (text,) = [str(one.message) for one in warned if one.category is UnseenFeatures]
    assert "in 2 of 8 scorings of examples held out, X names feature 'rare', which" in text


def test_unsolved_trainings_are_told_in_one_warning() -> None:
    with pytest.warns(ConvergenceWarning) as warned:
        path = PathSearchCV(StructuralClassifier(max_iter=1), [1e3, 1e4], cv=3).fit(*blobs())
    (text,) = [str(one.message) for one in warned if issubclass(one.category, ConvergenceWarning)]
    assert (
        "7 of 7 trainings did not reach tol, the last of them: StructuralClassifier: PASS" in text
    )
    assert f"PASS_LIMIT at C={path.C_:g}, the relative gap is" in text
    with pytest.warns(ConvergenceWarning, match="StructuralClassifier: PASS_LIMIT"):  # as before
        StructuralClassifier(1e4, max_iter=1).fit(*blobs())


@pytest.mark.parametrize(
    ("estimator", "Cs", "message"),
    [
        (LinearSVC(), [1.0], "estimator must be"),
        (StructuralClassifier(), [], "Cs must be"),
        (StructuralClassifier(), [1.0, -1.0], "Cs must be"),
    ],
)
def test_errors_name_the_argument(estimator: object, Cs: list, message: str) -> None:
    refused(message, lambda: PathSearchCV(estimator, Cs).fit(*blobs()))


@pytest.mark.thorough
def test_flat_queries_are_searched_in_a_pipeline() -> None:
    """With folds of whole queries, whatever the order of the rows."""
    random = np.random.default_rng(0)
    ids = random.permutation(np.repeat(np.arange(12), 5))
    X, noise = random.normal(size=(60, 3)) * [1, 5, 0.2] + 7, random.normal(size=60)
    y = np.clip(np.round(X[:, 0] - 7 + 0.3 * noise + 1), 0, 2).astype(int)
    ranker = make_pipeline(StandardScaler(), DocumentRanker(tol=1e-2))
    path = PathSearchCV(ranker, [0.1, 10.0], cv=3).fit(X, y, groups=ids)
    assert path.scores_.shape == (3, 2) and path.best_score_ > 0.8
    again = path.best_estimator_[-1].predict(path.best_estimator_[0].transform(X), groups=ids)
    np.testing.assert_array_equal(path.predict(X, groups=ids), again)
    assert path.score(X, y, groups=ids) > 0.8
    with refused("groups are of a DocumentRanker, and of scoring None"):
        PathSearchCV(StructuralClassifier()).fit(X, y, groups=ids)
    with refused(r"groups must be \[60\]"):
        path.fit(X, y, groups=ids[:9])


def test_options_of_predict_are_those_of_the_estimator() -> None:
    X, y = sentences()
    search = PathSearchCV(SequenceLabeller(), [1.0, 100.0], cv=reordered(24)).fit(X, y)
    assert search.scores_.shape == (2, 2)
    assert search.predict(X, no_output="raise") == search.predict(X)
    refused("no_output is .x.; choose", search.predict, X, no_output="x")
