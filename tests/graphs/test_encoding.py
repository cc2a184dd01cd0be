"""Graphs from people's own data: the four methods, names of nodes, edge features, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from jaxstruct.graphs import fit_encoding
from jaxstruct.solvers.predict import predict
from tests.lib.refusals import refused

GRAPHS = [
    ({"a": ["f0"], "b": ["f1"], "c": {"f0": 1}}, [("a", "b"), ("c", "b")]),
    ({"q": ["f1"], "p": ["f0"]}, [("p", "q")]),
]
LABELS = [{"c": "A", "b": "B", "a": "A"}, {"p": "A", "q": "B"}]
LISTS = [["A", "B", "A"], ["B", "A"]]


def test_labels_by_name_and_by_order() -> None:
    encoding = fit_encoding(GRAPHS, LABELS)
    assert encoding == fit_encoding(GRAPHS, LISTS) and encoding.nodes.names == ("f0", "f1")
    y = encoding.outputs(LABELS, GRAPHS)
    assert y.rows.tolist() == encoding.outputs(LISTS).rows.tolist() == [0, 1, 0, 1, 0]
    assert encoding.decode(y) == LISTS
    named = encoding.decode(y, GRAPHS)
    assert named == LABELS and [*named[0]] == ["a", "b", "c"]


def test_predictions_come_in_the_callers_order() -> None:
    encoding = fit_encoding(GRAPHS, LABELS, plans=True)
    problem = encoding.problem()
    w = {name: np.zeros(leaf.shape, np.float32) for name, leaf in problem.initial_weights.items()}
    w["nodes"][[0, 1], [0, 1]] = 1
    found = predict(problem, w, encoding.inputs(GRAPHS))
    assert encoding.decode(found, GRAPHS) == LABELS


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, lambda rows: rows.tolist()])
def test_rows_of_nodes_and_edges_of_every_kind(kind) -> None:
    graphs = [(kind(np.eye(3)), [(0, 1)], kind(np.ones((1, 2)))), (kind(np.ones((1, 3))), [])]
    encoding = fit_encoding(graphs, [[*"aba"], ["b"]], constant=1)
    x = encoding.inputs(graphs)
    assert x.number_of_nodes.tolist() == [3, 1] and x.number_of_edges.tolist() == [1, 0]
    problem = encoding.problem(symmetric=True)
    assert problem.initial_weights["nodes"].shape == (4, 2)
    assert problem.initial_weights["edges"].shape == (2, 4)


def test_ignored_attributes_are_no_features() -> None:
    graphs = [([{"x": 1.0, "label": "A"}, {"label": "B"}], [(0, 1)])]
    encoding = fit_encoding(graphs, [["A", "B"]], ignore=["label"])
    assert encoding.nodes.names == ("x",) and encoding.ignore == ("label",)


ENCODING = fit_encoding(GRAPHS, LABELS)
WITH_EDGES = fit_encoding([([["f0"], ["f1"]], [(0, 1)], [["e"]])], [["A", "B"]])
WRONG = {
    "mapping alone": (lambda: ENCODING.outputs(LABELS), r"labels\[0\] is a mapping .*give the gr"),
    "node missing": (
        lambda: fit_encoding(GRAPHS, [{"a": "A"}, LABELS[1]]), r"labels\[0\] lacks node 'b'",
    ),
    "node too many": (
        lambda: fit_encoding(GRAPHS, [LABELS[0] | {"z": "A"}, LABELS[1]]),
        r"labels\[0\] has nodes that the graph has not",
    ),
    "label missing": (
        lambda: fit_encoding(GRAPHS, [LISTS[0], ["A"]]),
        r"labels\[1\] has 1 labels, but graphs\[1\] has 2 nodes",
    ),
    "graph missing": (lambda: fit_encoding(GRAPHS, LISTS[:1]), "labels must be of n = 2 graphs"),
    "unseen": (lambda: ENCODING.outputs([["A", "C"]]), r"labels\[0\]\[1\]: 'C' is none of the 2"),
    "one label": (lambda: fit_encoding(GRAPHS, [["A"] * 3, ["A"] * 2]), "at least two labels"),
    "ignore": (lambda: fit_encoding(GRAPHS, LISTS, ignore="x"), "ignore must be a list of names"),
    "plans": (lambda: fit_encoding(GRAPHS, LISTS, plans=1), "plans must be True or False"),
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
