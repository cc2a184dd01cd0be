"""The quadratic programs of the thesis's chapter 2, constraint by constraint, dense, in NumPy.

Each is written in its primal variables (w, b, xi) as printed and handed to the interior point
method; nothing of the library's duals is used.
"""

from __future__ import annotations

import numpy as np

from tests.truth.interior_point import solve_qp

Array = np.ndarray


def binary_optimum(
    formulation: str, x: Array, signs: Array, C: float, weights: Array | None = None
) -> tuple[float, Array, float]:
    """(objective, w [d], b) of (2.5), (2.6) or (2.7).

    Args:
      formulation: svm0, svm1 or svm2. x: [n, d]. signs: [n] of -1, 0 (left out) and 1.
      C: divided by n. weights: [n] of the slacks, ones where None.
    """
    n, d = x.shape
    cost = C / n * (np.ones(n) if weights is None else np.asarray(weights))
    used = (signs != 0) & (cost > 0)
    x, t, cost = x[used], signs[used], cost[used]
    rows, size = len(t), d + 1 + len(t)
    P, q = np.zeros((size, size)), np.zeros(size)
    P[:d, :d] = np.eye(d)
    margin = np.hstack([-t[:, None] * x, -t[:, None], -np.eye(rows)])  # -t (<w, x> + b) - xi <= -1
    positive = np.hstack([np.zeros((rows, d + 1)), -np.eye(rows)])
    A, b = np.vstack([margin, positive]), np.concatenate([-np.ones(rows), np.zeros(rows)])
    if formulation == "svm0":
        P, q, A, b = P[: d + 1, : d + 1], q[: d + 1], margin[:, : d + 1], -np.ones(rows)
    elif formulation == "svm1":
        q[d + 1 :] = cost
    else:
        P[d + 1 :, d + 1 :] = np.diag(cost)
    found = solve_qp(P, q, A, b)
    return found.objective, found.x[:d], found.x[d]


def weston_watkins_optimum(
    formulation: str, x: Array, y: Array, k: int, C: float, weights: Array | None = None
) -> tuple[float, Array]:
    """(objective, W [d, k]) of (2.27) or (2.28): n (k - 1) slacks."""
    n = len(x)
    v = np.ones(n) if weights is None else np.asarray(weights)
    pairs = [(i, r) for i in range(n) for r in range(k) if r != y[i]]
    cost = np.array([C * v[i] / (n * (k - 1)) for i, _ in pairs])
    return _several(formulation, x, y, k, pairs, np.arange(len(pairs)), cost)


def crammer_singer_optimum(
    formulation: str, x: Array, y: Array, k: int, C: float
) -> tuple[float, Array]:
    """(objective, W [d, k]) of (2.29) or (2.30): a slack an example."""
    n = len(x)
    pairs = [(i, r) for i in range(n) for r in range(k) if r != y[i]]
    return _several(formulation, x, y, k, pairs, np.array([i for i, _ in pairs]), np.full(n, C / n))


def _several(formulation, x, y, k, pairs, slack_of, cost):
    """Constraints <w_{y_i} - w_r, x_i> >= 1 - xi of the pairs (i, r), xi >= 0."""
    d, slacks = x.shape[1], len(cost)
    size = k * d + slacks
    P, q = np.zeros((size, size)), np.zeros(size)
    P[: k * d, : k * d] = np.eye(k * d)
    if formulation == "svm1":
        q[k * d :] = cost
    else:
        P[k * d :, k * d :] = np.diag(cost)
    A = np.zeros((len(pairs) + slacks, size))
    for row, ((i, r), slack) in enumerate(zip(pairs, slack_of, strict=True)):
        A[row, y[i] * d : (y[i] + 1) * d] = -x[i]
        A[row, r * d : (r + 1) * d] = x[i]
        A[row, k * d + slack] = -1
    A[len(pairs) :, k * d :] = -np.eye(slacks)
    b = np.concatenate([-np.ones(len(pairs)), np.zeros(slacks)])
    found = solve_qp(P, q, A, b)
    return found.objective, found.x[: k * d].reshape(k, d).T
