"""The seven formulations in canonical form, and their primal and dual at any point.

Slow truth for the solvers: n |Y| constraints written down, dense joint features, numpy float64,
no jax.

Letters: n examples, k outputs each, D features; Psi [n, k, D] joint features, Delta [n, k] losses
against the true output, `truths` [n] the column of y_i; dPsi_i(y) = Psi(x_i, y_i) - Psi(x_i, y).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

Array = np.ndarray

FORMULATIONS = (
    "svm0", "svm1", "svm2", "svm1_slack", "svm1_margin", "svm2_slack", "svm2_margin",
)  # fmt: skip


class Problem(NamedTuple):
    """The canonical form <w, s dPsi> >= b - xi of a formulation, every output enumerated.

    Fields:
      dpsi: [n, k, D] dPsi_i(y), zero in the column of y_i.
      s, b: [n, k] scale and right-hand side; zero in the column of y_i, whose plane reads
        xi_i >= 0.
      cap: [n] bound on sum_y beta_iy: C v_i / n for SVM1, infinite otherwise.
      ridge: [n] n / (C v_i) for SVM2 (infinite where v_i = 0), zero otherwise.
      wrong: [n, k] bool, True where y is not y_i and the example takes part.
      used: [n] bool, False for an example of weight zero, which takes no part.
      truths: [n] integers, the column of y_i.
    """

    dpsi: Array
    s: Array
    b: Array
    cap: Array
    ridge: Array
    wrong: Array
    used: Array
    truths: Array


class DualValue(NamedTuple):
    """The canonical dual at a point.

    Fields:
      value: sum beta b - 1/2 |w|^2 - 1/2 sum_i ridge_i (sum_y beta_iy)^2.
      feasible: violation <= tolerance.
      violation: largest of -beta and sum_y beta_iy - cap_i, relative to cap_i where it
        is finite; a multiplier of an example of weight zero counts as it is.
      w: [D] sum beta s dPsi.
    """

    value: float
    feasible: bool
    violation: float
    w: Array


def primal_value(
    formulation: str,
    w: Array,
    features: Array,
    losses: Array,
    truths: Array,
    C: float,
    example_weights: Array | None = None,
    tolerance: float = 1e-9,
) -> float:
    """The primal objective at any w, with the smallest slacks that are feasible.

    svm0 has no slacks: 1/2 |w|^2 where every margin is at least 1 - tolerance, infinity elsewhere.
    Arguments as in `solve_primal`; w is [D].
    """
    data = problem(formulation, features, losses, truths, C, example_weights)
    return primal_at(formulation, data, np.asarray(w, np.float64), tolerance)


def slacks(data: Problem, w: Array) -> Array:
    """[n] xi_i = max(0, max_{y != y_i} b(y) - s(y) <w, dPsi_i(y)>)."""
    return np.maximum(0.0, np.max(data.b - data.s * margins(data, w), axis=1))


def margins(data: Problem, w: Array) -> Array:
    """[n, k] <w, dPsi_i(y)>, zero in the column of y_i."""
    return data.dpsi @ w


def dual_value(
    formulation: str,
    beta: Array,
    features: Array,
    losses: Array,
    truths: Array,
    C: float,
    example_weights: Array | None = None,
    tolerance: float = 1e-9,
) -> DualValue:
    """The canonical dual at beta [n, k], with a check of beta >= 0 and sum_y beta_iy <= cap_i.

    max sum beta b - 1/2 |sum beta s dPsi|^2 - 1/2 sum_i ridge_i (sum_y beta_iy)^2. The column of
    y_i is the zero plane (b = 0, dPsi = 0): its mass counts in the sums and nowhere else, so an
    SVM1 solver may keep its unused budget there. Other arguments as in `solve_primal`.
    """
    data = problem(formulation, features, losses, truths, C, example_weights)
    beta = np.asarray(beta, np.float64)
    assert beta.shape == data.b.shape
    return dual_at(data, beta, tolerance)


def problem(
    formulation: str,
    features: Array,
    losses: Array,
    truths: Array,
    C: float,
    example_weights: Array | None = None,
) -> Problem:
    """Check the arguments of `solve_primal` and write the formulation in canonical form."""
    psi, delta, truths, weights = _checked(
        formulation, features, losses, truths, C, example_weights
    )
    n, k, _ = psi.shape
    rows = np.arange(n)
    used = weights > 0
    wrong = (np.arange(k) != truths[:, None]) & used[:, None]
    s, b = scales(formulation, delta)
    cap, ridge = np.full(n, np.inf), np.zeros(n)
    if formulation.startswith("svm1"):
        cap = C * weights / n
    if formulation.startswith("svm2"):
        ridge = np.divide(n, C * weights, out=np.full(n, np.inf), where=used)
    dpsi = psi[rows, truths][:, None, :] - psi
    return Problem(dpsi, s * wrong, b * wrong, cap, ridge, wrong, used, truths)


def scales(formulation: str, delta: Array) -> tuple[Array, Array]:
    """(s, b) of outputs of these losses; see `Problem`."""
    one, root = np.ones_like(delta), np.sqrt(delta)
    return {
        "svm1_slack": (delta, delta),
        "svm2_slack": (root, root),
        "svm1_margin": (one, delta),
        "svm2_margin": (one, root),
    }.get(formulation, (one, one))


def _checked(formulation, features, losses, truths, C, example_weights):
    assert formulation in FORMULATIONS and (formulation == "svm0" or 0 < C < np.inf)
    psi = np.asarray(features, np.float64)
    n, k, _ = psi.shape
    delta, truths = np.asarray(losses, np.float64), np.asarray(truths)
    weights = np.ones(n) if example_weights is None else np.asarray(example_weights, np.float64)
    assert delta.shape == (n, k) and (delta >= 0).all()
    assert weights.shape == truths.shape == (n,) and (weights >= 0).all()
    assert truths.dtype.kind in "iu" and np.isin(truths, range(k)).all()
    return psi, delta, truths, weights


def primal_at(formulation: str, data: Problem, w: Array, tolerance: float = 1e-9) -> float:
    """`primal_value` on a problem in canonical form."""
    half = 0.5 * float(w @ w)
    if formulation == "svm0":
        return half if np.all(margins(data, w)[data.wrong] >= 1.0 - tolerance) else np.inf
    xi = slacks(data, w)[data.used]
    if formulation.startswith("svm1"):
        return half + float(data.cap[data.used] @ xi)
    return half + 0.5 * float((xi**2 / data.ridge[data.used]).sum())


def dual_at(data: Problem, beta: Array, tolerance: float) -> DualValue:
    """`dual_value` on a problem in canonical form; beta is [n, k] float64."""
    beta_used = beta[data.used]
    w = np.einsum("iy,iyd->d", beta_used * data.s[data.used], data.dpsi[data.used])
    sums, cap = beta_used.sum(axis=1), data.cap[data.used]
    value = (beta_used * data.b[data.used]).sum() - 0.5 * w @ w
    value = float(value - 0.5 * (data.ridge[data.used] * sums**2).sum())
    size = np.where(np.isfinite(cap), cap, 1.0)
    over = np.max((sums - cap) / size, initial=0.0)
    idle = np.abs(beta[~data.used]).max(initial=0.0)
    violation = float(max(over, np.max(-beta_used / size[:, None], initial=0.0), idle))
    return DualValue(value, violation <= tolerance, violation, w)
