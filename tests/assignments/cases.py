"""Every matching of small sets, random potentials with ties and forbidden pairs, and examples."""

from __future__ import annotations

import functools
import itertools
from typing import NamedTuple

import numpy as np

from tests.lib.enumeration import Listed


@functools.cache
def matchings(r: int, c: int, complete: bool) -> np.ndarray:
    """[K, r] all matchings; complete ones have min(r, c) pairs."""
    every = np.array(list(itertools.product(range(-1, c), repeat=r)))
    pairs = (every >= 0).sum(axis=1)
    once = np.array([len(set(one[one >= 0].tolist())) for one in every]) == pairs
    return every[once & ((pairs == min(r, c)) | (not complete))]


class Cases(NamedTuple):
    """n examples padded to R and C items.

    Fields:
      pairs: [n, R, C]. sizes: [n, 2]. rows: [n, R]. columns: [n, C]. tied: [n] whether integers.
    """

    pairs: np.ndarray
    sizes: np.ndarray
    rows: np.ndarray
    columns: np.ndarray
    tied: np.ndarray


def cases(seed: int, n: int, R: int, C: int, forbidden: float = 0.25) -> Cases:
    """All sizes in turn; half of the potentials are small integers, a third forbids pairs."""
    random, at = np.random.default_rng([seed, n, R, C]), np.arange(n)
    tied = at // (R * C) % 2 == 0
    potentials = []
    for shape in ((n, R, C), (n, R), (n, C)):
        by = tied.reshape(-1, *(1,) * (len(shape) - 1))
        integers = random.integers(-2, 3, shape).astype(float)
        potentials.append(np.where(by, integers, random.normal(size=shape)))
    some = (at // (2 * R * C) % 3 == 0)[:, None, None]
    barred = some & (random.random((n, R, C)) < forbidden)
    sizes = np.stack([1 + at % R, 1 + at // R % C], axis=1).astype(np.int32)
    return Cases(np.where(barred, -np.inf, potentials[0]), sizes, *potentials[1:], tied)


def scores(one: Cases, y: np.ndarray) -> np.ndarray:
    """[K] F of matchings [K, r] of one case."""
    r, c = one.sizes
    with_none = np.concatenate([one.pairs[:r, :c], one.rows[:r, None]], axis=1)
    taken = (y[:, :, None] == np.arange(c)).any(axis=1)
    return with_none[np.arange(r), y].sum(axis=1) + np.where(taken, 0, one.columns[:c]).sum(axis=1)


def listed(given: Cases, complete: bool) -> Listed:
    """All matchings of all cases, padded with -1; ties prefer none."""
    outputs, every = [], []
    for one in (Cases(*row) for row in zip(*given, strict=True)):
        y = matchings(*one.sizes.tolist(), complete)
        missing = one.pairs.shape[0] - y.shape[1]
        outputs.append(np.pad(y, ((0, 0), (0, missing)), constant_values=-1))
        every.append(scores(one, y))
    return Listed(outputs, every, np.zeros(len(outputs), bool))


def losses(name: str, true: np.ndarray, y: np.ndarray, c: int) -> np.ndarray:
    """[K] Delta of matchings [K, r] against a true one [r], item by item."""

    def partners(y: np.ndarray) -> np.ndarray:
        takes = y[:, :, None] == np.arange(c)
        return np.where(takes.any(axis=1), takes.argmax(axis=1), -1)

    count, pairs = (y != true).sum(axis=1), max((true >= 0).sum(), 1)
    if "items" in name:
        count, pairs = count + (partners(y) != partners(true[None])).sum(axis=1), 2 * pairs
    return count / pairs if name.startswith("normalised") else count.astype(float)


def examples(seed: int, n: int, most: int = 4, *, unmatched: bool = False, listed: bool = False):
    """(X, y) of 2 to `most` items a side with 3 features a pair; listed ones lack some pairs."""
    random = np.random.default_rng([seed, n])
    X, Y = [], []
    for _ in range(n):
        r, c = random.integers(2, most + 1, 2).tolist()
        x = random.normal(size=(r, c, 3)).astype(np.float32)
        own = np.concatenate(
            [x @ [1.0, -2.0, 0.5] + random.normal(size=(r, c)), np.zeros((r, 1))], 1
        )
        every = matchings(r, c, not unmatched)
        best = every[own[np.arange(r), every].sum(axis=1).argmax()]
        y = [(i, int(j)) for i, j in enumerate(best) if j >= 0]
        if listed:
            kept = {
                (i, j) for i in range(r) for j in range(c) if (i, j) in y or random.random() < 0.7
            }
            x = {
                (f"r{i}", j): dict(zip("abc", map(float, x[i, j]), strict=True))
                for i, j in sorted(kept)
            }
            y = [(f"r{i}", j) for i, j in y]
        X.append(x)
        Y.append(y)
    return X, Y
