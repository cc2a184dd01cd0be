"""Graphs as people hold them: rows of nodes and edges, mappings by name, or of networkx.

A graph is one of

  (nodes, edges) or (nodes, edges, edge_features)
      nodes          rows of any kind of `core.feature_rows`, and edges pairs of their positions
                     0..V-1; or a mapping node -> row, and edges pairs of its keys, of any kind
      edges          a list of pairs, or an array [E, 2]; there may be none
      edge_features  rows, one an edge; None for none
  a graph of networkx (nothing of that library is needed but its interface): the attributes of nodes
      and edges are their features, by name
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from jaxstruct.core.checks import as_list, kind_and_text_of, text_of

GRAPH = (
    "(nodes, edges), (nodes, edges, edge_features) or a networkx graph: nodes are rows of features "
    "or a mapping node -> row, edges pairs of nodes"
)


class ReadGraph(NamedTuple):
    """One graph.

    Fields:
      nodes: V rows of features. names: the V nodes as the user calls them, None for positions.
      edges: [E, 2] positions of the ends. edge_features: E rows, or None where there are none.
    """

    nodes: Any
    names: tuple[Hashable, ...] | None
    edges: np.ndarray
    edge_features: Any


def read_graphs(graphs: Any, ignore: frozenset[str] = frozenset()) -> list[ReadGraph]:
    """Graphs of any of the kinds of this module.

    Args:
      graphs: a list of n graphs. ignore: names that are no features, such as that of a label.

    Raises:
      ValueError: one is no such graph, or an edge names a node that there is not.
    """
    if hasattr(graphs, "adj"):
        raise ValueError("graphs must be a list of graphs, got one graph: put it into a list")
    listed = as_list("graphs", graphs, f"a list of graphs, each {GRAPH}")
    return [_read(f"graphs[{i}]", one, ignore) for i, one in enumerate(listed)]


def _read(name: str, graph: Any, ignore: frozenset[str]) -> ReadGraph:
    if hasattr(graph, "adj") and callable(getattr(graph, "nodes", None)):
        return _of_networkx(name, graph, ignore)
    if not isinstance(graph, (tuple, list)) or len(graph) not in (2, 3):
        raise ValueError(f"{name} must be {GRAPH}, got {kind_and_text_of(graph)}")
    nodes, edges, features = (*graph, None)[:3]
    names = None
    if isinstance(nodes, Mapping):
        names, nodes = tuple(nodes), list(nodes.values())
    nodes, features = _without(nodes, ignore), _without(features, ignore)
    links = _positions(name, edges, names)
    count = features.shape[0] if hasattr(features, "shape") else len(features or ())
    if features is not None and count != len(links):
        raise ValueError(f"{name} has {count} rows of edge features for {len(links)} edges")
    return ReadGraph(nodes, names, links, features)


def _without(rows: Any, ignore: frozenset[str]) -> Any:
    """Rows that are mappings without some of their names; others as they are."""
    if not ignore or not isinstance(rows, (list, tuple)):
        return rows
    return [
        {key: value for key, value in row.items() if key not in ignore}
        if isinstance(row, Mapping)
        else row
        for row in rows
    ]


def _positions(name: str, edges: Any, names: tuple[Hashable, ...] | None) -> np.ndarray:
    """[E, 2] positions of nodes; `graph_inputs` looks at their range."""
    shape = getattr(edges, "shape", (0, 2))
    if hasattr(edges, "tocsr") or (len(shape) == 2 and shape[1] != 2 and edges.size):
        raise ValueError(f"{name}: edges must be pairs of nodes [E, 2], got {_what(edges)}")
    listed = as_list(f"{name}: edges", edges, "a list of pairs of nodes")
    for e, one in enumerate(listed):
        if isinstance(one, (str, bytes)) or not hasattr(one, "__len__") or len(one) != 2:
            raise ValueError(f"{name}: edges[{e}] must be a pair of nodes, got {text_of(one)}")
    if not listed:
        return np.zeros((0, 2), np.int32)
    if names is None:
        return np.asarray(listed)
    place = {node: position for position, node in enumerate(names)}
    for e, one in enumerate(listed):
        unknown = next((end for end in one if end not in place), None)
        if unknown is not None:
            raise ValueError(f"{name}: edges[{e}] joins {text_of(unknown)}, which is no node of it")
    return np.array([[place[end] for end in one] for one in listed], np.int32)


def _what(edges: Any) -> str:
    """Which array or matrix stands in place of edges, and how to make them of it."""
    if hasattr(edges, "tocsr"):
        return "a SciPy matrix: np.transpose(scipy.sparse.triu(A).nonzero()) makes them of A"
    if edges.shape[0] == 2:
        return f"an array of shape {edges.shape}: transpose it"
    return f"an array of shape {edges.shape}: np.argwhere(np.triu(A)) makes them of adjacency A"


def _of_networkx(name: str, graph: Any, ignore: frozenset[str]) -> ReadGraph:
    """Attributes as rows; edges have features where one of them has an attribute."""
    attributes: Iterable[tuple[Hashable, Mapping]] = graph.nodes(data=True)
    nodes = dict(attributes)
    triples = list(graph.edges(data=True))
    links = _positions(name, [triple[:2] for triple in triples], tuple(nodes))
    rows = _without([dict(triple[2]) for triple in triples], ignore)
    features = rows if any(rows) else None
    return ReadGraph(_without(list(nodes.values()), ignore), tuple(nodes), links, features)
