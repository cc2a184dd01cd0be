"""The optimum of each of the seven formulations, by a general solver with every constraint.

Slow truth for the solvers; `formulations` has the letters and the canonical form, `interior_point`
the solver. Tests import all three through this module.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from tests.truth.formulations import (
    FORMULATIONS,
    DualValue,
    Problem,
    dual_at,
    dual_value,
    margins,
    primal_at,
    primal_value,
    problem,
    slacks,
)
from tests.truth.interior_point import Certificate, Program, QPSolution, certify, solve_qp

__all__ = [
    "FORMULATIONS", "Certificate", "DualValue", "Problem", "Program", "QPSolution", "Truth",
    "certify", "dual_value", "margins", "primal_value", "problem", "slacks", "solve_primal",
    "solve_qp",
]  # fmt: skip

Array = np.ndarray

MAX_RELATIVE_GAP = 1e-10
MAX_ROUNDS = 4
SEPARATION = 1e-9
NUDGES = (0.0, 1e-15, 1e-14, 1e-13, 1e-12)  # C times a rounding error of a margin is dear


class Truth(NamedTuple):
    """The optimum of one formulation, proved by its duality gap.

    Fields:
      w: [D] (nan where infeasible).
      slack: [n] xi (zero for svm0 and for examples of weight zero).
      objective: the primal optimum; infinite where infeasible.
      alpha: [n, k] multipliers of the thesis's constraints, w = sum alpha dPsi, zero at y_i.
      beta: [n, k] multipliers of the canonical form, alpha = s beta; the column of y_i holds the
        multiplier of xi_i >= 0, so that for SVM1 every row sums to C v_i / n.
      gap: (primal_value(w) - dual_value(beta)) / primal_value(w), at most 1e-10.
      feasible: False only for svm0 on data that no w separates (see `_widest_margin`).
    """

    w: Array
    slack: Array
    objective: float
    alpha: Array
    beta: Array
    gap: float
    feasible: bool


def solve_primal(
    formulation: str,
    features: Array,
    losses: Array,
    truths: Array,
    C: float,
    example_weights: Array | None = None,
) -> Truth:
    """The optimum of a formulation with all constraints enumerated.

    SVM1: min 1/2 |w|^2 + sum_i (C v_i / n) xi_i, xi >= 0; SVM2: + sum_i (C v_i / 2n) xi_i^2;
    SVM0: no slack. Constraints for all i and y != y_i, thesis (3.12), (3.33), (3.34), (3.37),
    (3.40): <w, dPsi_i(y)> >= 1 - xi_i (svm0 without xi, svm1, svm2), 1 - xi_i / Delta (svm1_slack;
    sqrt(Delta) for svm2_slack; none where Delta = 0), Delta - xi_i (svm1_margin; sqrt(Delta) for
    svm2_margin).

    Args:
      formulation: one of FORMULATIONS.
      features: [n, k, D] Psi(x_i, y).
      losses: [n, k] Delta(y_i, y) >= 0, not read for svm0, svm1, svm2.
      truths: [n] integers, the column of y_i.
      C: positive; not read for svm0.
      example_weights: [n] v_i >= 0, None for ones. Weight zero leaves the example out; svm0 does
        not read other values.

    Raises:
      ArithmeticError: the proof of optimality failed (relative gap above 1e-10).
    """
    data = problem(formulation, features, losses, truths, C, example_weights)
    if not (data.b > 0).any():
        return _trivial(formulation, data)
    if formulation == "svm0" and _widest_margin(data)[1] == 0.0:
        n, k, D = data.dpsi.shape
        w, none = np.full(D, np.nan), np.full((n, k), np.nan)
        return Truth(w, np.zeros(n), np.inf, none, none, np.nan, feasible=False)
    size, length = _first_guess(formulation, data)
    for _ in range(MAX_ROUNDS):  # each round is scaled by the optimum that the last one found
        w, slack, beta, objective = _solve_scaled(formulation, data, size, length)
        w = min((w * (1.0 + nudge) for nudge in NUDGES), key=partial(primal_at, formulation, data))
        size, length = primal_at(formulation, data, w), float(np.linalg.norm(w))
        dual = dual_at(data, beta, 1e-9)
        gap = max(abs(size - dual.value), abs(size - objective)) / (size or 1.0)
        if dual.feasible and gap <= MAX_RELATIVE_GAP:
            return Truth(w, slack, objective, data.s * beta, beta, gap, feasible=True)
    raise ArithmeticError(
        f"solve_primal({formulation!r}, C={C}): objective {objective}, primal {size}, dual "
        f"{dual.value} (violation {dual.violation}) disagree; rescale the features."
    )


def _trivial(formulation: str, data: Problem) -> Truth:
    """No constraint asks for a margin: w = 0 meets them all at no cost."""
    n, k, D = data.dpsi.shape
    beta = np.zeros((n, k))
    if formulation.startswith("svm1"):
        beta[np.arange(n), data.truths] = data.cap
    return Truth(np.zeros(D), np.zeros(n), 0.0, np.zeros((n, k)), beta, 0.0, feasible=True)


def _solve_scaled(formulation: str, data: Problem, size: float, length: float):
    """Solve in (w / length, xi / unit) for an optimum of about `size`, then undo the scale.

    Only examples in use take part; `unit` is the slack whose cost alone is `size`.
    """
    n, _, D = data.dpsi.shape
    active = np.flatnonzero(data.used) if formulation != "svm0" else np.zeros(0, int)
    who, which = np.nonzero((data.b > 0) | (data.s > 0))
    unit, length = _slack_unit(data, size), max(length, 1e-3 * np.sqrt(2 * size))
    A, b = np.zeros((len(who), D + len(active))), -data.b[who, which]
    A[:, :D] = -length * data.s[who, which, None] * data.dpsi[who, which]
    P, q = np.diag(np.append(np.full(D, length**2), np.zeros(len(active)))), np.zeros(A.shape[1])
    if formulation != "svm0":
        A[np.arange(len(who)), D + np.searchsorted(active, who)] = -unit
    if formulation.startswith("svm2"):  # xi >= 0 holds by itself
        P[D:, D:] = np.diag(unit**2 / data.ridge[active])
    if formulation.startswith("svm1"):
        q[D:] = unit * data.cap[active]
        A, b = np.vstack([A, -unit * np.eye(A.shape[1])[D:]]), np.append(b, np.zeros(len(active)))
    solution = solve_qp(P, q, A, b)
    beta, slack = np.zeros(data.b.shape), np.zeros(n)
    beta[who, which] = solution.z[: len(who)]
    slack[active] = np.maximum(unit * solution.x[D:], 0.0)
    if formulation.startswith("svm1"):
        beta[active, data.truths[active]] = solution.z[len(who) :]
    return length * solution.x[:D], slack, beta, solution.objective


def _slack_unit(data: Problem, size: float) -> float:
    """The common slack that costs `size`: sum cap xi (SVM1) or sum xi^2 / (2 ridge) (SVM2)."""
    cap = data.cap[data.used & np.isfinite(data.cap)].sum()
    stiffness = (1.0 / data.ridge[data.used & (data.ridge > 0)]).sum()
    return size / cap if cap else float(np.sqrt(2 * size / stiffness)) if stiffness else 1.0


def _first_guess(formulation: str, data: Problem) -> tuple[float, float]:
    """The size of the optimum and of |w|: svm0's linear program, or the best point of one ray."""
    if formulation == "svm0":
        direction, margin = _widest_margin(data)
        w = direction / margin
        return 0.5 * float(w @ w), float(np.linalg.norm(w))
    reach = data.s * np.linalg.norm(data.dpsi, axis=2)
    named = (reach > 0) & (data.b > 0)
    typical = float(np.median(data.b[named] / reach[named])) if named.any() else 1.0
    ray = np.einsum("iy,iyd->d", data.b * data.s, data.dpsi)
    ray = ray / (np.linalg.norm(ray) or 1.0)
    trials = [stretch * typical * ray for stretch in np.append(0.0, np.logspace(-6, 6, 49))]
    best = min(trials, key=partial(primal_at, formulation, data))
    return primal_at(formulation, data, best), max(typical, float(np.linalg.norm(best)))


def _widest_margin(data: Problem) -> tuple[Array, float]:
    """Phase 1 of svm0: max t subject to <w, dPsi_i(y)> >= t, |w_j| <= 1.

    t at or below SEPARATION times the largest |dPsi| reads as 0: no w separates.
    """
    from scipy.optimize import linprog

    rows = data.dpsi[data.wrong]
    size = np.abs(rows).max(initial=0.0) or 1.0
    D = rows.shape[1]
    A = np.column_stack([-rows / size, np.ones(len(rows))])
    bounds = [(-1.0, 1.0)] * D + [(None, 1.0)]
    found = linprog(np.append(np.zeros(D), -1.0), A, np.zeros(len(rows)), bounds=bounds)
    margin = float(found.x[-1])
    return found.x[:D], margin * size if margin > SEPARATION else 0.0
