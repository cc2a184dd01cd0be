"""Generated decisions: features x, costs c that depend on them, as the papers draw them.

Elmachtoub and Grigas (Management Science 68, 2022) and Tang and Khalil (PyEPO, Mathematical
Programming Computation 16, 2024). B is drawn once, x ~ N(0, I_p), and noise e of every cost is
uniform in [1 - w, 1 + w]. With z = B x / sqrt(p), in Elmachtoub and Grigas's section 6:

    shortest path    c_j = ((z_j + 3)^degree + 1) / 3.5^degree e_j         B_jk in {0, 1}, fair
    knapsack         c_j = ceil(5 ((z_j + 3)^degree + 1) / 3.5^degree e_j) B_jk in {0, 1}, fair
    travelling       c_j = d_j + 3 ((z_j + 3) / 3)^degree e_j              B_jk in {0, 1} times
    salesman                                                               uniform in [-2, 2]
    portfolio        c_j = (.05 z_j + .1^(1 / degree))^degree + .02 w e_j  B_jk in {0, 1}, fair

d are the distances of towns that are drawn once, half of them normal, half uniform in [-2, 2]^2.
Of portfolios e = A f + u with normal f [p] and u [m], and A is drawn once, uniform in [-1/4, 1/4]:
w = 1/2 is the papers' noise level 1, and the covariance of e is A A' + I. With degree 1
the costs are linear in x; the larger the degree, the worse a linear model fits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

KNAPSACK_WEIGHTS = (3, 8)
"""Whole weights from 3 to 7. The papers draw hundredths from 3 to 8, whose table is a hundred
times as long."""


class Draw(NamedTuple):
    """What is drawn.

    Fields:
      task: of `TASKS`. size: cells of a side of the grid, items, towns or assets.
      features: p. degree: of the polynomial. noise: w, half the width of e.
    """

    task: str
    size: int
    features: int = 5
    degree: int = 1
    noise: float = 0.0


class Generator:
    """The law of one data set; every call draws further examples.

    Fields:
      costs: m, how many costs an example has.
      weights: [m] of items; of a portfolio A [m, p]; else None.
    """

    def __init__(self, draw: Draw, seed: int) -> None:
        """Draws what all examples share."""
        self.draw, self._random = draw, np.random.default_rng(seed)
        self.costs, self.weights, base = _COSTS[draw.task](draw.size), None, 0.0
        shape = self.costs, draw.features
        self._matrix = self._random.integers(0, 2, shape).astype(float)
        if draw.task == "knapsack":
            self.weights = self._random.integers(*KNAPSACK_WEIGHTS, draw.size)
        elif draw.task == "portfolio":
            base = self.weights = self._random.uniform(-0.25, 0.25, shape)
        elif draw.task in TRIPS:
            self._matrix *= self._random.uniform(-2, 2, shape)
            base = _distances(self._towns())
        self._base = base

    def _towns(self) -> np.ndarray:
        """[size, 2] where they lie."""
        half = self.draw.size // 2
        normal = self._random.normal(size=(half, 2))
        return np.concatenate([normal, self._random.uniform(-2, 2, (self.draw.size - half, 2))])

    def __call__(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """(x [n, p], c [n, m]) of n examples."""
        draw = self.draw
        x = self._random.normal(size=(n, draw.features))
        z = x @ self._matrix.T / np.sqrt(draw.features) + 3
        if draw.task == "portfolio":
            returns = (0.05 * (z - 3) + 0.1 ** (1 / draw.degree)) ** draw.degree
            common = self._random.normal(size=x.shape) @ np.transpose(self._base)
            return x, returns + 0.02 * draw.noise * (common + self._random.normal(size=z.shape))
        noise = self._random.uniform(1 - draw.noise, 1 + draw.noise, (n, self.costs))
        if draw.task in TRIPS:
            return x, self._base + 3 * (z / 3) ** draw.degree * noise
        c = (z**draw.degree + 1) / 3.5**draw.degree * noise
        return x, np.ceil(5 * c) if draw.task == "knapsack" else c


def _distances(places: np.ndarray) -> np.ndarray:
    """[size (size - 1) / 2] of all pairs i < j."""
    first, second = np.triu_indices(len(places), 1)
    return np.linalg.norm(places[first] - places[second], axis=1)


_COSTS: dict[str, Callable[[int], int]] = {
    "path": lambda side: 2 * side * (side - 1),
    "knapsack": lambda items: items,
    "salesman": lambda towns: towns * (towns - 1) // 2,
    "portfolio": lambda assets: assets,
    "salesman_host": lambda towns: towns * (towns - 1) // 2,
}
TASKS = tuple(_COSTS)
TRIPS = ("salesman", "salesman_host")


def tours(towns: int) -> np.ndarray:
    """[(towns - 1)! / 2, towns (towns - 1) / 2] 0/1: which pairs i < j each round trip uses."""
    from itertools import permutations

    pair = np.zeros((towns, towns), int)
    pair[np.triu_indices(towns, 1)] = np.arange(towns * (towns - 1) // 2)
    pair = np.maximum(pair, pair.T)
    found = np.array([each for each in permutations(range(1, towns)) if each[0] < each[-1]])
    rounds = np.concatenate([np.zeros((len(found), 1), int), found], axis=1)
    steps = pair[rounds, np.roll(rounds, -1, axis=1)]
    chosen = np.zeros((len(found), pair.max() + 1), np.int8)
    np.put_along_axis(chosen, steps, 1, axis=1)
    return chosen
