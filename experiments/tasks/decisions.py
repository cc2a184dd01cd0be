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

Portfolios and round trips are decision sets that the package has none for. A portfolio puts shares
y >= 0 of one's money into d assets, sum_j y_j <= 1, with a risk y' S y of at most gamma, 2.25 times
the mean entry of S (Elmachtoub and Grigas 2022, PyEPO). S = A A' + I, up to a
factor. The best one for values v has the dual

    max_y <v, y> = min over mu >= 0, g of mu + sqrt(gamma (|g|^2 + |max(v - A g - mu, 0)|^2))

in as many numbers as A has columns and one more. Newton steps find it; every (mu, g) is a bound;
y is proportional to max(v - A g - mu, 0). Shares are rounded down to whole parts of `PARTS`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxstruct import Bounded, decisions, host_oracle
from jaxstruct.core.types import Array
from jaxstruct.decisions import Decisions

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


PARTS = 1 << 30
"""Of one's money: with 2^-30 rounding is below what `jaxstruct.fit` takes for a fault, float64's
too."""
RISK = 2.25
STEPS = 12
"""Newton steps."""
SHORTER = 2.0 ** -np.arange(8)
"""Parts of a step that are tried."""
LEVEL = 1e-6
"""Relative: of parts whose values differ by less the longest is taken, since rounding decides."""


def portfolios(loadings: np.ndarray) -> Decisions:
    """Whole parts of `PARTS` in each of d assets.

    Args:
      loadings: [d, k] A of the module.
    """
    best = Partial(_best_portfolio, jnp.asarray(loadings))
    return decisions.own(len(loadings), best, "maximise", bounded=True)


def _left(A: Array, v: Array, at: Array) -> Array:
    return jnp.maximum(v - A @ at[1:] - at[0], 0)


def _near(v: Array) -> Any:
    """What rounding may leave of numbers of size 1."""
    return 8 * jnp.finfo(v.dtype).eps


def _dual(A: Array, gamma: Array, v: Array, at: Array) -> Array:
    """The bound at (mu, g); v has a maximum of 1, and the last term keeps it smooth."""
    g, left = at[1:], _left(A, v, at)
    return at[0] + jnp.sqrt(gamma * (g @ g + left @ left + _near(v) ** 2))


def _start(gamma: Array, v: Array, columns: int) -> Array:
    """(mu, g), the best for g = 0 where all assets are held."""
    d, spread = len(v), jnp.sum((v - jnp.mean(v)) ** 2) + _near(v) ** 2
    mu = jnp.mean(v) - jnp.sqrt(spread / (d * (gamma * d - 1)))
    return jnp.zeros(columns + 1, v.dtype).at[0].set(jnp.maximum(mu, 0))


def _shorter_dual(A: Array, gamma: Array, v: Array, at: Array) -> Array:
    """(mu, g) after a Newton step, or a part of it. mu at 0 stays there where it would fall."""
    value = functools.partial(_dual, A, gamma, v)
    slope, curve, one = (
        jax.grad(value)(at),
        jax.hessian(value)(at),
        jnp.eye(len(at), dtype=at.dtype),
    )
    free = (at > 0) | (slope < 0) | (jnp.arange(len(at)) > 0)
    curve = jnp.where(free[:, None] & free[None], curve, one) + 1e-6 * one
    move = jnp.linalg.solve(curve, jnp.where(free, slope, 0))
    tried = at[None] - jnp.outer(jnp.asarray(SHORTER, at.dtype), move)
    tried = jnp.vstack([tried.at[:, 0].max(0), at])
    values = jax.vmap(value)(tried)
    return tried[jnp.argmax(values <= jnp.nanmin(values) + LEVEL)]


def _best_portfolio(A: Array, theta: Array, instance: tuple) -> Bounded:
    """Of ONE example, with the bound that is left by Newton steps and rounding."""
    del instance
    A, near = A.astype(theta.dtype), _near(theta)
    d, most = len(theta), jnp.max(theta)
    gains = most > 0
    scale = jnp.where(gains, most, 1)
    v = theta / scale
    market = jnp.sum(A, axis=0) / d
    gamma = RISK * (market @ market + 1 / d)
    step = functools.partial(_shorter_dual, A, gamma, v)
    start = _start(gamma, v, A.shape[1])
    at = jax.lax.fori_loop(0, STEPS, lambda _, at: step(at), start)
    y = jnp.where(gains, _left(A, v, at), 0)
    factors = A.T @ y
    risk, money = factors @ factors + y @ y, jnp.sum(y)
    bought = money > 0
    least = jnp.minimum(
        1 / jnp.where(bought, money, 1), jnp.sqrt(gamma / jnp.where(bought, risk, 1))
    )
    shares = jnp.floor(PARTS * ((1 - near) * least * y)).astype(jnp.int32)
    bound = PARTS * scale * (1 + near) * _dual(A, gamma, v, at)
    return Bounded(shares, jnp.where(gains, bound, 0))


def listed(every: np.ndarray) -> Decisions:
    """The cheapest of decisions [m, d] that are listed."""
    best = Partial(_best_listed, jnp.asarray(every))
    return decisions.own(every.shape[1], best, "minimise")


def _best_listed(every: Array, theta: Array, instance: tuple) -> Array:
    del instance
    return every[jnp.argmax(every.astype(theta.dtype) @ theta)].astype(jnp.int32)


@functools.cache
def round_trips(towns: int) -> Decisions:
    """The cheapest round trips, by a dynamic program in Python (Held and Karp 1962).

    Args:
      towns: n; the program looks at 2^(n - 1) (n - 1)^2 / 2 steps.
    """
    best = host_oracle(functools.partial(held_karp, towns), _like)
    return decisions.own(towns * (towns - 1) // 2, best, "minimise")


def _like(theta: Array, instance: tuple) -> Any:
    del instance
    return jax.ShapeDtypeStruct(theta.shape, jnp.int32)


def held_karp(towns: int, theta: np.ndarray, instance: tuple) -> np.ndarray:
    """[towns (towns - 1) / 2] 0/1: which pairs i < j the best round trip of ONE example uses.

    V[S, j] is the cost of the cheapest way from the last town through S to j in S.
    """
    del instance
    costs, last = np.zeros((towns, towns)), towns - 1
    pairs = np.triu_indices(towns, 1)
    costs[pairs] = -theta.astype(np.float64)
    costs += costs.T
    values = np.full((1 << last, last), np.inf)
    before = np.zeros(values.shape, int)
    values[1 << np.arange(last), np.arange(last)] = costs[last, :last]
    for sets, ends, rest in _layers(last):
        ways = values[rest] + costs[ends, :last]
        found = ways.argmin(axis=1)
        before[sets, ends], values[sets, ends] = found, ways[np.arange(len(ways)), found]
    through, town = len(values) - 1, int((values[-1] + costs[last, :last]).argmin())
    used = np.zeros((towns, towns), np.int32)
    used[last, town] = 1
    while through != 1 << town:
        came = before[through, town]
        used[came, town], through, town = 1, through ^ (1 << town), came
    used[town, last] = 1
    return (used + used.T)[pairs]


@functools.cache
def _layers(towns: int) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """(S, j in S, S without j) of all S of 2, 3, .. towns, S as bits of a number."""
    inside = np.arange(1 << towns)[:, None] >> np.arange(towns) & 1
    sets, ends = np.nonzero(inside)
    sizes = inside.sum(axis=1)[sets]
    parts = ((sets[sizes == size], ends[sizes == size]) for size in range(2, towns + 1))
    return [(own, end, own ^ (1 << end)) for own, end in parts]
