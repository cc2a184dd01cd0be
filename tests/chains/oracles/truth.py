"""Slow truth for chains: every label sequence enumerated and scored in numpy, in float64."""

from __future__ import annotations

import functools
import itertools
from typing import NamedTuple

import jax
import numpy as np
import pytest

from jaxstruct.chains.potentials import PADDING, ChainPotentials
from tests.lib.enumeration import Listed, with_garbage


def all_labelings(S: int, length: int, T: int | None = None) -> np.ndarray:
    """[S^length, T] int32: every label sequence in lexicographic order, padded (T: length)."""
    labels = np.full((S**length, length if T is None else T), PADDING, np.int32)
    rows = list(itertools.product(range(S), repeat=length))
    labels[:, :length] = np.asarray(rows, np.int32).reshape(len(rows), length)
    return labels


def scores(potentials: ChainPotentials, labels: np.ndarray) -> np.ndarray:
    """[n, K] float64: F of n chains of one length, of its label sequences [K, T]; of one alone [K].

    Positions with PADDING are not scored.
    """
    if potentials.emissions.ndim == 2:
        return scores(jax.tree.map(lambda leaf: leaf[None], potentials), labels)[0]
    labels = labels[:, labels[0] != PADDING]
    n, end = len(potentials.emissions), labels.shape[1]
    total = np.zeros((n, len(labels)))

    def add(table: np.ndarray | None, order: int) -> None:
        for t in range(0 if table is None else max(end - order, 0)):
            own = table[:, t] if table.ndim == order + 3 else table
            total[...] += own[:, *(labels[:, t + i] for i in range(order + 1))]

    for t in range(end):
        total += potentials.emissions[:, t, labels[:, t]]
    add(potentials.transitions, 1)
    add(potentials.triples, 2)
    for table, t in ((potentials.start, 0), (potentials.stop, end - 1)):
        if table is not None and end:
            total += table[:, labels[:, t]]
    return total


STRUCTURES = tuple(
    pytest.param(
        dict(second_order=second, varying=varying, start_stop=ends),
        id=f"order{1 + second}{'-varying' * varying}{'-ends' * ends}",
    )
    for second, varying, ends in itertools.product((False, True), repeat=3)
)
"""What a compiled program depends on; ties and forbidden labels are mixed within `cases`."""


class Cases(NamedTuple):
    """Random chains with their whole truth.

    Fields:
      potentials, length: stacked, float64 numpy.
      y_true: [N, T] int32 random labels, PADDING beyond the length.
      tied: [N] bool: integer potentials, where any order of summation is exact.
      labelings, scores: of each chain, every label sequence and its F.
    """

    potentials: ChainPotentials
    length: np.ndarray
    y_true: np.ndarray
    tied: np.ndarray
    labelings: list[np.ndarray]
    scores: list[np.ndarray]


def cases(
    structure: dict[str, bool], count: int = 200, T: int = 5, S: int = 3, forbidden: bool = True
) -> Cases:
    """`count` random chains of one structure, a quarter each with ties, forbidden labels, both.

    Lengths are drawn from 0..T; entries beyond them are garbage wherever tables vary by position.
    A twentieth of emissions and a fifth of the rest is -inf where some are forbidden; the first
    chain has no label sequence at all. Nothing is where it is not `forbidden`.
    """
    return _cases(tuple(structure.items()), count, T, S, forbidden)


@functools.cache
def _cases(structure: tuple, count: int, T: int, S: int, forbidden: bool) -> Cases:
    random, kind = np.random.default_rng([count, T, S, 0]), dict(structure)
    at = np.arange(count)
    length = random.integers(0, T + 1, count).astype(np.int32)
    length[0] = T

    def table(share: float, shape: tuple[int, ...], steps: int | None) -> np.ndarray:
        shape = (count, *(() if steps is None else (max(steps, 0),)), *shape)
        here = at.reshape(-1, *(1,) * (len(shape) - 1))
        values = random.normal(size=shape)
        values = np.where(here % 2 == 0, random.integers(-1, 2, shape), values)
        barred = forbidden & (here % 4 < 2) & (random.random(shape) < share)
        values = np.where(barred, -np.inf, values)
        if steps is not None:
            real = np.arange(shape[1]) < length[:, None] - T + steps
            values = with_garbage(values, real.reshape(*real.shape, *(1,) * (values.ndim - 2)))
        return values

    def by_step(order: int) -> int | None:
        return T - order if kind["varying"] else None

    ends = [table(0.1, (S,), None) if kind["start_stop"] else None for _ in range(2)]
    triples = table(0.2, (S, S, S), by_step(2)) if kind["second_order"] else None
    parts = table(0.05, (S,), T), table(0.2, (S, S), by_step(1)), *ends, triples
    if forbidden:
        parts[0][0, -1] = -np.inf
    real = np.arange(T) < length[:, None]
    y_true = np.where(real, random.integers(0, S, (count, T)), PADDING).astype(np.int32)
    every = [all_labelings(S, end, T) for end in range(T + 1)]
    F: list[np.ndarray] = [np.zeros(1)] * count
    for end in range(1, T + 1):
        rows = np.flatnonzero(length == end)
        own = ChainPotentials(*(None if part is None else part[rows] for part in parts))
        for row, values in zip(rows, scores(own, every[end]), strict=True):
            F[row] = values
    labelings = [every[end] for end in length]
    return Cases(ChainPotentials(*parts), length, y_true, at % 2 == 0, labelings, F)


def listed(given: Cases, F: list[np.ndarray] | None = None) -> Listed:
    """The label sequences of the cases, of equals the one with the lowest last label first."""
    orders = [np.lexsort(labels.T) for labels in given.labelings]
    pairs = zip(given.labelings, given.scores if F is None else F, orders, strict=True)
    outputs, F = zip(*((labels[order], own[order]) for labels, own, order in pairs), strict=True)
    return Listed(outputs, F, given.tied)


def as_dtype(potentials: ChainPotentials, dtype: str) -> ChainPotentials:
    """The potentials in another dtype."""
    return jax.tree.map(lambda leaf: np.asarray(leaf, dtype), potentials)
