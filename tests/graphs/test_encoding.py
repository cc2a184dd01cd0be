"""Graphs from people's own data: the four methods, names of nodes, edge features, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from jaxstruct.graphs import prepare
from jaxstruct.solvers.predict import predict
from tests.lib.refusals import refused

GRAPHS = [
    ({"a": ["f0"], "b": ["f1"], "c": {"f0": 1}}, [("a", "b"), ("c", "b")]),
    ({"q": ["f1"], "p": ["f0"]}, [("p", "q")]),
]
LABELS = [{"c": "A", "b": "B", "a": "A"}, {"p": "A", "q": "B"}]
LISTS = [["A", "B", "A"], ["B", "A"]]


def test_labels_by_name_and_by_order() -> None:
    encoding = prepare(GRAPHS, LABELS).encoding
    assert encoding == prepare(GRAPHS, LISTS).encoding and encoding.nodes.names == ("f0", "f1")
    y = encoding.outputs(LABELS, GRAPHS)
    assert y.rows.tolist() == encoding.outputs(LISTS).rows.tolist() == [0, 1, 0, 1, 0]
    assert encoding.decode(y) == LISTS
    named = encoding.decode(y, GRAPHS)
    assert named == LABELS and [*named[0]] == ["a", "b", "c"]


def test_predictions_come_in_the_callers_order() -> None:
    encoding = prepare(GRAPHS, LABELS, plans=True).encoding
    problem = encoding.problem()
    w = {name: np.zeros(leaf.shape, np.float32) for name, leaf in problem.initial_weights.items()}
    w["nodes"][[0, 1], [0, 1]] = 1
    found = predict(problem, w, encoding.inputs(GRAPHS))
    assert encoding.decode(found, GRAPHS) == LABELS


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, lambda rows: rows.tolist()])
def test_rows_of_nodes_and_edges_of_every_kind(kind) -> None:
    graphs = [(kind(np.eye(3)), [(0, 1)], kind(np.ones((1, 2)))), (kind(np.ones((1, 3))), [])]
    encoding = prepare(graphs, [[*"aba"], ["b"]], constant=1).encoding
    x = encoding.inputs(graphs)
    assert x.number_of_nodes.tolist() == [3, 1] and x.number_of_edges.tolist() == [1, 0]
    problem = encoding.problem(symmetric=True)
    assert problem.initial_weights["nodes"].shape == (4, 2)
    assert problem.initial_weights["edges"].shape == (2, 4)


def test_ignored_attributes_are_no_features() -> None:
    graphs = [([{"x": 1.0, "label": "A"}, {"label": "B"}], [(0, 1)])]
    encoding = prepare(graphs, [["A", "B"]], ignore=["label"]).encoding
    assert encoding.nodes.names == ("x",) and encoding.ignore == ("label",)


ENCODING = prepare(GRAPHS, LABELS).encoding
WITH_EDGES = prepare([([["f0"], ["f1"]], [(0, 1)], [["e"]])], [["A", "B"]]).encoding
WRONG = {
    "mapping alone": (lambda: ENCODING.outputs(LABELS), r"labels\[0\] is a mapping .*give the gr"),
    "node missing": (
        lambda: prepare(GRAPHS, [{"a": "A"}, LABELS[1]]), r"labels\[0\] lacks node 'b'",
    ),
    "node too many": (
        lambda: prepare(GRAPHS, [LABELS[0] | {"z": "A"}, LABELS[1]]),
        r"labels\[0\] has nodes that the graph has not",
    ),
    "label missing": (
        lambda: prepare(GRAPHS, [LISTS[0], ["A"]]),
        r"labels\[1\] has 1 entries, but graphs\[1\] has 2: one each",
    ),
    "graph missing": (lambda: prepare(GRAPHS, LISTS[:1]), "labels must be of n = 2 graphs, got 1"),
    "unseen": (lambda: ENCODING.outputs([["A", "C"]]), r"labels\[0\]\[1\]: 'C' is none of the 2"),
    "one label": (lambda: prepare(GRAPHS, [["A"] * 3, ["A"] * 2]), "at least two labels"),
    "ignore": (lambda: prepare(GRAPHS, LISTS, ignore="x"), "ignore must be a list of names"),
    "plans": (lambda: prepare(GRAPHS, LISTS, plans=1), "plans must be True or False"),
    "bare edges": (lambda: WITH_EDGES.inputs(GRAPHS), r"graphs\[0\] has edges without features"),
    "new edge features": (
        lambda: ENCODING.inputs([([["f0"], []], [(0, 1)], [["e"]])]),
        r"graphs\[0\] has edge features, which those of training had not",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_fit_is_refused(case: str) -> None:
    call, message = WRONG[case]
    refused(message, call)
