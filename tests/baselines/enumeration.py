"""Log losses with the joint features of every output of every example written down in numpy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp, xlogy


class Enumerated(NamedTuple):
    """sum_i [log Z - F]; true [n, D] has Psi of the true outputs, every [A_i, D] of all of i."""

    true: np.ndarray
    every: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, examples: Iterable[tuple[np.ndarray, np.ndarray]]) -> Enumerated:
        """Of pairs (Psi of the true output, Psi of all outputs)."""
        true, every = zip(*examples, strict=True)
        return cls(np.stack(true), every)

    def likelihood(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = 0.0, -self.true.sum(axis=0)
        for psi, true in zip(self.every, self.true, strict=True):
            log_z = logsumexp(psi @ w)
            value += log_z - true @ w
            gradient = gradient + np.exp(psi @ w - log_z) @ psi
        return value, gradient

    def objective(self, w: np.ndarray, C: float) -> tuple[float, np.ndarray]:
        value, gradient = self.likelihood(w)
        scale = C / len(self.true)
        return w @ w / 2 + scale * value, w + scale * gradient

    def dual(self, w: np.ndarray, C: float) -> float:
        """C/n sum_i H(mu_i) - 1/2 |w(mu)|^2 at the distributions mu_i of w."""
        scale, entropy, found = C / len(self.true), 0.0, np.zeros_like(w)
        for psi, true in zip(self.every, self.true, strict=True):
            mu = np.exp(psi @ w - logsumexp(psi @ w))
            entropy -= xlogy(mu, mu).sum()
            found = found + scale * (true - mu @ psi)
        return scale * entropy - found @ found / 2

    def optimum(self, C: float) -> tuple[np.ndarray, float]:
        """(w, its value) of scipy's L-BFGS."""
        options = dict(gtol=1e-10, ftol=1e-15, maxiter=5000)
        found = minimize(
            self.objective, np.zeros(self.true.shape[1]), (C,), "L-BFGS-B", True, options=options
        )
        return found.x, found.fun
