"""Slow truth for relaxations of labelling: the linear program, and its vertices for two labels."""

from __future__ import annotations

import itertools

import numpy as np
import scipy.sparse
from scipy.optimize import linprog


def _constraints(V: int, S: int, edges: np.ndarray) -> tuple[scipy.sparse.csr_matrix, np.ndarray]:
    """Sums of nodes are 1, sums of rows and columns of edges those of their ends."""
    E, eye, ones = len(edges), np.eye(S), np.ones((1, S))
    of_nodes = scipy.sparse.kron(scipy.sparse.eye(V), ones)
    sums = scipy.sparse.vstack([
        scipy.sparse.kron(scipy.sparse.eye(E), np.kron(eye, ones)),
        scipy.sparse.kron(scipy.sparse.eye(E), np.kron(ones, eye)),
    ])  # fmt: skip
    ends = scipy.sparse.vstack([
        scipy.sparse.kron(np.eye(V)[edges[:, side]].reshape(E, V), eye) for side in (0, 1)
    ])  # fmt: skip
    rows = scipy.sparse.bmat([[of_nodes, None], [-ends, sums]]) if E else of_nodes
    return rows.tocsr(), np.r_[np.ones(V), np.zeros(2 * E * S)]


def relaxed_optimum(nodes: np.ndarray, edges: np.ndarray, pairs: np.ndarray) -> float:
    """max <theta, p> over the local polytope by HiGHS; -inf where it is empty.

    Args:
      nodes: [V, S]. edges: [E, 2]. pairs: [E, S, S]; -inf forbids.
    """
    gains = np.concatenate([nodes.ravel(), pairs.ravel()]).astype(float)
    allowed = gains > -np.inf
    matrix, sums = _constraints(*nodes.shape, np.asarray(edges).reshape(-1, 2))
    found = linprog(
        -np.where(allowed, gains, 0), A_eq=matrix, b_eq=sums,
        bounds=np.stack([np.zeros(len(gains)), np.where(allowed, np.inf, 0)], axis=1),
        method="highs",
    )  # fmt: skip
    return -float(found.fun) if found.status == 0 else -np.inf


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
