"""Slow truth for relaxations of labelling: the vertices of the local polytope of two labels."""

from __future__ import annotations

import itertools

import numpy as np


def vertices(V: int, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """([k, V, 2], [k, E, 2, 2]) points of the polytope of two labels, all its vertices among them.

    Nodes are 0, 1 or one half (Hammer, Hansen and Simeone 1984); two halves are joined straight or
    crosswise.
    """
    found = []
    for halves in itertools.product(range(3), repeat=V):
        p = np.array([0.0, 0.5, 1.0])[list(halves)]
        nodes = np.stack([1 - p, p], axis=1)
        free = [e for e, (a, b) in enumerate(edges) if p[a] == p[b] == 0.5]
        plain = np.array([np.outer(nodes[a], nodes[b]) for a, b in edges]).reshape(-1, 2, 2)
        for ways in itertools.product((np.eye(2) / 2, (1 - np.eye(2)) / 2), repeat=len(free)):
            pairs = plain.copy()
            pairs[free] = np.array(ways).reshape(-1, 2, 2)
            found.append((nodes, pairs))
    return tuple(np.stack(part) for part in zip(*found, strict=True))
