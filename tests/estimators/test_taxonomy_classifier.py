"""TaxonomyClassifier: its tables are those of the multiclass output type."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import jaxstruct as js
from jaxstruct.estimators import StructuralClassifier, TaxonomyClassifier
from tests.estimators.cases import blobs, reordered
from tests.lib.refusals import refused

PATHS = {"c": ("top", "right"), "a": ("top", "left"), "b": ("top", "left"), "d": ("top", "right")}


def test_the_optimum_is_that_of_fit() -> None:
    X, y = blobs()
    model = TaxonomyClassifier(PATHS, constant=0.0).fit(X, y)
    assert model.classes_.tolist() == ["a", "b", "c", "d"] and model.coef_.shape == (4, 5)
    taxonomy = js.multiclass.taxonomy_from_paths({name: PATHS[name] for name in "abcd"})
    problem = js.multiclass.multiclass(
        5, 4, output_features=js.multiclass.taxonomy_features(taxonomy, normalise=True),
        loss=js.multiclass.tree_loss(taxonomy),
    )  # fmt: skip
    numbers = np.searchsorted(model.classes_, y).astype(np.int32)
    solution = js.fit(problem, X, numbers, "svm1_margin", C=100.0)
    assert model.primal_ >= solution.dual and solution.primal >= model.dual_
    assert np.mean(js.predict(problem, solution, X) == numbers) == pytest.approx(
        model.score(X, y), abs=0.05
    )


def test_without_a_taxonomy_it_is_the_plain_one() -> None:
    X, y = blobs()
    plain = StructuralClassifier().fit(X, y)
    np.testing.assert_array_equal(TaxonomyClassifier().fit(X, y).coef_, plain.coef_)
    flat = TaxonomyClassifier(PATHS, shared=False, loss="zero_one").fit(X, y)
    assert flat.coef_.shape == (4, 5) and flat.score(X, y) > 0.9


def test_a_pipeline_and_a_grid_search() -> None:
    X, y = blobs()
    model = make_pipeline(StandardScaler(), TaxonomyClassifier(PATHS, constant=0.0))
    grid = {"taxonomyclassifier__C": [1.0, 100.0]}
    search = GridSearchCV(model, grid, cv=reordered(60)).fit(X, y)
    assert search.best_score_ > 0.9 and search.score(X, y) > 0.9


@pytest.mark.parametrize(
    ("taxonomy", "message"),
    [(["a"], "taxonomy must be"), ({"a": (), "b": ()}, r"y\[2\] is 'c', none of the 2 classes")],
)
def test_errors_name_the_class(taxonomy: object, message: str) -> None:
    refused(message, lambda: TaxonomyClassifier(taxonomy).fit(*blobs()))
