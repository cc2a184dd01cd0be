"""`DecisionRegressor`: costs to decisions, saved, cloned, in pipelines; and its encoding."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import jaxstruct as js
from tests.decisions.cases import ARCS
from tests.lib.refusals import refused

N, P = 40, 3
Regressor = js.estimators.DecisionRegressor


def examples(decisions, n=N):
    random = np.random.default_rng(0)
    x, W = random.normal(size=(n, P)), random.normal(size=(P, decisions.size.value))
    return x, 3 + x @ W


@pytest.mark.parametrize("sense", ["minimise", "maximise"])
def test_decisions_costs_and_the_score(sense):
    decisions = js.decisions.grid_paths(3, 3, sense=sense)
    X, costs = examples(decisions)
    model = Regressor(decisions=decisions, C=200.0).fit(X, costs)
    predicted, found = model.predict_costs(X), model.predict(X)
    assert np.array_equal(found, js.decisions.decide(decisions, predicted))
    regret = js.decisions.regret(decisions, predicted, costs)
    assert model.score(X, costs) == pytest.approx(-regret, rel=1e-6) and regret < 0.05
    assert model.dual_ <= model.primal_ and model.status_ is js.Status.CONVERGED
    one = np.eye(N)[3]
    alone = js.decisions.regret(decisions, predicted[3:4], costs[3:4])
    assert model.score(X, costs, one) == pytest.approx(-alone, abs=1e-9)


def test_saved_and_loaded_explained_and_cloned(tmp_path):
    for number, decisions in enumerate((
        js.decisions.shortest_paths(ARCS, 0, 4),
        js.decisions.knapsack([2, 3, 1], 4, 2),
        js.decisions.knapsack([2, 3, 1], np.inf),
        js.decisions.top_k(4, 2),
        js.decisions.matchings(2, 3),
    )):  # fmt: skip
        X, costs = examples(decisions)
        model = Regressor(decisions=decisions, C=10.0).fit(X, costs)
        path = tmp_path / str(number)
        js.save(model, path)
        loaded = js.load(path)
        assert np.array_equal(loaded.predict(X), model.predict(X))
        assert loaded.encoding.decisions.made == decisions.made
        assert loaded.encoding.decisions.sense == decisions.sense
    assert "constant" in str(js.explain(loaded))
    again = clone(model).fit(X, costs)
    assert np.array_equal(again.predict(X), model.predict(X))


def test_rows_of_all_kinds_and_a_pipeline():
    decisions = js.decisions.top_k(4, 2)
    X, costs = examples(decisions)
    X[np.abs(X) < 0.5] = 0
    whole = Regressor(decisions=decisions, C=10.0, tol=1e-4).fit(X, costs)
    named = [{str(j): value for j, value in enumerate(row) if value} for row in X]
    for rows in (csr_array(X), named):
        other = Regressor(decisions=decisions, C=10.0, tol=1e-4).fit(rows, costs)
        assert other.primal_ == pytest.approx(whole.primal_, rel=2e-4)
        np.testing.assert_allclose(other.predict_costs(rows), whole.predict_costs(X), atol=0.05)
        assert other.score(rows, costs) == pytest.approx(whole.score(X, costs), abs=0.02)
    scaled = make_pipeline(StandardScaler(), Regressor(decisions=decisions)).fit(X, costs)
    assert scaled.score(X, costs) <= 0


def test_instances_come_beside_the_rows():
    decisions = js.decisions.shortest_paths(ARCS, 0, 4)
    X, costs = examples(decisions)
    ends = js.decisions.Ends(np.tile([0, 1], N // 2), np.tile([4, 3], N // 2))
    data = js.decisions.DecisionInput(X, ends)
    model = Regressor(decisions=decisions, C=100.0).fit(data, costs)
    found = model.predict(data)
    assert np.array_equal(found, js.decisions.decide(decisions, model.predict_costs(data), ends))
    assert model.score(data, costs) <= 0
    wrong = data._replace(instance=ends._replace(target=np.full(N, 6)))
    refused(r"instances.target\[0\] is 6", model.predict, wrong)


def test_what_does_not_fit_is_refused(tmp_path):
    decisions = js.decisions.top_k(4, 2)
    X, costs = examples(decisions)
    refused("must be a Decisions", Regressor().fit, X, costs)
    refused(r"costs must be \[n = 40, d = 4\]", Regressor(decisions=decisions).fit, X, costs[:, :3])
    refused("NaN", Regressor(decisions=decisions).fit, X, costs * np.nan)
    model = Regressor(decisions=decisions).fit(X, costs)
    refused(r"y must be \[n = 40, d = 4\]", model.score, X, costs[:5])
    refused("columns", model.predict, X[:, :2])
    refused("log_loss", Regressor(decisions=decisions, objective="log_loss").fit, X, costs)

    def best(theta, instance):
        return decisions.best(theta, instance)

    mine = Regressor(decisions=js.decisions.own(4, best, "maximise")).fit(X, costs)
    assert np.array_equal(mine.predict(X), model.predict(X))
    refused("no code of yours", js.save, mine, tmp_path / "own")
