"""Thousands of random chains as the oracles of a structure see them, every output enumerated."""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import numpy as np

from jaxstruct import Problem
from jaxstruct.chains.label_parts import ChainTheta
from jaxstruct.chains.losses import label_weights
from jaxstruct.chains.potentials import ChainPotentials
from jaxstruct.chains.structure import Constraints, chain
from tests.chains.oracles.truth import all_labelings, cases, scores
from tests.chains.structure_cases import PLAIN, RICH, Model, allowed, iob_constraints

N, T, S = 800, 4, 3
COSTS = np.array([[0.0, 1.0, 4.0], [2.0, 0.0, 1.0], [9.0, 1.0, 0.0]])
"""Asymmetric; not a function of the number of wrong labels."""


def squares(level, n):
    """A loss of the Hamming level; the second argument has a name of its own on purpose."""
    return level**2 / (n + (n == 0))


LOSSES = {
    "hamming": "hamming",
    "normalised_hamming": "normalised_hamming",
    "zero_one": "zero_one",
    "squares": squares,
    "costs": COSTS,
    "weights": label_weights([1.0, 2.0, 0.0]),
}
"""What `chain` takes as its loss, S = 3."""


def loss_in_numpy(name: str, y_true: np.ndarray, y: np.ndarray) -> np.ndarray:
    """[n, k] Delta(y_true [n, l], y [k, l]) without padding."""
    wrong = y_true[:, None] != y[None]
    level, length = wrong.sum(axis=2), y.shape[1]
    if name == "hamming":
        return level.astype(float)
    if name == "normalised_hamming":
        return level / max(length, 1)
    if name == "zero_one":
        return (level > 0).astype(float)
    if name == "squares":
        return level**2 / max(length, 1)
    costs = COSTS if name == "costs" else np.array([1.0, 2.0, 0.0])[:, None] * (1 - np.eye(3))
    return costs[y_true[:, None], y[None]].sum(axis=2)


class Chains(NamedTuple):
    """N random potentials; nan where nothing may read.

    Fields:
      theta: stacked, float64 numpy. y: [N, T] true outputs, allowed. tied: [N] small integers.
      S: labels. constraints: or None.
    """

    theta: ChainTheta
    y: np.ndarray
    tied: np.ndarray
    S: int
    constraints: Constraints | None

    def padded(self, more: int) -> Chains:
        """The same with longer padding."""
        theta = self.theta

        def longer(table: np.ndarray) -> np.ndarray:
            pad = [(0, 0), (0, more)] + [(0, 0)] * (table.ndim - 2)
            return np.pad(table, pad, constant_values=np.nan)

        pairs = theta.transitions
        theta = theta._replace(
            emissions=longer(theta.emissions),
            transitions=longer(pairs) if pairs.ndim == 4 else pairs,
        )
        return self._replace(
            theta=theta, y=np.pad(self.y, [(0, 0), (0, more)], "constant", constant_values=-1)
        )

    def cast(self, dtype: str) -> ChainTheta:
        """theta in a dtype."""
        parts = [None if p is None else p.astype(dtype) for p in self.theta[:-1]]
        return ChainTheta(*parts, self.theta.length)


class Group(NamedTuple):
    """The chains of one length l with all their outputs.

    Fields:
      rows: [n] which chains. labels: [k, l] every output, in lexicographic order.
      F: [n, k], -inf where the constraints forbid. truth: [n] the output that is y_true.
      level: [n, k] wrong labels. S: labels.
    """

    rows: np.ndarray
    labels: np.ndarray
    F: np.ndarray
    truth: np.ndarray
    level: np.ndarray
    S: int

    def place(self, found: np.ndarray) -> np.ndarray:
        """[n] where the outputs found [N, T] stand in `labels`; padding and range are checked."""
        own, length = np.asarray(found)[self.rows], self.labels.shape[1]
        assert (own[:, length:] == -1).all()
        assert ((own[:, :length] >= 0) & (own[:, :length] < self.S)).all()
        return own[:, :length] @ self.S ** np.arange(length)[::-1].astype(int)

    def at(self, values: np.ndarray, found: np.ndarray) -> np.ndarray:
        """[n] values [n, k] of the outputs found."""
        return values[np.arange(len(self.rows)), self.place(found)]

    def preferred(self, values: np.ndarray) -> np.ndarray:
        """[n] argmax of values [n, k], ties as in `viterbi`: lowest last label, then the rest."""
        best = values.max(axis=1, keepdims=True)
        order = self.labels @ self.S ** np.arange(self.labels.shape[1]).astype(int)
        return np.where(values >= best - 1e-9, order[None], order.max() + 1).argmin(axis=1)


@functools.cache
def random_chains(model: Model, N: int, T: int, S: int, constrained: bool = False) -> Chains:
    """Those of `cases`, an eighth all zero as at w = 0; only constraints forbid."""
    constraints = iob_constraints(S) if constrained else None
    kind = dict(second_order=model.order == 2, start_stop=model.start_stop)
    given, same = (
        cases(kind | dict(varying=varying), N, T, S, forbidden=False)
        for varying in (model.pair_features, False)
    )
    nothing, length = np.arange(N) % 8 == 0, given.length
    parts = given.potentials._replace(triples=same.potentials.triples)
    parts = jax.tree.map(
        lambda leaf: np.where(nothing.reshape(-1, *(1,) * (leaf.ndim - 1)), 0.0, leaf), parts
    )
    random = np.random.default_rng([N, T, S])
    y = np.full((N, T), -1, np.int32)
    for end in range(T + 1):
        every = all_labelings(S, end, T)
        every, rows = every[allowed(constraints, every)], np.flatnonzero(length == end)
        y[rows] = every[random.integers(0, len(every), len(rows))]
    return Chains(ChainTheta(*parts, length), y, given.tied, S, constraints)


def enumerated(chains: Chains) -> list[Group]:
    """All outputs of all chains, length by length, scored in numpy."""
    theta, groups = chains.theta, []
    for end in np.unique(theta.length):
        rows = np.flatnonzero(theta.length == end)
        y = all_labelings(chains.S, int(end))
        parts = (part if part is None else part[rows] for part in theta[:-1])
        F = scores(ChainPotentials(*parts), y)
        F[:, ~allowed(chains.constraints, y)] = -np.inf
        level = (chains.y[rows][:, None, :end] != y[None]).sum(axis=2)
        truth = level.argmin(axis=1)
        groups.append(Group(rows, y, F, truth, level, chains.S))
    return groups


class Setting(NamedTuple):
    """A chain with one of LOSSES, with constraints or without."""

    model: Model
    loss: str
    constrained: bool

    @property
    def name(self) -> str:
        return f"{self.loss}{'-barred' * self.constrained}"

    def problem(self, dtype: str = "float64", **options: object) -> Problem:
        constraints = iob_constraints(S) if self.constrained else None
        return chain(
            1,
            S,
            **self.model._asdict(),
            loss=LOSSES[self.loss],
            dtype=dtype,
            constraints=constraints,
            **options,
        )

    def chains(self) -> Chains:
        return random_chains(self.model, N, T, S, self.constrained)


SETTINGS = [
    Setting(PLAIN, "hamming", False),
    Setting(Model(start_stop=True), "zero_one", True),
    Setting(RICH, "squares", True),
    Setting(Model(order=2), "weights", False),
    Setting(PLAIN, "normalised_hamming", True),
    Setting(PLAIN, "costs", True),
]
