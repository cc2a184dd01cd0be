"""Edge lists of common graphs, [E, 2] int32 in NumPy: what the builders and inputs take."""

from __future__ import annotations

import numpy as np

from jaxstruct.core.checks import as_array, checked_size
from jaxstruct.core.spec import array, refuse


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
    array(name, found, "E 2", within=range(nodes), words="the nodes, counted from 0")
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
