"""The optimum of a machine between two proven numbers, for features far from the origin as well.

An independent solver finds a point, whose primal and dual are then summed in extended precision
from the features as they are: whatever found the point, the optimum lies between them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tests.truth.formulations import scales
from tests.truth.interior_point import solve_qp

Array = np.ndarray
Exact = np.longdouble
ROUNDS, GAP, SMALL = 3, 1e-9, 1e-12
MOST_CONSTRAINTS = 300
"""Of a program that the interior point method is asked for."""


class Machine(NamedTuple):
    """min 1/2 |w|^2 + sum_j cost_j xi_j, or + sum_j cost_j xi_j^2 / 2 where squared.

    <w, a_c> >= b_c - xi_j with j = slack_of[c], xi_j >= 0; a [m, D], b [m], cost [s].
    """

    a: Array
    b: Array
    slack_of: Array
    cost: Array
    squared: bool

    def primal(self, w: Array) -> float:
        """P(w)."""
        w, slack = w.astype(Exact), np.zeros(len(self.cost), Exact)
        np.maximum.at(slack, self.slack_of, self.b - self.a @ w)
        return float(w @ w / 2 + np.sum(self.cost * (slack**2 / 2 if self.squared else slack)))

    def dual(self, beta: Array) -> float:
        """D of multipliers [m], which are scaled to be feasible first."""
        beta, total = np.maximum(beta, 0).astype(Exact), np.zeros(len(self.cost), Exact)
        np.add.at(total, self.slack_of, beta)
        if not self.squared:
            within = np.minimum(1, self.cost / np.where(total > 0, total, 1))
            beta, total = beta * within[self.slack_of], np.zeros_like(total)
        w = beta @ self.a
        return float(beta @ self.b - w @ w / 2 - np.sum(total**2 / self.cost) / 2)

    def bounds(self) -> tuple[float, float]:
        """(lower, upper): what the interior point method proves of the optimum."""
        best = (0.0, self.primal(np.zeros(self.a.shape[1])))
        if len(self.b) > MOST_CONSTRAINTS:
            return best
        at, slack = np.ones(1), np.ones(1)
        for _ in range(ROUNDS):
            units = np.max(np.abs(at)) or 1.0, np.max(slack) or 1.0
            try:
                at, slack, w, beta = self._solved(*units)
            except ArithmeticError:  # it says that it has no proof
                break
            best = max(best[0], self.dual(beta)), min(best[1], self.primal(w))
            if best[1] - best[0] <= GAP * best[1]:
                break
        return best

    def _solved(self, length: float, unit: float) -> tuple[Array, Array, Array, Array]:
        """(coordinates, slacks, w, beta) in units of about their sizes.

        In coordinates along the singular vectors of a, each in units of its own, a large mean of
        the features is one coordinate alone.
        """
        m, s = len(self.b), len(self.cost)
        _, sizes, axes = np.linalg.svd(self.a.astype(np.float64), full_matrices=False)
        kept = sizes > SMALL * sizes[0]
        sizes, axes = sizes[kept] / np.sqrt(m), axes[kept].astype(Exact)
        scaled = ((self.a @ axes.T) / sizes).astype(np.float64)
        d, cost = len(sizes), self.cost.astype(np.float64)
        A = np.zeros((m, d + s))
        A[:, :d], A[np.arange(m), d + self.slack_of] = -length * scaled, -unit
        b, P, q = -self.b.astype(np.float64), np.zeros((d + s, d + s)), np.zeros(d + s)
        P[:d, :d] = np.diag((length / sizes) ** 2)
        if self.squared:
            P[d:, d:] = np.diag(unit**2 * cost)
        else:
            q[d:] = unit * cost
            A, b = np.vstack([A, -unit * np.eye(d + s)[d:]]), np.append(b, np.zeros(s))
        found = solve_qp(P, q, A, b)
        at, slack = length * found.x[:d], np.maximum(unit * found.x[d:], 0)
        return at, slack, (at / sizes) @ axes, found.z[:m]


def structural(
    formulation: str, psi: Array, losses: Array, truths: Array, C: float, pairs: bool = False
) -> Machine:
    """A soft formulation of Psi [n, k, D] with a slack an example; pairs: one a wrong output."""
    n, k, _ = psi.shape
    who, what = np.nonzero(np.arange(k)[None] != truths[:, None])
    s, b = scales(formulation, losses[who, what].astype(Exact))
    psi = psi.astype(Exact)
    a = s[:, None] * (psi[who, truths[who]] - psi[who, what])
    slack_of = np.arange(len(who)) if pairs else who
    slacks = len(who) if pairs else n
    cost = np.full(slacks, Exact(C) / slacks)
    return Machine(a, b, slack_of, cost, formulation.startswith("svm2"))


class Field(NamedTuple):
    """min 1/2 |w|^2 + C/n sum_i [log sum_y exp <w, Psi_i(y)> - <w, Psi_i(y_i)>], all enumerated.

    rows: [n, k, D] Psi_i(y) - Psi_i(y_i).
    """

    rows: Array
    scale: float

    def value_and_gradient(self, w: Array) -> tuple[float, Array, Array]:
        """(P, its gradient, [n, k] P(y | x_i)) at w."""
        scores = self.rows @ w.astype(Exact)
        top = np.max(scores, axis=1, keepdims=True)
        parts = np.exp(scores - top)
        sums = np.sum(parts, axis=1, keepdims=True)
        chances = parts / sums
        value = w @ w / 2 + self.scale * np.sum(top + np.log(sums))
        return value, w + self.scale * np.einsum("ik,ikd->d", chances, self.rows), chances

    def primal(self, w: Array) -> float:
        """P(w)."""
        return float(self.value_and_gradient(w.astype(Exact))[0])

    def bounds(self) -> tuple[float, float]:
        """(lower, upper): P - 1/2 |gradient|^2 and P after damped steps of Newton."""
        _, _, axes = np.linalg.svd(self.rows.reshape(-1, self.rows.shape[2]).astype(np.float64))
        inside = self._replace(rows=self.rows @ axes.T.astype(Exact))
        w = np.zeros(len(axes), Exact)
        value, gradient, chances = inside.value_and_gradient(w)
        for _ in range(200):
            rows, p = inside.rows.astype(np.float64), chances.astype(np.float64)
            mean = np.einsum("ik,ikd->id", p, rows)
            centred = rows - mean[:, None]
            hessian = self.scale * np.einsum("ik,ikd,ike->de", p, centred, centred)
            hessian += np.eye(len(w))
            unit = 1 / np.sqrt(np.diag(hessian))
            inner = hessian * unit * unit[:, None]
            step = unit * np.linalg.solve(inner, (unit * gradient).astype(np.float64))
            for halved in 0.5 ** np.arange(40):
                trial = inside.value_and_gradient(w - halved * step)
                if trial[0] <= value - 1e-4 * halved * (gradient @ step):
                    break
            else:
                break
            w, (value, gradient, chances) = w - halved * step, trial
            if gradient @ gradient <= 1e-13 * value:
                break
        return float(value - gradient @ gradient / 2), float(value)


def random_field(psi: Array, truths: Array, C: float) -> Field:
    """Of Psi [n, k, D]."""
    psi = psi.astype(Exact)
    return Field(psi - psi[np.arange(len(psi)), truths][:, None], C / len(psi))
