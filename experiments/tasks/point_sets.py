"""Point sets that are drawn to be matched, and features of their pairs: own generator.

A first set lies in a square; the second is the same, turned, moved and shaken, with some points
left out and others added. A pair has 64 features: minus the squared differences of the 60 bins of
the shape contexts of both points (S. Belongie, J. Malik and J. Puzicha, PAMI 24, 2002), as in T.
Caetano et al. 2009, and of four plain numbers: both coordinates, the distance to the centre, and
that to the nearest other point.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

ANGLES, RINGS = 12, 5
BINS = ANGLES * RINGS
SCALES = (0.125, 2.0)
"""Where the first ring ends and the last one, in mean distances of points."""


class Drawing(NamedTuple):
    """How point sets are drawn.

    Fields:
      points: of the first set, fewest and most. turn: radians to either side at most.
      noise: standard deviation of each coordinate, in sides of the square.
      missing: share of the points that the second set lacks. added: others, in shares of the first.
    """

    points: tuple[int, int]
    turn: float
    noise: float
    missing: float
    added: float


class Pair(NamedTuple):
    """first: [r, 2]. second: [c, 2]. matching: the true pairs (i, j), by i."""

    first: np.ndarray
    second: np.ndarray
    matching: list[tuple[int, int]]


def drawn_pairs(rng: np.random.Generator, n: int, drawing: Drawing) -> list[Pair]:
    """n pairs of point sets, each in an order of its own."""
    return [_drawn(rng, drawing) for _ in range(n)]


def _drawn(rng: np.random.Generator, drawing: Drawing) -> Pair:
    low, high = drawing.points
    r = int(rng.integers(low, high + 1))
    first = rng.random((r, 2))
    angle = rng.uniform(-drawing.turn, drawing.turn)
    turned = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    second = (first - 0.5) @ turned.T + 0.5 + drawing.noise * rng.normal(size=(r, 2))
    kept = np.flatnonzero(rng.random(r) >= drawing.missing)
    kept = kept if kept.size else np.arange(1)
    added = rng.random((int(rng.binomial(r, drawing.added)), 2))
    order = rng.permutation(len(kept) + len(added))
    second = np.concatenate([second[kept], added])[order] + rng.normal(size=2)
    places = np.argsort(order)[: len(kept)]
    return Pair(first, second, list(zip(kept.tolist(), places.tolist(), strict=True)))


def shape_contexts(points: np.ndarray) -> np.ndarray:
    """[m, BINS] where the other points are: by direction and by the logarithm of their distance."""
    apart = points[None] - points[:, None]
    distance = np.linalg.norm(apart, axis=2)
    others = ~np.eye(len(points), dtype=bool)
    unit = distance[others].mean() if len(points) > 1 else 1.0
    edges = unit * np.geomspace(*SCALES, RINGS)
    ring = np.searchsorted(edges, distance)
    angle = np.floor((np.arctan2(apart[..., 1], apart[..., 0]) / (2 * np.pi) + 1) * ANGLES)
    place = np.minimum(ring, RINGS - 1) * ANGLES + angle.astype(int) % ANGLES
    counts = (place[:, :, None] == np.arange(BINS)) & others[:, :, None]
    return counts.sum(axis=1) / max(len(points) - 1, 1)


def _plain(points: np.ndarray) -> np.ndarray:
    """[m, 4] place from the centre, distance from it, distance to the nearest other point."""
    centred = points - points.mean(axis=0)
    distance = np.linalg.norm(points[None] - points[:, None], axis=2)
    np.fill_diagonal(distance, np.inf)
    nearest = distance.min(axis=1) if len(points) > 1 else np.zeros(1)
    return np.column_stack([centred, np.linalg.norm(centred, axis=1), nearest])


def pair_features(pair: Pair, dtype: str = "float32") -> np.ndarray:
    """[r, c, BINS + 4] minus the squared differences, of about unit size."""

    def differences(of: np.ndarray, other: np.ndarray) -> np.ndarray:
        return -((of[:, None] - other[None]) ** 2)

    contexts = differences(*(shape_contexts(points) for points in pair[:2]))
    plain = differences(*(_plain(points) for points in pair[:2]))
    return np.concatenate([100 * contexts, 10 * plain], axis=2).astype(dtype)
