"""Decision sets of the generated tasks that the package has none for: portfolios, round trips.

A portfolio puts shares y >= 0 of one's money into d assets, sum_j y_j <= 1, with a risk y' S y of
at most gamma, 2.25 times the mean entry of S (Elmachtoub and Grigas 2022, PyEPO). S = A A' + I,
up to a factor. The best one for values v has the dual

    max_y <v, y> = min over mu >= 0, g of mu + sqrt(gamma (|g|^2 + |max(v - A g - mu, 0)|^2))

in as many numbers as A has columns and one more. Newton steps find it; every (mu, g) is a bound;
y is proportional to max(v - A g - mu, 0). Shares are rounded down to whole parts of `PARTS`.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxstruct import Bounded, decisions, host_oracle
from jaxstruct.core.types import Array
from jaxstruct.decisions import Decisions

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
