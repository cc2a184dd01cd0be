"""Small random candidate sets, as the problems read them and written down in full.

Psi(x, y) = x (x) Lambda(y), so that the same case is one of features, of K and L, and of J.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from jaxstruct import Problem, SparseFeatures
from jaxstruct.core.types import PyTree
from jaxstruct.strings.inputs import feature_inputs, joint_inputs, kernel_inputs
from jaxstruct.strings.structure import candidates, joint_candidates, kernel_candidates

N, D, M, P = 12, 4, 7, 5


class Case(NamedTuple):
    """x [N, D], Lambda [M, P] of a table of outputs, lists of them, y [N], Delta [M, M]."""

    x: np.ndarray
    rows: np.ndarray
    lists: list[np.ndarray]
    y: np.ndarray
    loss: np.ndarray

    def psi(self) -> np.ndarray:
        """[pairs, D P] Psi of every candidate, those of the first input first."""
        pairs = [(i, y) for i, own in enumerate(self.lists) for y in own]
        return np.stack([np.kron(self.x[i], self.rows[y]) for i, y in pairs])

    def machine(self, name: str, dtype: str = "float64") -> tuple[Problem, PyTree]:
        """(problem, inputs) of "features", "sparse", "kernel" or "joint"."""
        psi, options = self.psi(), dict(loss=self.loss, dtype=dtype)
        if name == "features":
            return candidates(D * P, **options), feature_inputs(self.lists, psi)
        if name == "sparse":
            every = np.broadcast_to(np.arange(D * P, dtype=np.int32), psi.shape)
            x = feature_inputs(self.lists, SparseFeatures(every, psi), D * P)
            return candidates(D * P, **options), x
        if name == "kernel":
            problem = kernel_candidates(len(self.x), self.rows @ self.rows.T, **options)
            return problem, kernel_inputs(self.x @ self.x.T, self.lists)
        return joint_candidates(len(psi), **options), joint_inputs(psi @ psi.T, self.lists)

    def scores(self, w: np.ndarray) -> list[np.ndarray]:
        """F of each candidate of each list, w [D P]."""
        ends = np.cumsum([len(own) for own in self.lists])[:-1]
        return np.split(self.psi() @ w, ends)

    def listed(self, psi: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(Psi [N, k, d], Delta [N, k], column of y_i): the true output first, then all wrong
        ones, the last of them as often as lists are shorter; psi: features of all candidates."""
        psi = self.psi() if psi is None else psi
        ends, k = np.cumsum([len(own) for own in self.lists])[:-1], max(map(len, self.lists))
        features, losses = np.zeros((N, k, psi.shape[1])), np.zeros((N, k))
        for i, (own, rows) in enumerate(zip(self.lists, np.split(psi, ends), strict=True)):
            first = int(np.flatnonzero(own == self.y[i])[0])
            order = [first, *(j for j in range(len(own)) if j != first)]
            order += order[-1:] * (k - len(own))
            features[i], losses[i] = rows[order], self.loss[self.y[i], own[order]]
        return features, losses, np.zeros(N, int)


@lru_cache
def random_case(seed: int = 0, least: int = 2) -> Case:
    """Lists of 2 to 5 outputs of 7 in any order, an asymmetric loss with a zero."""
    random = np.random.default_rng(seed)
    lists = [random.permutation(M)[: random.integers(least, 6)] for _ in range(N)]
    loss = random.choice([0.25, 1.0, 2.0], size=(M, M))
    loss[0, M - 1] = 0.0
    np.fill_diagonal(loss, 0.0)
    y = np.array([random.choice(own) for own in lists], np.int32)
    return Case(random.normal(size=(N, D)), random.normal(size=(M, P)), lists, y, loss)
