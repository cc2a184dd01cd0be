"""Every segmentation of short sequences, their scores by sums over segments, their losses."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from jaxstruct.segments import SegmentPotentials
from tests.lib.enumeration import Listed, with_garbage

T, L, S = 5, 3, 2


@functools.cache
def divisions(length: int, outside: int | None = None) -> tuple:
    """All segmentations as tuples of (begin, length, label); ties prefer those in front.

    Those with the lowest last label come first, of these those with the shortest last segment.
    """
    if length == 0:
        return ((),)
    return tuple(
        (*front, (length - size, size, label))
        for label in range(S)
        for size in range(1, min(L, length) + 1)
        if label != outside or size == 1
        for front in divisions(length - size, outside)
    )


@functools.cache
def codes(length: int, outside: int | None = None) -> np.ndarray:
    """[K, T] the same as codes, -1 beyond the length."""
    found = np.full((len(divisions(length, outside)), T), -1, np.int32)
    for row, segments in zip(found, divisions(length, outside), strict=True):
        for begin, size, label in segments:
            row[begin : begin + size] = 2 * label
            row[begin] += 1
    return found


@functools.cache
def counts(length: int, outside: int | None = None) -> np.ndarray:
    """[K, T L S + S S + 2 S] how often each potential counts."""
    parts = [(T, L, S), (S, S), (S,), (S,)]
    found = []
    for segments in divisions(length, outside):
        tables = [np.zeros(shape) for shape in parts]
        labels = [label for _, _, label in segments]
        for begin, size, label in segments:
            tables[0][begin, size - 1, label] += 1
        for pair in zip(labels, labels[1:], strict=False):
            tables[1][pair] += 1
        if labels:
            tables[2][labels[0]] += 1
            tables[3][labels[-1]] += 1
        found.append(np.concatenate([table.ravel() for table in tables]))
    return np.array(found)


def scores(potentials: SegmentPotentials, length: np.ndarray, outside: int | None = None) -> list:
    """[n] of arrays [K], F of all segmentations of each case."""
    flat = np.concatenate([np.reshape(leaf, (len(length), -1)) for leaf in potentials], axis=1)
    finite, barred = np.where(flat > -np.inf, flat, 0), (flat == -np.inf).astype(float)
    found: list[Any] = [None] * len(length)
    for size in np.unique(length):
        table, own = counts(int(size), outside), np.flatnonzero(length == size)
        values = np.where(barred[own] @ table.T > 0, -np.inf, finite[own] @ table.T)
        for i, row in zip(own, values, strict=True):
            found[i] = row
    return found


class Cases(NamedTuple):
    """n sequences of lengths 0..T, half of small integers, a third of them with -inf."""

    potentials: SegmentPotentials
    length: np.ndarray
    tied: np.ndarray

    def typed(self, dtype: str) -> tuple[SegmentPotentials, np.ndarray]:
        """What an oracle takes, garbage where segments would end beyond the length."""
        given = SegmentPotentials(*(leaf.astype(dtype) for leaf in self.potentials))
        ends = np.arange(T)[:, None] + np.arange(1, L + 1)
        real = (ends <= self.length[:, None, None])[..., None]
        return given._replace(segments=with_garbage(given.segments, real)), self.length

    def listed(self) -> Listed:
        """All segmentations of all of them."""
        return Listed([codes(int(size)) for size in self.length],
                      scores(self.potentials, self.length), self.tied)  # fmt: skip


def cases(seed: int, n: int, forbidden: float = 0.1) -> Cases:
    """Random cases; a segmentation of each is allowed."""
    random = np.random.default_rng([seed, n])
    tied, barred = np.arange(n) % 2 == 0, np.arange(n) % 3 == 0

    def drawn(*shape: int) -> np.ndarray:
        axes = (n, *(1,) * len(shape))
        values = np.where(
            tied.reshape(axes), random.integers(-2, 3, (n, *shape)), random.normal(size=(n, *shape))
        )
        return np.where(barred.reshape(axes) & (random.random((n, *shape)) < forbidden), -np.inf,
                        values)  # fmt: skip

    potentials = SegmentPotentials(drawn(T, L, S), drawn(S, S), drawn(S), drawn(S))
    found = Cases(potentials, random.integers(0, T + 1, n).astype(np.int32), tied)
    some = np.array([(F > -np.inf).any() for F in found.listed().scores])
    potentials = SegmentPotentials(*(leaf[some] for leaf in potentials))
    return Cases(potentials, found.length[some], tied[some])


def level(loss: str, true: tuple, other: tuple, outside: int | None) -> Any:
    """What a loss is a function of: wrong tokens, or (true, predicted, right segments)."""
    if loss == "f1":
        a, b = ({one for one in own if one[2] != outside} for own in (true, other))
        return len(a), len(b), len(a & b)

    def tokens(segments: tuple) -> list:
        return [(label, t == 0) for _, size, label in segments for t in range(size)]

    wrong = sum(a != b for a, b in zip(tokens(true), tokens(other), strict=True))
    return min(wrong, 1) if loss == "zero_one" else wrong


def delta(loss: str, found: Any, length: int) -> float:
    """Delta of a level."""
    if loss == "f1":
        true, predicted, right = found
        return 1 - 2 * right / (true + predicted) if true + predicted else 0.0
    return found / max(length, 1) if loss == "normalised_hamming" else float(found)
