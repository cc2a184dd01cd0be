"""Losses between classes as matrices Delta [k, k], float64, row = true class, column = prediction.

The tree loss needs heights in a partial order of nodes, given as `parents`: for every node the
indices of the nodes right above it. A node's ancestors are what upward chains reach from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from jaxstruct.core.checks import checked_size, text_of


class Taxonomic(Protocol):
    """What the tree loss reads of a taxonomy (`taxonomy.Taxonomy` has it)."""

    @property
    def parents(self) -> tuple[tuple[int, ...], ...]:
        """The nodes right above each node."""
        ...

    @property
    def classes(self) -> tuple[int, ...]:
        """The node of each class."""
        ...


def zero_one_loss(k: int) -> np.ndarray:
    """Returns Delta(y, y') = 1 - [y = y'], [k, k] float64."""
    return 1.0 - np.eye(checked_size("k", k))


def parents_first(parents: Sequence[Sequence[int]]) -> list[int]:
    """Returns the nodes, parents before children. Nodes on or below a cycle are left out.

    Nodes that are free at the same time keep the order of their indices' discovery.
    """
    children: list[list[int]] = [[] for _ in parents]
    for node, above in enumerate(parents):
        for parent in above:
            checked_size(f"parents[{node}]", parent, 0, len(parents) - 1)
            children[parent].append(node)
    waiting = [len(above) for above in parents]
    order = [node for node, count in enumerate(waiting) if count == 0]
    for node in order:  # grows while it is read
        for child in children[node]:
            waiting[child] -= 1
            if waiting[child] == 0:
                order.append(child)
    return order


def chain_lengths(parents: Sequence[Sequence[int]]) -> list[dict[int, int]]:
    """Returns for every node {itself or an ancestor: edges of the longest chain up to it}.

    The longest chain, so that the answer depends on the partial order alone: stating an edge that
    other edges already imply changes nothing.

    Raises:
      ValueError: the nodes lie on a cycle.
    """
    order = parents_first(parents)
    if len(order) < len(parents):
        stuck = sorted(set(range(len(parents))) - set(order))
        raise ValueError(
            f"parents: nodes {stuck[:10]} lie on or below a cycle, expected a partial order; "
            "taxonomy_from_parents names the cycle"
        )
    lengths: list[dict[int, int]] = [{} for _ in parents]
    for node in order:
        above = {node: 0}
        for parent in parents[node]:
            for ancestor, length in lengths[parent].items():
                above[ancestor] = max(above.get(ancestor, 0), length + 1)
        lengths[node] = above
    return lengths


def common_ancestor_height(parents: Sequence[Sequence[int]], classes: Sequence[int]) -> np.ndarray:
    """Returns the height of the first common ancestor of every two classes, [k, k] int64.

    Of classes y, y' and a common ancestor (or one of the two) z, the height of z is

        max(l(y, z), l(y', z)),    l(y, z) = edges of the longest upward chain from y to z,

    that is levels counted from the classes upward. Of several common ancestors the smallest height
    counts; the height grows along a chain, so it is that of a minimal one, "first". A common top
    is put above all nodes for pairs that have no common ancestor: its height is one more than the
    longest chain from either class. 0 for y = y', symmetric.

    Raises:
      ValueError: the nodes lie on a cycle, or parents or classes are no indices of nodes.
    """
    lengths = chain_lengths(parents)
    top = len(parents)
    table = np.full((len(classes), top + 1), np.inf)
    for row, node in enumerate(classes):
        checked_size(f"classes[{row}]", node, 0, top - 1)
        table[row, list(lengths[node])] = list(lengths[node].values())
        table[row, top] = 1 + max(lengths[node].values())
    heights = np.empty((len(classes), len(classes)), np.int64)
    for row in range(len(classes)):
        shared = np.flatnonzero(np.isfinite(table[row]))
        heights[row] = np.maximum(table[row, shared][None, :], table[:, shared]).min(axis=1)
    return heights


def tree_loss(taxonomy: Taxonomic) -> np.ndarray:
    """Returns Delta(y, y') = height of the first common ancestor of y and y' (thesis 4.3.4).

    In a tree whose classes are leaves of one depth it is the number of levels from y up to that
    ancestor: 0 for y = y', 1 for siblings. It is defined for unequal
    depths (the longer of the two ways), partial orders (the lowest common ancestor) and forests (a
    common top). Height is counted in levels, not in edges between y and y'.

    Args:
      taxonomy: its `parents` and `classes`; row i is class i of the taxonomy.

    Returns:
      [k, k] float64.
    """
    if not hasattr(taxonomy, "parents") or not hasattr(taxonomy, "classes"):
        raise ValueError(f"taxonomy must be a Taxonomy, got {text_of(taxonomy)}")
    return common_ancestor_height(taxonomy.parents, taxonomy.classes).astype(np.float64)
