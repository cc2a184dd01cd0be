"""MultiLabelClassifier against `fit`, enumeration and independent logistic regressions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import jaxstruct as js
from jaxstruct.estimators import MultiLabelClassifier
from tests.estimators.cases import reordered
from tests.lib.refusals import refused


def scenes() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 5))
    y = (X[:, :3] + 0.4 * random.normal(size=(60, 3)) > 0).astype(int)
    y[y[:, 0] == 1, 1] = 0  # two labels that exclude each other
    return X, y


def test_the_optimum_is_that_of_fit() -> None:
    X, y = scenes()
    model = MultiLabelClassifier(constant=0.0).fit(X, y)
    problem = js.graphs.multi_label(5, 3)
    solution = js.fit(problem, X, y.astype(np.int32), "svm1_margin", C=100.0)
    assert model.primal_ >= solution.dual and solution.primal >= model.dual_
    assert model.coef_.shape == (3, 5) and model.pairs_.shape == (3, 2, 2)
    np.testing.assert_array_equal(model.decision_function(X) > 0, model.predict(X) == 1)
    np.testing.assert_array_equal(model.predict(csr_array(X)), model.predict(X))


def test_probabilities_are_those_of_enumeration() -> None:
    X, y = scenes()
    model = MultiLabelClassifier(objective="log_loss", tol=1e-3).fit(X, csr_array(y))
    found = model.predict_proba(X[:4])
    for x, row in zip(X[:4], found, strict=True):
        scores, own = model.coef_ @ x + model.intercept_, {}
        for labels in itertools.product((0, 1), repeat=3):
            pairs = zip(itertools.combinations(range(3), 2), model.pairs_, strict=True)
            own[labels] = np.exp(
                scores @ labels + sum(t[labels[a], labels[b]] for (a, b), t in pairs)
            )
        expected = sum(p * np.array(labels) for labels, p in own.items()) / sum(own.values())
        np.testing.assert_allclose(row, expected, rtol=1e-5)
    assert not hasattr(MultiLabelClassifier(), "predict_proba")


@pytest.mark.thorough
def test_independent_labels_are_logistic_regressions() -> None:
    X, y = scenes()
    model = MultiLabelClassifier(objective="log_loss", pairs=False, constant=0.0).fit(X, y)
    assert model.pairs_ is None
    for label in range(3):
        peer = LogisticRegression(C=100 / 60, fit_intercept=False).fit(X, y[:, label])
        expected = peer.predict_proba(X)[:, 1]
        np.testing.assert_allclose(model.predict_proba(X)[:, label], expected, atol=0.01)


@pytest.mark.thorough
def test_a_pipeline_and_a_grid_search() -> None:
    X, y = scenes()
    model = make_pipeline(StandardScaler(), MultiLabelClassifier(constant=0.0))
    grid = {"multilabelclassifier__C": [1.0, 100.0]}
    search = GridSearchCV(model, grid, cv=reordered(60)).fit(X, y)
    assert search.predict(X).shape == (60, 3) and search.best_score_ > 0.5


@pytest.mark.parametrize("y", [[["a"], ["b"]], np.full((2, 2), 2), [0, 1]])
def test_other_targets_are_told_of_the_binarizer(y: object) -> None:
    with refused(r"y must be \[n, L\].*MultiLabelBinarizer"):
        MultiLabelClassifier().fit(np.eye(2), y)
