"""Training sets of short label sequences with their optimum, every constraint enumerated."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from jaxstruct.chains.structure import Constraints
from tests.chains.enumeration import loss_in_numpy
from tests.chains.oracles.truth import all_labelings
from tests.chains.structure_cases import (
    Model,
    Sequences,
    allowed,
    flat_psi,
    iob_constraints,
    random_sequences,
)
from tests.truth.quadratic_program import Truth, solve_primal

T, D, S = 3, 3, 3


class Every(NamedTuple):
    """All outputs of all examples, y_i first; where there are fewer the last is repeated.

    Fields:
      outputs: [n, k, T]. psi: [n, k, D]. several: [n] bool, whether there is any output but y_i.
    """

    outputs: np.ndarray
    psi: np.ndarray
    several: np.ndarray

    def losses(self, name: str) -> np.ndarray:
        """[n, k] Delta(y_i, y)."""
        delta = np.zeros(self.outputs.shape[:2])
        for i, rows in enumerate(self.outputs):
            real = rows[0] >= 0
            delta[i] = loss_in_numpy(name, rows[:1, real], rows[:, real])[0]
        return delta


def every(data: Sequences, model: Model, way: str, constraints: Constraints | None) -> Every:
    """Enumeration of a small training set."""
    features, k = data.features(way), data.S ** int(data.length.max())
    outputs = np.repeat(data.y[:, None], k, axis=1)
    several = np.zeros(len(features), bool)
    for i, (y, end) in enumerate(zip(data.y, data.length, strict=True)):
        labels = all_labelings(data.S, int(end), data.y.shape[1])
        wrong = labels[(labels != y).any(axis=1) & allowed(constraints, labels)]
        several[i] = len(wrong) > 0
        outputs[i, 1 : 1 + len(wrong)] = wrong
        outputs[i, 1 + len(wrong) :] = wrong[-1] if len(wrong) else y
    psi = [
        [flat_psi(model, data.S, x, y) for y in rows]
        for x, rows in zip(features, outputs, strict=True)
    ]
    return Every(outputs, np.asarray(psi), several)


class Training(NamedTuple):
    """Which training set: its size, model, kind of tokens, loss; y by a hidden w if separable."""

    model: Model = Model()
    way: str = "dense"
    loss: str = "hamming"
    separable: bool = False
    constrained: bool = False
    n: int = 8

    @property
    def constraints(self) -> Constraints | None:
        return iob_constraints(S) if self.constrained else None

    def data(self) -> Sequences:
        return _labelled(self)

    def every(self) -> Every:
        return _every(self)

    def truth(self, formulation: str, C: float) -> Truth:
        """The optimum; an example without a wrong output has no constraints."""
        return _truth(self, formulation, C)


@lru_cache
def _labelled(case: Training) -> Sequences:
    """Lengths 0 to T. Labels at random, or the best of a hidden w."""
    data = random_sequences(5, case.n, T, D, S, shortest=0, pool=20)
    random = np.random.default_rng(9)
    for i, end in enumerate(data.length):
        labels = all_labelings(S, int(end), T)
        labels = labels[allowed(case.constraints, labels)]
        data.y[i] = labels[random.integers(len(labels))]
    if case.separable:
        psi = every(data, case.model, case.way, case.constraints)
        w = random.normal(size=psi.psi.shape[2])
        best = (psi.psi @ w).argmax(axis=1)
        data = data._replace(y=psi.outputs[np.arange(case.n), best])
    return data


@lru_cache
def _every(case: Training) -> Every:
    return every(case.data(), case.model, case.way, case.constraints)


@lru_cache
def _truth(case: Training, formulation: str, C: float) -> Truth:
    found, zeros = case.every(), np.zeros(case.n, int)
    weights = found.several.astype(float)
    return solve_primal(formulation, found.psi, found.losses(case.loss), zeros, C, weights)
