"""Classes written as paths of a tree, 'D/01/D', and the parents that this implies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np


def number_paths(paths: Iterable[str]) -> dict[str, int]:
    """Numbers every path and its ancestors from 0, parents before children.

    Paths come in the order of their first mention. An ancestor that is not listed comes just before
    the first path that needs it.

    Raises:
      ValueError: a path or a part of one is empty; or the entries are edges parent/child of a
        graph. They are taken for edges if all are pairs, none is a/a, and the child of one is the
        parent of another (a/b, b/c).
    """
    split_paths = [path.strip().split("/") for path in paths]
    if any("" in parts for parts in split_paths):
        raise ValueError("the hierarchy names an empty class")
    if _are_edges(split_paths):
        raise ValueError("the hierarchy lists edges parent/child of a graph, expected paths")
    nodes: dict[str, int] = {}
    for parts in split_paths:
        for depth in range(len(parts)):
            nodes.setdefault("/".join(parts[: depth + 1]), len(nodes))
    return nodes


def path_parents(nodes: Mapping[str, int]) -> np.ndarray:
    """Returns [nodes] int32, the parent's number of every node, -1 at the top.

    Args:
      nodes: path -> number, as `number_paths` gives it.
    """
    parents = np.full(len(nodes), -1, dtype=np.int32)
    for path, number in nodes.items():
        parents[number] = nodes.get(path.rpartition("/")[0], -1)
    return parents


def _are_edges(split_paths: list[list[str]]) -> bool:
    if any(len(parts) != 2 or parts[0] == parts[1] for parts in split_paths):
        return False
    return not {first for first, _ in split_paths}.isdisjoint(second for _, second in split_paths)
