"""Graphs from people's own data: the four methods, names of nodes, edge features, refusals."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from scipy import sparse

from jaxstruct.graphs import prepare, prepare_sets
from jaxstruct.graphs.given_graphs import read_graphs
from jaxstruct.solvers.predict import predict
from tests.lib.refusals import refused


class Network(dict):
    """What of networkx is read: nodes(data=True), edges(data=True), adj."""

    adj: Mapping = {}

    def __init__(self, nodes: dict, edges: dict) -> None:
        super().__init__(nodes)
        self.ends = edges

    def nodes(self, data: bool = False) -> list:
        return list(self.items() if data else self)

    def edges(self, data: bool = False) -> list:
        return [(*ends, own) if data else ends for ends, own in self.ends.items()]


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


def test_rows_of_nodes_and_edges() -> None:
    graphs = [(np.eye(3), [(0, 1)], np.ones((1, 2))), (np.ones((1, 3)), [])]
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


@pytest.mark.parametrize("edges", [[(0, 1), (1, 2)], [[0, 1], [1, 2]], np.array([[0, 1], [1, 2]])])
def test_edges_of_positions(edges) -> None:
    nodes = np.eye(3)
    (graph,) = read_graphs([(nodes, edges)])
    assert graph.nodes is nodes and graph.names is None and graph.edge_features is None
    assert graph.edges.tolist() == [[0, 1], [1, 2]]
    (empty,) = read_graphs([(nodes, [])])
    assert empty.edges.shape == (0, 2)


def test_edges_of_named_nodes() -> None:
    nodes = {"x": ["a"], ("t", 1): {"b": 2}, 7: []}
    (graph,) = read_graphs([(nodes, [(7, "x"), ("x", ("t", 1))], [["e"], []])])
    assert graph.names == ("x", ("t", 1), 7) and graph.nodes == [["a"], {"b": 2}, []]
    assert graph.edges.tolist() == [[2, 0], [0, 1]] and graph.edge_features == [["e"], []]


def test_a_network_has_its_attributes_as_features() -> None:
    nodes = {"x": {"colour": "red", "label": "A"}, "y": {"size": 2.0, "label": "B"}}
    network = Network(nodes, {("y", "x"): {"weight": 0.5}})
    (graph,) = read_graphs([network], frozenset({"label"}))
    assert graph.nodes == [{"colour": "red"}, {"size": 2.0}] and graph.names == ("x", "y")
    assert graph.edges.tolist() == [[1, 0]] and graph.edge_features == [{"weight": 0.5}]
    (bare,) = read_graphs([Network(nodes, {("y", "x"): {}})])
    assert bare.edge_features is None and "label" in bare.nodes[0]


SET_ROWS = [["f0", "f1"], ["f1"], ["f2"], []]
SETS = [{"u", "v"}, {"v"}, {"w"}, set()]
OF_SETS = prepare_sets(SET_ROWS, SETS, constant=0).encoding


def test_sets_come_back_from_their_numbers() -> None:
    y = OF_SETS.outputs(SETS)
    assert y.dtype == np.int32
    assert y.tolist() == [[1, 1, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]]
    assert OF_SETS.decode(y) == SETS
    assert OF_SETS.outputs([["v", "u"], ("v", "v")]).tolist() == [[1, 1, 0], [0, 1, 0]]


def test_sets_are_predicted_in_the_callers_order() -> None:
    problem = OF_SETS.problem()
    w = {name: np.zeros(leaf.shape, np.float32) for name, leaf in problem.initial_weights.items()}
    columns = [OF_SETS.features.index.columns[name] for name in ("f0", "f1", "f2")]
    w["labels"][columns] = np.eye(3)
    assert OF_SETS.decode(predict(problem, w, OF_SETS.inputs(SET_ROWS))) == SETS


def test_many_labels_are_not_enumerated() -> None:
    labels = [[number] for number in range(15)]
    encoding = prepare_sets(np.eye(15), labels).encoding
    assert encoding.problem().oracles.contenders is None  # message passing, with a bound
    assert encoding.problem(inference="enumeration").oracles.contenders is not None
    assert prepare_sets(np.eye(14), labels[:14]).encoding.problem().oracles.contenders is not None


def test_graphs_that_are_none_are_refused() -> None:
    two = np.eye(2)
    for graphs, message in (
        (Network({}, {}), "graphs must be a list of graphs, got one graph: put it into a list"),
        ([3], r"graphs\[0\] must be \(nodes, edges\), .* got int 3"),
        ([(two, [(0, 1, 2)])], r"graphs\[0\]: edges\[0\] must be a pair of no"),
        ([(np.eye(3), np.eye(3))], r"pairs of nodes \[E, 2\], got .*np.argwhere\(np.triu"),
        ([(np.eye(3), sparse.eye_array(3))], "got a SciPy matrix: np.transpose"),
        ([(np.eye(3), np.zeros((2, 5)))], "got an array of shape .*: transpose it"),
        ([(two, 3)], r"graphs\[0\]: edges must be a list of pairs of nodes"),
        ([({"x": []}, [("x", "z")])], r"graphs\[0\]: edges\[0\] joins 'z', which is no no"),
        ([(two, [(0, 1)], two)], r"graphs\[0\] has 2 rows of edge features for 1 edges"),
    ):
        refused(message, read_graphs, graphs)


def test_labels_that_do_not_fit_are_refused() -> None:
    refused(r"labels\[0\] is a mapping .*give the gr", ENCODING.outputs, LABELS)
    refused(r"labels\[0\]\[1\]: 'C' is none of the 2", ENCODING.outputs, [["A", "C"]])
    for labels, message in (
        ([{"a": "A"}, LABELS[1]], r"labels\[0\] lacks node 'b'"),
        ([LABELS[0] | {"z": "A"}, LABELS[1]], r"labels\[0\] has nodes that the graph has not"),
        ([LISTS[0], ["A"]], r"labels\[1\] has 1 entries, but graphs\[1\] has 2: one each"),
        (LISTS[:1], "labels must be of n = 2 graphs, got 1"),
        ([["A"] * 3, ["A"] * 2], "at least two labels"),
    ):
        refused(message, prepare, GRAPHS, labels)
    refused("ignore must be a list of names", prepare, GRAPHS, LISTS, ignore="x")
    refused("plans must be True or False", prepare, GRAPHS, LISTS, plans=1)
    refused(r"graphs\[0\] has edges without features", WITH_EDGES.inputs, GRAPHS)
    new = [([["f0"], []], [(0, 1)], [["e"]])]
    refused(r"graphs\[0\] has edge features, which those of training had", ENCODING.inputs, new)
    refused(r"labels\[0\] must be a set of", prepare_sets, SET_ROWS, ["u", "v", "w", ""])
    refused("labels must be of n = 4 rows, got 2 sets", prepare_sets, SET_ROWS, SETS[:2])
    refused(r"labels\[0\]\[1\]: got None", prepare_sets, SET_ROWS[:1], [["u", None]])
    refused(r"labels\[1\]\[0\]: 'x' is none of the 3", OF_SETS.outputs, [["u"], ["x"]])
    refused(r"outputs must be \[n, L = 3\], got shape", OF_SETS.decode, np.eye(2))
