"""Graphs as people hold them: positions, names, networkx; and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from jaxstruct.graphs.given_graphs import read_graphs
from tests.graphs.networks import Network
from tests.lib.refusals import refused


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
    network = Network()
    network.add_node("x", colour="red", label="A")
    network.add_node("y", size=2.0, label="B")
    network.add_edge("y", "x", weight=0.5)
    (graph,) = read_graphs([network], frozenset({"label"}))
    assert graph.nodes == [{"colour": "red"}, {"size": 2.0}] and graph.names == ("x", "y")
    assert graph.edges.tolist() == [[1, 0]] and graph.edge_features == [{"weight": 0.5}]
    network.add_edge("y", "x")
    (bare,) = read_graphs([network])
    assert bare.edge_features is None and "label" in bare.nodes[0]


NETWORK = Network()
WRONG = {
    "one network": (NETWORK, "graphs must be a list of graphs, got one graph: put it into a list"),
    "a number": ([3], r"graphs\[0\] must be \(nodes, edges\), .* got int 3"),
    "one part": ([(np.eye(2),)], r"graphs\[0\] must be \(nodes, edges\)"),
    "edge of three": ([(np.eye(2), [(0, 1, 2)])], r"graphs\[0\]: edges\[0\] must be a pair of no"),
    "edge of a number": ([(np.eye(2), [3])], r"graphs\[0\]: edges\[0\] must be a pair of nodes"),
    "adjacency": ([(np.eye(3), np.eye(3))], r"pairs of nodes \[E, 2\], got .*np.argwhere\(np.triu"),
    "sparse": ([(np.eye(3), sparse.eye_array(3))], "got a SciPy matrix: np.transpose"),
    "two rows": ([(np.eye(3), np.zeros((2, 5)))], "got an array of shape .*: transpose it"),
    "no edges": ([(np.eye(2), 3)], r"graphs\[0\]: edges must be a list of pairs of nodes"),
    "unknown": ([({"x": []}, [("x", "z")])], r"graphs\[0\]: edges\[0\] joins 'z', which is no no"),
    "edge rows": (
        [(np.eye(2), [(0, 1)], np.eye(2))], r"graphs\[0\] has 2 rows of edge features for 1 edges",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_graph_is_refused(case: str) -> None:
    graphs, message = WRONG[case]
    refused(message, read_graphs, graphs)
