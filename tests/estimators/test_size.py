"""Fitted estimators keep no planes: in memory, pickles, copies and model selection."""

from __future__ import annotations

import copy
import pickle

import jax
import numpy as np
from sklearn.model_selection import GridSearchCV

from jaxstruct import explain, fit, support_outputs
from jaxstruct.estimators import MeasureClassifier, StructuralClassifier
from jaxstruct.solvers.checkpoints.run_state import save_solution
from tests.estimators.cases import CLASSES, ROWS
from tests.lib.refusals import refused


def held(estimator) -> int:
    """Bytes of the arrays in its solution."""
    return sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves(estimator.solution_.state))


def test_planes_of_a_sample_are_left_out():
    """A plane is [600] labels, and there are 64 slots of them: 150 kB, beside 16 bytes of w."""
    random = np.random.default_rng(0)
    X = random.normal(size=(600, 3))
    model = MeasureClassifier(C=10.0).fit(X, (X[:, 0] + random.normal(size=600) > 0.5).astype(int))
    data = model._checked(X, model.predict(X), None)
    planes = fit(data.problem, data.inputs, data.outputs, "svm1_margin", 10.0).state.sets
    whole = sum(leaf.nbytes for leaf in jax.tree.leaves(planes.outputs))
    assert whole >= 64 * 600 * 4 and held(model) < whole / 4
    again = pickle.loads(pickle.dumps(model))
    for other in (again, copy.deepcopy(model), copy.copy(model)):
        assert other.solution_.state is None
        np.testing.assert_array_equal(other.predict(X), model.predict(X))
    assert max(len(pickle.dumps(one)) for one in (again, model)) < 10_000
    assert model.solution_.state is not None  # as it was


def test_the_fitted_one_still_says_what_carries_it(tmp_path):
    model = StructuralClassifier(C=10.0).fit(ROWS, CLASSES)
    support = support_outputs(model.solution_)
    assert len(support.example) and (support.alpha > 0).all()
    i = int(model.support_[0])
    assert len(explain(model, example=i).tables[0].outputs) > 0
    again = pickle.loads(pickle.dumps(model))
    refused("solution has no support outputs: it is of a pickle", explain, again, example=i)
    for given in (model, again):
        refused("must have its dual variables", save_solution, tmp_path / "s", given.solution_)


def test_what_a_search_returns_is_small():
    found = GridSearchCV(StructuralClassifier(), {"C": [1.0, 10.0]}, cv=2).fit(ROWS, CLASSES)
    assert held(found.best_estimator_) < 10_000
    assert pickle.loads(pickle.dumps(found)).best_estimator_.solution_.state is None
