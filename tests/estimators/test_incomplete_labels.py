"""Labels with None and sets in estimators that take them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import jaxstruct as js
from jaxstruct.core.contract import Incomplete
from jaxstruct.estimators import MultiLabelClassifier, SequenceLabeller, StructuralClassifier
from tests.estimators.cases import ROWS, SETS
from tests.lib.refusals import refused


def sequences() -> tuple[list, list, list]:
    """(X, all labels, the same with half of them None and some sets).

    X has as many columns as the estimators fill it up to: `fit_random_field` shares the programs.
    """
    random = np.random.default_rng(0)
    centres = 2 * random.normal(size=(3, 4))
    numbers = [random.integers(0, 3, 6) for _ in range(30)]
    X = [centres[own] + random.normal(size=(6, 4)) for own in numbers]
    X = [np.pad(own, ((0, 0), (0, 12))) for own in X]
    labels = [["abc"[y] for y in own] for own in numbers]
    kinds = random.choice(3, (30, 6), p=[0.4, 0.5, 0.1])
    known = [
        [(y, None, {y, "a"})[kind] for y, kind in zip(own, row, strict=True)]
        for own, row in zip(labels, kinds.tolist(), strict=True)
    ]
    return X, labels, known


@pytest.mark.thorough
@pytest.mark.parametrize("objective", ["svm1_margin", "log_loss"])
def test_sequences_are_learned_from_half_of_their_labels(objective: str) -> None:
    X, labels, known = sequences()
    partly = SequenceLabeller(C=10.0, objective=objective).fit(X, known)
    assert partly.status_ is js.Status.CONVERGED and partly.classes_.tolist() == ["a", "b", "c"]
    assert partly.score(X, labels) > 0.85
    bound = 0.0 if objective == "svm1_margin" else -np.inf
    assert partly.dual_ == bound, "no sequence has all labels"
    if objective == "svm1_margin":
        trace = partly.solution_.details.trace
        assert (np.diff(trace.objective[~trace.warm]) <= 0).all(), "in float32, too"
    if objective == "log_loss":
        found = partly.predict_marginals(X)
        assert [len(one) for one in found] == [len(one) for one in labels]
        np.testing.assert_allclose(np.concatenate(found).sum(axis=1), 1, atol=1e-5)
        likely = partly.classes_[np.concatenate(found).argmax(axis=1)]
        assert np.mean(likely == sum(labels, [])) > 0.85


@pytest.mark.parametrize("objective", ["svm1_margin", "log_loss"])
def test_classes_are_learned_from_candidates(objective: str) -> None:
    X, labels, known = (np.concatenate(part)[:60] for part in sequences())
    X = X[:, :15]  # as many rows and columns as those of the other tests
    partly = StructuralClassifier(C=10.0, objective=objective).fit(X, known.tolist())
    assert partly.status_ is js.Status.CONVERGED
    assert partly.score(X, labels) > 0.85 and partly.predict(X[:2]).dtype.kind == "U"
    assert partly.coef_.shape == (3, 15)


@pytest.mark.thorough
def test_sets_are_learned_from_half_of_their_labels() -> None:
    known = np.where(np.random.default_rng(1).random(SETS.shape) < 0.5, SETS, None)
    model = MultiLabelClassifier(C=10.0).fit(ROWS, known)
    assert model.status_ is js.Status.CONVERGED
    assert (model.predict(ROWS) == SETS).mean() > 0.8
    refused("y must be .* zeros and ones", model.score, ROWS, known)


def test_a_random_field_ends_where_its_likelihood_is_flat() -> None:
    X, _, known = sequences()
    data = js.chains.prepare(X, known)
    weights = np.ones(30)  # as an estimator gives them, whose programs serve
    found = js.baselines.fit_random_field(*data, C=10.0, example_weights=weights)
    assert found.status is js.Status.CONVERGED and found.dual == -np.inf
    proof = js.baselines.certify_random_field(*data[:1], found.weights, *data[1:], C=10.0)
    assert proof.dual == -np.inf and proof.primal == pytest.approx(found.objective, rel=1e-5)
    zero = js.baselines.certify_random_field(
        *data[:1], data.problem.initial_weights, *data[1:], 10.0
    )
    table = data.outputs.known.rows
    share = -np.log(table.sum(axis=1) / 3).sum()  # at w = 0 all labels are alike
    assert zero.primal == pytest.approx(10.0 / 30 * share, rel=1e-4)
    restricted = data.problem._replace(model=data.problem.model._replace(restrict=None))
    refused("no Model.restrict", js.baselines.fit_random_field, restricted, *data[1:])


def test_what_is_not_solved_is_told_and_what_does_not_fit_is_refused() -> None:
    X, _, known = sequences()
    with pytest.warns(ConvergenceWarning, match="a critical point is known to"):
        SequenceLabeller(C=100.0, max_iter=1).fit(X, known)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        refused('must be "svm1_margin"', SequenceLabeller(objective="svm1_slack").fit, X, known)
    weighted: dict[str, Any] = {"class_weight": "balanced"}
    refused("all of y must be known", SequenceLabeller(**weighted).fit, X, known)
    x, y = np.concatenate(X), [one for own in known for one in own]
    refused("all of y must be known", StructuralClassifier(**weighted).fit, x, y)
    refused("X has 3 rows, but y has 2", StructuralClassifier().fit, [{"a": 1}] * 3, [None, 1])
    refused("at least two classes", StructuralClassifier().fit, x[:2], [None, 1])
    refused("numbers stand beside text", StructuralClassifier().fit, x[:3], [None, 1, "a"])
    for other in ("chains", "multiclass"):
        one = (X, known) if other == "chains" else (x, y)
        data = getattr(js, other).prepare(*one)
        assert isinstance(data.outputs, Incomplete)
        refused("outputs are Incomplete", js.baselines.perceptron, *data)
