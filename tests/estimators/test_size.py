"""Fitted estimators keep no planes: in memory, pickles, copies and model selection."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import jax
import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from jaxstruct import explain, fit, support_outputs
from jaxstruct.estimators import MeasureClassifier, PathSearchCV, SequenceLabeller
from jaxstruct.solvers.checkpoints.run_state import save_solution
from tests.lib.refusals import refused

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(600, 3))
Y = (X[:, 0] + RANDOM.normal(size=600) > 0.5).astype(int)
WORDS = [[[f"w={w}"] for w in "abcdefgh"], [[f"w={w}"] for w in "hgfe"]]
TAGS = [list("XYXYXXYY"), list("YXYX")]


def held(estimator) -> int:
    """Bytes of the arrays in its solution."""
    return sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves(estimator.solution_.state))


@pytest.fixture(scope="module")
def measured():
    return MeasureClassifier(C=10.0).fit(X, Y)


def test_planes_of_a_sample_are_left_out(measured):
    """A plane is [600] labels, and there are 64 slots of them: 150 kB, beside 16 bytes of w."""
    data = measured._checked(X, Y, None)
    planes = fit(data.problem, data.inputs, data.outputs, "svm1_margin", 10.0).state.sets
    whole = sum(leaf.nbytes for leaf in jax.tree.leaves(planes.outputs))
    assert whole >= 64 * 600 * 4 and held(measured) < whole / 4
    again = pickle.loads(pickle.dumps(measured))
    for other in (again, copy.deepcopy(measured), copy.copy(measured)):
        assert other.solution_.state is None
        np.testing.assert_array_equal(other.predict(X), measured.predict(X))
    assert max(len(pickle.dumps(one)) for one in (again, measured)) < 10_000
    assert measured.solution_.state is not None  # as it was


def test_the_fitted_one_still_says_what_carries_it(tmp_path):
    model: Any = SequenceLabeller(C=10.0).fit(WORDS, TAGS)
    support = support_outputs(model.solution_)
    assert set(support.example) <= {0, 1} and (support.alpha > 0).all()
    table: Any = explain(model, example=0).tables[0]
    assert len(table.outputs) == np.sum(support.example == 0) > 0
    again = pickle.loads(pickle.dumps(model))
    refused("solution has no support outputs: it is of a pickle", explain, again, example=0)
    for given in (model, again):
        refused("must have its dual variables", save_solution, tmp_path / "s", given.solution_)


@pytest.mark.parametrize("search", ["path", "grid"])
def test_what_a_search_returns_is_small(search):
    Cs = [1.0, 10.0]
    inner = SequenceLabeller(C=1.0)
    found = (
        PathSearchCV(inner, Cs, cv=2) if search == "path" else GridSearchCV(inner, {"C": Cs}, cv=2)
    ).fit(WORDS * 2, TAGS * 2)
    assert held(found.best_estimator_) < 10_000
    assert pickle.loads(pickle.dumps(found)).best_estimator_.solution_.state is None
