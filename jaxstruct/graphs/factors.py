"""Factor graphs from tables: P(y) = 1/Z exp(sum_j psi_j), each psi_j a table over a few nodes.

A table over one node is added to that node, one over two nodes to their edge. One over k >= 3
nodes becomes a further node, whose label is their joint label, and an edge of 0 and -inf to each of
them that holds both alike: F of a labelling with consistent further nodes is the sum of all tables,
any other labelling is forbidden. So every oracle serves tables of any size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxstruct.core.checks import as_list, checked_dtype, checked_size
from jaxstruct.core.spec import array, refuse
from jaxstruct.graphs.potentials import GraphPotentials, checked_edges

MOST_JOINT_LABELS = 4096
"""Joint labels of a table over three nodes and more, at most."""


class FactorGraph(NamedTuple):
    """Potentials of tables over any number of nodes.

    Fields:
      potentials: nodes 0..n-1 are those given, the others stand for tables of three nodes and more.
      labels: [n] int, how many labels each given node has.
      scopes: the nodes of every table, in the order given.
    """

    potentials: GraphPotentials
    labels: np.ndarray
    scopes: tuple[tuple[int, ...], ...]


def _table(name: str, value: object, axes: str, sizes: dict[str, int]) -> np.ndarray:
    """Log potentials: numbers, and -inf where they forbid."""
    found = array(name, value, axes, "numbers", sizes).astype(np.float64)
    wrong = np.isnan(found) | (found == np.inf)
    refuse(name, found, wrong, "potentials that are finite, or -inf where they forbid")
    return found


def _without_dead_ends(nodes: np.ndarray, edges: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """[V, S] bool: labels that every neighbour has a partner for (arc consistency)."""
    allowed, possible = nodes > -np.inf, pairs > -np.inf
    while True:
        before = allowed.copy()
        for (a, b), table in zip(edges, possible, strict=True):
            allowed[a] &= (table & allowed[b]).any(axis=1)
            allowed[b] &= (table & allowed[a][:, None]).any(axis=0)
        if (allowed == before).all():
            return allowed


def _check_some_output(nodes: np.ndarray, edges: np.ndarray, pairs: np.ndarray) -> None:
    """Raise ValueError where potentials of -inf are seen to leave no output.

    What passes may still leave none, on graphs with cycles; oracles then say -inf.
    """
    if (nodes > -np.inf).all() and (pairs > -np.inf).all():
        return
    allowed = _without_dead_ends(nodes, edges, pairs)
    dead = np.flatnonzero(~allowed.any(axis=1))
    if dead.size:
        raise ValueError(
            f"the potentials leave no output: every label of node {dead[0]} is forbidden by -inf "
            "in nodes or pairs"
        )


def graph_potentials(
    nodes: np.ndarray,
    edges: np.ndarray,
    pairs: np.ndarray,
    *,
    kinds: np.ndarray | None = None,
    dtype: str = "float32",
) -> GraphPotentials:
    """Potentials of one graph, checked.

    Args:
      nodes: [V, S], V >= 1; -inf forbids a label, as those beyond the last one of a node that has
        fewer than S.
      edges: [E, 2] integers, any simple graph (see `grid_edges`, `complete_edges`).
      pairs: [E, S, S], the first label axis that of edges[:, 0]; with
        kinds [K, S, S].
      kinds: [E] integers in 0..K-1, which table each edge has; None for a table each.
      dtype: "float32" or "float64".

    Raises:
      ValueError: a shape or a value does not fit, an edge is out of range, joins a node to itself
        or is there twice, or -inf is seen to leave no output.
    """
    dtype, sizes = checked_dtype(dtype), {}
    nodes = _table("nodes", nodes, "V S", sizes)
    if 0 in nodes.shape:
        raise ValueError(
            f"nodes must be [V, S] numbers, V >= 1 and S >= 1, got shape {nodes.shape}: a graph "
            "without nodes has no output"
        )
    V, S = nodes.shape
    edges = checked_edges("edges", edges, V)
    sizes["E"] = len(edges)
    given = np.zeros((0, S, S)) if not len(edges) and np.size(pairs) == 0 else pairs
    tables = _table("pairs", given, "E S S" if kinds is None else "K S S", sizes)
    chosen = None
    if kinds is not None:
        empty = not len(edges) and np.size(kinds) == 0
        rows = range(len(tables)), "a row of pairs"
        chosen = np.zeros(0, int) if empty else kinds
        chosen = array("kinds", chosen, "E", sizes=sizes, within=rows).astype(np.int32)
    _check_some_output(nodes, edges, tables if chosen is None else tables[chosen])
    return GraphPotentials(
        nodes.astype(dtype), edges, tables.astype(dtype), np.int32(V), np.int32(len(edges)), chosen
    )


def _checked_factor(
    number: int, scope: object, table: object, labels: np.ndarray
) -> tuple[tuple[int, ...], np.ndarray]:
    """(nodes, table) of one factor."""
    name = f"factors[{number}]"
    nodes = array(f"{name}[0]", scope, "nodes", within=(range(len(labels)), "nodes"))
    if not len(nodes) or len(set(nodes)) < len(nodes):
        raise ValueError(f"{name}[0] is {nodes.tolist()}: expected different nodes, at least one")
    found = _table(f"{name}[1]", table, " ".join(map(str, labels[nodes])), {})
    if found.size > MOST_JOINT_LABELS and len(nodes) > 2:
        most = f"at most {MOST_JOINT_LABELS} fit: split the table into smaller ones"
        raise ValueError(f"{name}[1] has {found.size} joint labels, {most}")
    return tuple(nodes.tolist()), found


def _joined(labels: np.ndarray, tables: list[tuple[tuple[int, ...], np.ndarray]]) -> tuple:
    """([n] tables of nodes, edges and their tables): tables over the same nodes are added up."""
    nodes, edges = [np.zeros(size) for size in labels], {}
    for scope, table in tables:
        if len(scope) == 1:
            nodes[scope[0]] = nodes[scope[0]] + table
        elif len(scope) == 2:
            key, own = (scope, table) if scope[0] < scope[1] else (scope[::-1], table.T)
            edges[key] = edges.get(key, 0) + own
        else:
            digits = np.stack(np.unravel_index(np.arange(table.size), table.shape))
            for v, own in zip(scope, digits, strict=True):
                alike = np.arange(labels[v])[:, None] == own
                edges[v, len(nodes)] = np.where(alike, 0, -np.inf)
            nodes.append(table.ravel())
    return nodes, edges


def _wide(table: np.ndarray, S: int) -> np.ndarray:
    return np.pad(table, [(0, S - size) for size in table.shape], constant_values=-np.inf)


def factor_graph(
    number_of_labels: Sequence[int],
    factors: Sequence[tuple[Sequence[int], np.ndarray]],
    *,
    dtype: str = "float32",
) -> FactorGraph:
    """The factor graph of log-potentials over any nodes; see the module.

    Args:
      number_of_labels: [n] of each node, at least 1.
      factors: (nodes, table) pairs; the table psi has an axis for each of its nodes, in that order.
        Several tables over the same nodes are added up.
      dtype: "float32" or "float64".

    Raises:
      ValueError: no nodes, nodes out of range or twice in one table, a table of another shape or
        with NaN or +inf, too large a table, or -inf is seen to leave no output.
    """
    sizes = as_list("number_of_labels", number_of_labels, "[n] integers, at least one")
    if not sizes:
        raise ValueError("number_of_labels is empty: a graph without nodes has no output")
    labels = np.array([checked_size(f"number_of_labels[{i}]", s) for i, s in enumerate(sizes)])
    tables = []
    for number, factor in enumerate(as_list("factors", factors, "(nodes, table) pairs")):
        if not isinstance(factor, (tuple, list)) or len(factor) != 2:
            raise ValueError(f"factors[{number}] must be a (nodes, table) pair, got {factor!r:.80}")
        tables.append(_checked_factor(number, factor[0], factor[1], labels))
    nodes, edges = _joined(labels, tables)
    S = max(map(len, nodes))
    pairs = [_wide(table, S) for table in edges.values()]
    wide = np.stack([_wide(table, S) for table in nodes])
    ends = np.array(list(edges), np.int32).reshape(-1, 2)
    potentials = graph_potentials(wide, ends, np.reshape(pairs, (-1, S, S)), dtype=dtype)
    return FactorGraph(potentials, labels, tuple(scope for scope, _ in tables))
