"""A dense convex quadratic program solver in plain numpy float64: the independent referee.

It shares no idea with the library's solvers (no working set, no block ascent, no jax), so that an
agreement between the two is evidence.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

Array = np.ndarray

MAX_STEPS = 200
PATIENCE = 30
VANISHED = 1e-60
BOUNDARY_FRACTION = 0.995
UNCENTRED = 1e-2
CENTRALITY = 1e-3
MAX_HALVINGS = 20
REGULARISATION = 1e-13
REFINEMENTS = 3
PIVOT = 1e-4


class Certificate(NamedTuple):
    """How far a point is from optimal, each number relative to the size of its own terms.

    Fields:
      primal_residual: largest violation of A_ub x <= b_ub and A_eq x = b_eq.
      dual_residual: largest entry of P x + q + A_ub' z + A_eq' y, and of min(z, 0).
      gap: primal minus dual objective, x'Px + q'x + b_ub' z + b_eq' y, in absolute value.
    """

    primal_residual: float
    dual_residual: float
    gap: float


class QPSolution(NamedTuple):
    """The optimum of a quadratic program with its proof.

    Fields:
      x: [N] the minimiser.
      z: [M] multipliers of A_ub x <= b_ub, z >= 0.
      y: [E] multipliers of A_eq x = b_eq.
      objective: 1/2 x'Px + q'x.
      certificate: the residuals at (x, z, y), in the units that the caller gave.
      steps: interior point steps taken.
    """

    x: Array
    z: Array
    y: Array
    objective: float
    certificate: Certificate
    steps: int


class Program(NamedTuple):
    """Minimise 1/2 x'Px + q'x subject to A x <= b and E x = f; shapes as in `solve_qp`."""

    P: Array
    q: Array
    A: Array
    b: Array
    E: Array
    f: Array


class _Point(NamedTuple):
    x: Array
    z: Array
    y: Array
    s: Array


def solve_qp(
    P: Array,
    q: Array,
    A_ub: Array,
    b_ub: Array,
    A_eq: Array | None = None,
    b_eq: Array | None = None,
    tolerance: float = 1e-12,
) -> QPSolution:
    """Minimise 1/2 x'Px + q'x subject to A_ub x <= b_ub and A_eq x = b_eq.

    Mehrotra's predictor-corrector (Mehrotra 1992, "On the implementation of a primal-dual interior
    point method", section 2), on rows and objective scaled to unit size.

    Args:
      P: [N, N] symmetric positive semi-definite (zero gives a linear program).
      q: [N].
      A_ub, b_ub: [M, N], [M]; M may be 0.
      A_eq, b_eq: [E, N], [E], or both None.
      tolerance: bound on every entry of the scaled certificate.

    Raises:
      ArithmeticError: the tolerance was not reached: an infeasible or unbounded problem, or one
        too badly scaled. A referee never hands out an uncertain answer.
    """
    problem = _checked(P, q, A_ub, b_ub, A_eq, b_eq)
    scaled, row_scale, equality_scale, cost_scale = _scaled(problem)
    point, steps = _interior_point(scaled, tolerance)
    x = point.x
    z = point.z / row_scale * cost_scale
    y = point.y / equality_scale * cost_scale
    objective = float(0.5 * x @ problem.P @ x + problem.q @ x)
    return QPSolution(x, z, y, objective, certify(problem, x, z, y), steps)


def certify(problem: Program, x: Array, z: Array, y: Array) -> Certificate:
    """The relative residuals of the optimality conditions at (x, z, y); see `Certificate`."""
    P, q, A, b, E, f = problem
    curvature, pull, tie = P @ x, A.T @ z, E.T @ y
    over = np.maximum(A @ x - b, 0.0)
    dual = curvature + q + pull + tie
    primal_size = 1.0 + max(_top(b), _top(f), _top(A @ x), _top(E @ x))
    dual_size = 1.0 + max(_top(q), _top(curvature), _top(pull), _top(tie))
    gap = x @ curvature + q @ x + b @ z + f @ y
    gap_size = 1.0 + abs(x @ curvature) + abs(q @ x)
    return Certificate(
        max(_top(over), _top(E @ x - f)) / primal_size,
        max(_top(dual), _top(np.minimum(z, 0.0))) / dual_size,
        float(abs(gap) / gap_size),
    )


def _interior_point(problem: Program, tolerance: float) -> tuple[_Point, int]:
    point = _start(problem)
    best, best_error, since, steps = point, np.inf, 0, 0
    while steps < MAX_STEPS:
        error = max(certify(problem, point.x, point.z, point.y))
        since = 0 if error < 0.9 * best_error else since + 1
        if error < best_error:
            best, best_error = point, error
        settled = best_error <= tolerance and since > 2
        vanished = len(point.s) and point.s @ point.z < VANISHED
        if settled or vanished or since > PATIENCE:
            break
        point, steps = _advance(problem, point), steps + 1
    if best_error <= tolerance:
        return best, steps
    raise ArithmeticError(
        f"solve_qp stopped after {steps} steps with {certify(problem, best.x, best.z, best.y)} "
        f"(scaled), above tolerance {tolerance}: the problem is infeasible, unbounded or badly "
        "scaled. Check feasibility first (a linear program), or scale the variables."
    )


def _start(problem: Program) -> _Point:
    """Mehrotra's start: least squares for the equations, then a shift into the interior."""
    P, q, A, b, E, f = problem
    unit = np.ones(len(b))
    zero = _Point(np.zeros(len(q)), unit, np.zeros(len(f)), unit)
    dx, dz, dy, _ = _direction(problem, zero)(-q, b, f, np.zeros(len(b)))
    if not len(b):
        return _Point(dx, dz, dy, dz)
    s, z = b - A @ dx, dz
    s = s + max(0.0, -1.5 * s.min()) + 1.0
    z = z + max(0.0, -1.5 * z.min()) + 1.0
    product = s @ z
    return _Point(dx, z + 0.5 * product / s.sum(), dy, s + 0.5 * product / z.sum())


def _advance(problem: Program, point: _Point) -> _Point:
    """One predictor-corrector step from an interior point."""
    P, q, A, b, E, f = problem
    x, z, y, s = point
    solve = _direction(problem, point)
    stationarity = -(P @ x + q + A.T @ z + E.T @ y)
    primal, equality = b - A @ x - s, f - E @ x
    if not len(b):
        dx, _, dy, _ = solve(stationarity, primal, equality, primal)
        return _Point(x + dx, z, y + dy, s)
    mu = s @ z / len(b)
    dx, dz, dy, ds = solve(stationarity, primal, equality, -s * z)
    reach = min(_reach(s, ds), _reach(z, dz))
    centring = ((s + reach * ds) @ (z + reach * dz) / len(b) / mu) ** 3
    correction = reach**2 * ds * dz  # damped where the predictor was blocked early
    if np.min(s * z) < UNCENTRED * mu:  # else the corrector can cycle: return to the path first
        centring, correction = max(centring, 0.5), 0.0
    dx, dz, dy, ds = solve(stationarity, primal, equality, centring * mu - s * z - correction)
    along_s, along_z = _lengths(point, ds, dz, same=bool(P.any()))
    return _Point(x + along_s * dx, z + along_z * dz, y + along_z * dy, s + along_s * ds)


def _lengths(point: _Point, ds: Array, dz: Array, same: bool) -> tuple[float, float]:
    """Step lengths (primal, dual) that stay inside and near the central path.

    Every product s z stays above CENTRALITY times their mean. `same` where P is not zero: lengths
    that differ would spoil the dual residual through P x.
    """
    along_s = min(1.0, BOUNDARY_FRACTION * _reach(point.s, ds, np.inf))
    along_z = min(1.0, BOUNDARY_FRACTION * _reach(point.z, dz, np.inf))
    if same:
        along_s = along_z = min(along_s, along_z)
    for _ in range(MAX_HALVINGS):
        product = (point.s + along_s * ds) * (point.z + along_z * dz)
        if product.min() >= CENTRALITY * product.mean():
            break
        along_s, along_z = 0.7 * along_s, 0.7 * along_z
    return along_s, along_z


def _direction(problem: Program, point: _Point):
    """A solver of the Newton system at one point, with iterative refinement.

    P dx + A' dz + E' dy = r1;  A dx + ds = r2;  E dx = r3;  z ds + s dz = r4.

    With ds = (r4 - s dz) / z the second is A dx - (s / z) dz = r2 - r4 / z. Its rows of s / z above
    `PIVOT` are eliminated: they are nearly all, and a pivot of that size loses few digits, which
    refinement in the whole system brings back. The few others, of constraints that bind, stay.
    """
    P, _, A, _, E, _ = problem
    n, e, ratio = len(P), len(E), point.s / point.z
    out = ratio > PIVOT
    gone, kept, pivot = A[out], A[~out], ratio[out] + REGULARISATION
    k = len(kept)
    matrix = np.zeros((n + k + e, n + k + e))
    matrix[:n, :n] = P + gone.T @ (gone / pivot[:, None])
    matrix[:n, n : n + k], matrix[n : n + k, :n] = kept.T, kept
    matrix[:n, n + k :], matrix[n + k :, :n] = E.T, E
    matrix[n : n + k, n : n + k] = -np.diag(ratio[~out])
    nudge = np.concatenate([np.full(n, REGULARISATION), np.full(k + e, -REGULARISATION)])
    inverse = np.linalg.inv(matrix + np.diag(nudge))

    def once(t1: Array, t2: Array, t3: Array) -> tuple[Array, Array, Array]:
        pulled = t1 + gone.T @ (t2[out] / pivot)
        dx, of_kept, dy = np.split(inverse @ np.concatenate([pulled, t2[~out], t3]), [n, n + k])
        dz = np.zeros(len(A))
        dz[out], dz[~out] = (gone @ dx - t2[out]) / pivot, of_kept
        return dx, dz, dy

    def solve(r1: Array, r2: Array, r3: Array, r4: Array) -> tuple[Array, Array, Array, Array]:
        target = r1, r2 - r4 / point.z, r3
        dx, dz, dy = once(*target)
        for _ in range(REFINEMENTS):
            met = P @ dx + A.T @ dz + E.T @ dy, A @ dx - ratio * dz, E @ dx
            more = once(*(wanted - found for wanted, found in zip(target, met, strict=True)))
            dx, dz, dy = (old + new for old, new in zip((dx, dz, dy), more, strict=True))
        return dx, dz, dy, r2 - A @ dx

    return solve


def _reach(values: Array, change: Array, limit: float = 1.0) -> float:
    """The longest step in [0, limit] that keeps values + step * change non-negative."""
    falling = change < 0
    return float(min(limit, np.min(-values[falling] / change[falling], initial=np.inf)))


def _scaled(problem: Program) -> tuple[Program, Array, Array, float]:
    """Rows of unit length and an objective of unit size, with the scales that undo it."""
    P, q, A, b, E, f = problem
    rows, equal = (np.linalg.norm(M, axis=1) for M in (A, E))
    rows, equal = np.where(rows > 0, rows, 1.0), np.where(equal > 0, equal, 1.0)
    cost = max(_top(P), _top(q)) or 1.0
    problem = Program(
        P / cost, q / cost, A / rows[:, None], b / rows, E / equal[:, None], f / equal
    )
    return problem, rows, equal, cost


def _top(values: Array) -> float:
    return float(np.max(np.abs(values), initial=0.0))


def _checked(P, q, A_ub, b_ub, A_eq, b_eq) -> Program:
    q = np.asarray(q, np.float64)
    A_eq = np.zeros((0, q.size)) if A_eq is None else A_eq
    b_eq = np.zeros(0) if b_eq is None else b_eq
    arrays = [np.asarray(v, np.float64) for v in (P, q, A_ub, b_ub, A_eq, b_eq)]
    P, q, A, b, E, f = arrays
    wanted = [(q.size, q.size), (q.size,), (b.size, q.size), (b.size,), (f.size, q.size), (f.size,)]
    assert [array.shape for array in arrays] == wanted
    assert all(np.isfinite(array).all() for array in arrays), "leave such rows out"
    assert np.allclose(P, P.T, rtol=0, atol=1e-12 * (1 + _top(P))), "pass (P + P.T) / 2"
    return Program(*arrays)
