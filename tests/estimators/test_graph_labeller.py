"""GraphLabeller: graphs in, labels out."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import jaxstruct as js
from jaxstruct.estimators import GraphLabeller
from tests.estimators.cases import reordered
from tests.lib.refusals import refused

EDGES = [(0, 1), (1, 2), (2, 3)]


def paths(n: int = 24) -> tuple[list, list]:
    """n paths of four nodes that mostly have one label, seen through noise."""
    random = np.random.default_rng(0)
    labels = np.repeat(random.integers(0, 2, n)[:, None], 4, axis=1)
    labels[: n // 4, 2:] = 1 - labels[: n // 4, 2:]
    cells = np.eye(2)[labels] + 0.6 * random.normal(size=(n, 4, 2))
    names = np.array(["low", "high"])
    return [(own, EDGES) for own in cells], [names[own].tolist() for own in labels]


def test_the_optimum_is_that_of_fit() -> None:
    X, y = paths()
    model = GraphLabeller(plans=True, constant=0.0).fit(X, y)
    solution = js.fit(*js.graphs.prepare(X, y, plans=True), "svm1_margin", C=100.0)
    assert model.primal_ >= solution.dual and solution.primal >= model.dual_
    assert model.classes_.tolist() == ["high", "low"] and model.score(X, y) > 0.9
    named = [({i: row for i, row in enumerate(nodes)}, edges) for nodes, edges in X]
    as_mapping = [dict(enumerate(one)) for one in y]
    assert model.predict(named)[0] == dict(enumerate(model.predict(X)[0]))
    assert model.score(named, as_mapping) == model.score(X, y)


def test_log_loss_and_its_certificate() -> None:
    X, y = paths()
    model = GraphLabeller(plans=True, objective="log_loss").fit(X, y)
    assert model.status_ is js.Status.CONVERGED and model.primal_ >= model.dual_ > 0
    assert model.score(X, y) > 0.9


@pytest.mark.thorough
def test_a_pipeline_and_a_grid_search() -> None:
    X, y = paths()
    model = make_pipeline(FunctionTransformer(list), GraphLabeller(plans=True, constant=0.0))
    grid = {"graphlabeller__C": [1.0, 100.0]}
    search = GridSearchCV(model, grid, cv=reordered(24)).fit(X, y)
    assert search.best_score_ > 0.8


def test_a_graph_without_attributes_learns_by_its_edges(tmp_path) -> None:
    graphs = [({"p": {}, "q": {}, "r": {}}, [("p", "q"), ("q", "r")])]
    labeller = GraphLabeller(C=10.0, plans=True).fit(graphs, [[*"aba"]])
    assert labeller.encoding_.nodes.names == ("constant",)
    model = js.load(js.save(labeller, tmp_path / "m"))
    assert model.predict(graphs) == labeller.predict(graphs)
    with refused("name one at least"):
        GraphLabeller(constant=0.0).fit(graphs, [[*"aba"]])


def test_errors_name_the_graph() -> None:
    X, y = paths()
    with refused(r"labels\[0\] has 3 entries, but graphs\[0\] has 4: one each"):
        GraphLabeller().fit(X, [y[0][:3], *y[1:]])
