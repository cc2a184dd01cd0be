"""The dual over a working set: every step against lemma 1 and its corollaries, and its optimum."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import nnls

from experiments.machines.reference.working_set_dual import WorkingSetDual

N, M, D = 3, 9, 6


class Drawn:
    """M random planes of N examples, with J written out."""

    def __init__(self, seed: int, cap: float, ridge: float) -> None:
        random = np.random.default_rng(seed)
        self.phi, self.b = random.normal(size=(M, D)), random.uniform(0.3, 2.0, M)
        self.examples = np.concatenate([np.arange(N), random.integers(0, N, M - N)])
        same = self.examples[:, None] == self.examples
        self.J = self.phi @ self.phi.T + ridge * same
        self.cap = cap
        self.dual = WorkingSetDual(np.full(N, cap), np.full(N, ridge))
        for r in range(M):
            self.dual.add(int(self.examples[r]), self.b[r], self.phi[: r + 1] @ self.phi[r])

    def theta(self, beta: np.ndarray) -> float:
        return float(beta @ self.b - beta @ self.J @ beta / 2)

    def steps(self, most: int):
        """(beta before, eta, D, rise) of single steps, beta being scaled out of eta."""
        for _ in range(most):
            before, rest = self.dual.multipliers.copy(), self.dual.rest.copy()
            if self.dual.solve(1e-4, most_steps=1):  # rises of less are hidden by rounding
                return
            change = self.dual.multipliers - before
            moved = np.abs(change).max()
            eta = np.round(change / moved)
            (i,) = np.unique(self.examples[eta != 0])
            limit = before[eta < 0].min() if (eta < 0).any() else rest[i]
            assert self.dual.value() == pytest.approx(self.theta(self.dual.multipliers), abs=1e-12)
            yield before, eta, limit, self.theta(before + change) - self.theta(before)


def parts(drawn: Drawn, beta, eta):
    """(<grad, eta>, eta' J eta)."""
    return float((drawn.b - drawn.J @ beta) @ eta), float(eta @ drawn.J @ eta)


def test_lemma_1_the_rise_along_a_direction():
    """(3.21): without a limit a step gains <grad, eta>^2 / (2 eta' J eta), and none gains more.

    Corollary 1, (3.24), is of the steps that move one multiplier alone.
    """
    drawn, seen, alone = Drawn(0, math.inf, 0.5), 0, 0
    for beta, eta, limit, rise in drawn.steps(60):
        slope, curvature = parts(drawn, beta, eta)
        best = slope / curvature
        if best > limit:
            continue
        seen, alone = seen + 1, alone + one_rises(eta)
        assert slope > 0
        assert rise == pytest.approx(slope**2 / (2 * curvature), rel=1e-9)
        for other in (0.5 * best, 0.9 * best, 1.1 * best, 2 * best):
            assert drawn.theta(beta + other * eta) - drawn.theta(beta) < rise
    assert seen > 10 and alone >= 3


def one_rises(eta) -> bool:
    return np.count_nonzero(eta) == 1 and eta.max() > 0


def test_corollary_2_the_rise_of_a_limited_step():
    """(3.44) in both cases, and its lower bound (3.45), "upper" in print.

    Corollary 3, (3.47), is of the steps that raise one multiplier alone: they reach the bound where
    the limit does not bind and exceed it where it does.
    """
    cases = {(inside, alone): 0 for inside in (True, False) for alone in (True, False)}
    for seed in range(6):
        drawn = Drawn(seed, 0.1, 0.0)
        for beta, eta, limit, rise in drawn.steps(60):
            slope, curvature = parts(drawn, beta, eta)
            inside = slope <= limit * curvature
            cases[inside, one_rises(eta)] += 1
            exact = (
                slope**2 / (2 * curvature) if inside else limit * slope - limit**2 / 2 * curvature
            )
            least = 0.5 * min(limit, slope / curvature) * slope
            assert rise == pytest.approx(exact, rel=1e-8, abs=1e-14)
            assert rise >= least * (1 - 1e-8) and (rise > least * 1.001) == (not inside)
    assert min(cases.values()) > 0 and cases[True, False] + cases[True, True] > 5


@pytest.mark.parametrize("seed", range(4))
def test_the_optimum_of_squared_slacks(seed):
    """Against non-negative least squares: J = L L', min |L' beta - L^-1 b|."""
    drawn = Drawn(seed, math.inf, 0.5)
    L = np.linalg.cholesky(drawn.J)
    want, _ = nnls(L.T, np.linalg.solve(L, drawn.b))
    assert drawn.dual.solve(1e-11)
    np.testing.assert_allclose(drawn.dual.multipliers, want, atol=1e-9)


@pytest.mark.parametrize(("seed", "cap"), [(0, 0.05), (1, 0.05), (2, 0.4), (3, 0.4)])
def test_the_optimum_under_caps(seed, cap):
    """Karush, Kuhn, Tucker, with more planes than dimensions: J is singular."""
    drawn = Drawn(seed, cap, 0.0)
    assert drawn.dual.solve(1e-11)
    beta = drawn.dual.multipliers
    sums = np.bincount(drawn.examples, beta, N)
    assert (beta >= 0).all() and (sums <= cap * (1 + 1e-12)).all()
    np.testing.assert_allclose(sums + drawn.dual.rest, cap, rtol=1e-12)
    H = drawn.b - drawn.J @ beta
    np.testing.assert_allclose(drawn.dual.required(), H, atol=1e-12)
    slack = np.array([max(0, H[drawn.examples == i].max()) for i in range(N)])
    np.testing.assert_allclose(drawn.dual.largest(), slack, atol=1e-12)
    assert np.abs((H - slack[drawn.examples])[beta > 0]).max() <= 2e-11
    np.testing.assert_allclose((cap - sums) * slack, 0, atol=1e-11)
    assert (sums > 0.999 * cap).any()


def test_one_example_alone():
    """Step 10b moves the multipliers of one example and leaves the others where they are."""
    drawn = Drawn(2, 0.4, 0.0)
    assert drawn.dual.solve(1e-10, only=1)
    own = drawn.examples == 1
    assert (drawn.dual.multipliers[~own] == 0).all() and drawn.dual.multipliers[own].any()
    H = drawn.dual.required()[own]
    assert H[drawn.dual.multipliers[own] > 0].min() >= max(0, H.max()) - 1e-9
    assert drawn.dual.solve(1e-10)
    assert drawn.dual.multipliers[~own].any()


def test_a_margin_that_does_not_exist():
    """Two opposite planes: the dual of a hard margin is unbounded, and the bound says so."""
    dual = WorkingSetDual(np.full(2, np.inf), np.zeros(2))
    dual.add(0, 1.0, np.array([1.0]))
    dual.add(1, 1.0, np.array([-1.0, 1.0 + 1e-6]))
    assert not dual.solve(1e-9, least_margin=1e-2)
    assert dual.margin_bound() <= 1e-2
    assert not WorkingSetDual(np.ones(1), np.zeros(1)).size
