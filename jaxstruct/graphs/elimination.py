"""In which order the nodes of a graph are eliminated, planned on the host.

Eliminating a node joins all tables that hold it and maximises (or sums) it out; what is left is a
table over its neighbours, which then count as joined. With w neighbours at most (the width of the
order; 1 on forests, the treewidth at least) a table has S^(w + 1) entries. The order is found by
min-fill: next goes the node whose elimination joins the fewest pairs, then the one of the fewest
neighbours, then the lowest.

A plan is integers only, a row a node and a row an edge: it is padded and batched as its graph is,
and one program serves all plans of one width.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jaxstruct.core.checks import checked_size
from jaxstruct.core.types import AnyArray
from jaxstruct.graphs.potentials import checked_edges

MOST_ENTRIES = 1 << 16
"""Entries of one table, at most."""


class Elimination(NamedTuple):
    """An order of elimination of ONE graph, of width w; step k eliminates one node.

    A table of a step has an axis for its node, then one for each of w neighbours. Strides say where
    an entry of another table is, given the labels along these axes; powers of S come in when a
    program knows S, so that 1 + a stands for S^a and 0 for no axis.

    Fields:
      steps: [V, 2 + w + (w + 1)] int32: the node of the step, the step that takes its message (V
        where none does), its neighbours (-1 where there are fewer), and for each axis of the taking
        table its power in the message.
      edges: [E, 1 + (w + 1)] int32: the step that takes the table of an edge, and for each axis of
        that step its power in it.
    """

    steps: AnyArray
    edges: AnyArray

    @property
    def width(self) -> int:
        """w."""
        return self.edges.shape[-1] - 2


def _min_fill(nodes: int, edges: np.ndarray) -> tuple[list[tuple[int, list[int]]], int]:
    """((node, its neighbours then) in the order of elimination, the width)."""
    neighbours: list[set[int]] = [set() for _ in range(nodes)]
    for a, b in edges.tolist():
        neighbours[a].add(b)
        neighbours[b].add(a)

    def cost(v: int) -> tuple[int, int, int]:
        around = sorted(neighbours[v])
        fill = sum(b not in neighbours[a] for i, a in enumerate(around) for b in around[i + 1 :])
        return fill, len(around), v

    costs, order = {v: cost(v) for v in range(nodes)}, []
    while costs:
        v = min(costs, key=costs.__getitem__)
        around = sorted(neighbours[v])
        order.append((v, around))
        del costs[v]
        touched = set(around)
        for a in around:
            neighbours[a] |= set(around) - {a}
            neighbours[a].discard(v)
            touched |= neighbours[a]
        costs |= {a: cost(a) for a in touched}
    return order, max(1, *(len(around) for _, around in order))


def min_fill_width(nodes: int, edges: np.ndarray) -> int:
    """The width of the min-fill order, at least 1.

    Raises:
      ValueError: as `graph_potentials` of its edges.
    """
    return _min_fill(nodes, checked_edges("edges", edges, nodes))[1]


def elimination(nodes: int, edges: np.ndarray, width: int | None = None) -> Elimination:
    """The plan of one graph by min-fill.

    Args:
      nodes: V. edges: [E, 2] integers of a simple graph, as in its potentials.
      width: w of the plan, no smaller than that of the order; None for the latter. Plans of a batch
        must have one width.

    Raises:
      ValueError: as `graph_potentials` of its edges; width is smaller than that of the order found.
    """
    V = checked_size("nodes", nodes)
    edges = checked_edges("edges", edges, V)
    order, found = _min_fill(V, edges)
    w = found if width is None else checked_size("width", width)
    if w < found:
        raise ValueError(
            f"width is {w}, but the order found needs {found}: raise it, or take an oracle that "
            "needs no order (reweighted)"
        )
    step_of = {v: k for k, (v, _) in enumerate(order)}
    axes = [[v, *around] for v, around in order]
    steps = np.zeros((V, 2 + w + w + 1), np.int32)
    for k, (v, around) in enumerate(order):
        parent = min((step_of[a] for a in around), default=V)
        steps[k, :2], steps[k, 2 : 2 + w] = (v, parent), -1
        steps[k, 2 : 2 + len(around)] = around
        for i, a in enumerate(around):
            steps[k, 2 + w + axes[parent].index(a)] = w - i  # power w - 1 - i, plus one
    rows = np.zeros((len(edges), w + 2), np.int32)
    for e, (a, b) in enumerate(edges):
        k = min(step_of[int(a)], step_of[int(b)])
        rows[e, 0] = k
        rows[e, 1 + axes[k].index(a)], rows[e, 1 + axes[k].index(b)] = 2, 1
    return Elimination(steps, rows)
