"""Potentials of a factor graph and the score of a labelling under them.

F(y) = sum_v nodes[v, y_v] + sum_e pairs[e, y_a, y_b],   edge e = (a, b)

(the slides' "Undirected Graphical Models": P(y) = exp(F(y)) / Z). A potential of -inf forbids, so
that nodes may have different numbers of labels. Tables over three nodes and more become a node
whose labels are their joint labels; see `factors`.

Edge lists of common graphs, which builders and inputs take, are [E, 2] int32 in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.checks import as_array, checked_size, known
from jaxstruct.core.spec import array, one_example, refuse
from jaxstruct.core.types import AnyArray, Array, PyTree

PADDING = -1
"""The label of nodes beyond the last one, and both ends of edges beyond the last one."""


class GraphPotentials(NamedTuple):
    """Potentials of ONE graph of V nodes, E edges (both with padding) and at most S labels.

    A potential of -inf forbids; the others are finite. Entries beyond the last node and beyond the
    last edge are never read. `graph_potentials` builds and checks one.

    Fields:
      nodes: [V, S].
      edges: [E, 2] int32, two different nodes each; the first one has the first label axis. Several
        edges between the same two nodes count together.
      pairs: [E, S, S]; or, with kinds, [K, S, S] tables that edges share.
      number_of_nodes, number_of_edges: int32 scalars.
      kinds: [E] int32 in 0..K-1, which table an edge has; None for a table each.
    """

    nodes: AnyArray
    edges: AnyArray
    pairs: AnyArray
    number_of_nodes: AnyArray
    number_of_edges: AnyArray
    kinds: AnyArray | None = None


class Labelled(NamedTuple):
    """One labelling of a graph.

    Fields:
      labels: [V] int32, PADDING beyond the last node.
      score: scalar F(labels); -inf where a potential forbids it.
    """

    labels: Array
    score: Array


class GraphMarginals(NamedTuple):
    """Probabilities of labels and of pairs of joined labels of ONE graph.

    Fields:
      nodes: [V, S] p(y_v = s), 0 beyond the last node.
      pairs: [E, S, S] p(y_a = s, y_b = s') of edge (a, b), 0 beyond the last edge.
      log_partition: scalar log Z, of whatever kind the oracle computes.
    """

    nodes: Array
    pairs: Array
    log_partition: Array


def log_partition_of(found: Callable) -> Callable:
    """(potentials, ..) -> the log_partition of what is found, of which its marginals are the
    gradient: first derivatives in reverse mode.

    Args:
      found: (potentials, ..) -> a record that has the fields of `GraphMarginals`.
    """

    @jax.custom_vjp
    def value(potentials: GraphPotentials, *rest: PyTree) -> Array:
        return found(potentials, *rest).log_partition

    def forward(potentials: GraphPotentials, *rest: PyTree) -> tuple[Array, PyTree]:
        marginals = found(potentials, *rest)
        return marginals.log_partition, (marginals.nodes, marginals.pairs, [None] * len(rest))

    def backward(counts: PyTree, cotangent: Array) -> tuple:
        nodes, pairs, rest = counts
        return GraphPotentials(nodes * cotangent, None, pairs * cotangent, None, None), *rest

    value.defvjp(forward, backward)
    return value


def score_labels(potentials: GraphPotentials, labels: Array) -> Array:
    """F(y) of one labelling, differentiable in the potentials.

    Args:
      potentials: of one graph; see the module's equation.
      labels: [V] int32; nodes beyond the last one are ignored.

    Returns:
      The score, a scalar.
    """
    nodes = jnp.asarray(potentials.nodes)
    V, S = nodes.shape
    y = jnp.clip(labels, 0, S - 1)
    real = jnp.arange(V) < potentials.number_of_nodes
    total = jnp.sum(jnp.where(real, nodes[jnp.arange(V), y], 0))
    edges = jnp.clip(jnp.asarray(potentials.edges), 0, V - 1)
    E = edges.shape[0]
    tables = jnp.arange(E) if potentials.kinds is None else potentials.kinds
    pairs = jnp.asarray(potentials.pairs)[tables, y[edges[:, 0]], y[edges[:, 1]]]
    real = jnp.arange(E) < potentials.number_of_edges
    return total + jnp.sum(jnp.where(real, pairs, 0))


def checked_potentials(potentials: GraphPotentials) -> GraphPotentials:
    """Potentials of one graph as arrays of one floating dtype, a table for each edge.

    Raises:
      ValueError: they are no GraphPotentials, a shape does not fit, V or S is 0, or potentials are
        no floating-point numbers or edges no integers; where the values are known, a number of
        nodes or edges out of its range.
    """
    if not isinstance(potentials, GraphPotentials):
        raise ValueError(
            "potentials must be GraphPotentials (see graph_potentials), got "
            f"{type(potentials).__name__}"
        )
    integers = "edges", "number_of_nodes", "number_of_edges", "kinds"
    sizes: dict[str, int] = {}
    nodes, edges, pairs, *counts, kinds = one_example(
        "potentials", potentials, sizes, integers, nodes="V S", edges="E 2",
        pairs="E S S" if potentials.kinds is None else "K S S", number_of_nodes="",
        number_of_edges="", kinds="E",
    )  # fmt: skip
    for name, count, size, least in zip(integers[1:], counts, "VE", (1, 0), strict=False):
        if known(count) and not least <= int(np.asarray(count)) <= sizes[size]:
            raise ValueError(
                f"potentials.{name} must be in {least}..{sizes[size]}, got {int(np.asarray(count))}"
            )
    if kinds is not None:
        shape = sizes["E"], *pairs.shape[1:]
        pairs = pairs.at[kinds].get(mode="clip") if len(pairs) else jnp.zeros(shape, pairs.dtype)
    return GraphPotentials(nodes, edges, pairs, *counts)


def grid_edges(height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """(right, down): the edges of a grid whose cell (i, j) is node i width + j.

    Args:
      height, width: at least 1.

    Returns:
      Two arrays [E, 2] int32: from each cell to its right neighbour, and to the one below.

    Raises:
      ValueError: a size is no integer of at least 1.
    """
    shape = checked_size("height", height), checked_size("width", width)
    cells = np.arange(shape[0] * shape[1], dtype=np.int32).reshape(shape)
    right = np.stack([cells[:, :-1].ravel(), cells[:, 1:].ravel()], axis=1)
    down = np.stack([cells[:-1].ravel(), cells[1:].ravel()], axis=1)
    return right, down


def complete_edges(nodes: int) -> np.ndarray:
    """[V (V - 1) / 2, 2] int32: every pair (a, b) with a < b, in lexicographic order.

    Raises:
      ValueError: nodes is no integer of at least 1.
    """
    first, second = np.triu_indices(checked_size("nodes", nodes), 1)
    return np.stack([first, second], axis=1).astype(np.int32)


def checked_edges(name: str, edges: object, nodes: int) -> np.ndarray:
    """[E, 2] int32 edges of a simple graph.

    Args:
      name: of the argument. edges: array-like; an empty list is a graph without edges.
      nodes: V, how many there are.

    Raises:
      ValueError: they are no integers [E, 2], an end is not in 0..V-1, an edge joins a node to
        itself, or two edges join the same two nodes.
    """
    found = as_array(name, edges, "[E, 2] integers")
    if found.size == 0:
        return np.zeros((0, 2), np.int32)
    array(name, found, "E 2", within=(range(nodes), "the nodes, counted from 0"))
    words = "two nodes: put the potentials of an edge from a node to itself into those of the node"
    refuse(name, found, found[:, 0] == found[:, 1], words)
    ends = np.sort(found, axis=1)
    order = np.lexsort(ends.T[::-1])
    same = np.flatnonzero((ends[order][1:] == ends[order][:-1]).all(axis=1))
    if same.size:
        i, j = sorted(order[same[0] : same[0] + 2])
        raise ValueError(
            f"{name}[{i}] and {name}[{j}] both join {ends[i, 0]} and {ends[i, 1]}: add their "
            "potentials or features up into one edge"
        )
    return found.astype(np.int32)
