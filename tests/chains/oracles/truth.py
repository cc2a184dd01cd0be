"""Slow truth for chains: every label sequence enumerated and scored in numpy, in float64."""

from __future__ import annotations

import functools
import itertools
from typing import NamedTuple

import jax
import numpy as np
import pytest

from jaxstruct.chains.potentials import PADDING, ChainPotentials
from tests.lib.enumeration import Listed


def _table(random: np.random.Generator, shape: tuple[int, ...], ties: bool) -> np.ndarray:
    """Random potentials; with `ties` small integers, so that many label sequences are equal."""
    return random.integers(-1, 2, shape).astype(float) if ties else random.normal(size=shape)


def _forbid(random: np.random.Generator, table: np.ndarray, share: float) -> np.ndarray:
    return np.where(random.random(table.shape) < share, -np.inf, table)


def random_chain(
    random: np.random.Generator,
    T: int,
    S: int,
    *,
    ties: bool = False,
    second_order: bool = False,
    varying: bool = False,
    start_stop: bool = False,
    forbidden: bool = False,
) -> tuple[ChainPotentials, int]:
    """Potentials of one chain as float64 numpy arrays, and its length, drawn from 0..T.

    Entries beyond the length are nan wherever the tables vary with the position: nothing may read
    them. `forbidden` makes a fifth of the transitions (and triples) -inf, and fewer of the others.
    """
    length = int(random.integers(0, T + 1))
    emissions = _table(random, (T, S), ties)
    transitions = _table(random, (T - 1, S, S) if varying else (S, S), ties)
    triples = None
    if second_order:
        triples = _table(random, (max(T - 2, 0), S, S, S) if varying else (S, S, S), ties)
    start, stop = (_table(random, (S,), ties) for _ in range(2)) if start_stop else (None, None)
    if forbidden:
        emissions = _forbid(random, emissions, 0.05)
        transitions = _forbid(random, transitions, 0.2)
        triples = None if triples is None else _forbid(random, triples, 0.2)
        start = None if start is None else _forbid(random, start, 0.1)
        stop = None if stop is None else _forbid(random, stop, 0.1)
    emissions[length:] = np.nan
    if varying:
        transitions[max(length - 1, 0) :] = np.nan
        if triples is not None:
            triples[max(length - 2, 0) :] = np.nan
    return ChainPotentials(emissions, transitions, start, stop, triples), length


def all_labelings(S: int, length: int, T: int | None = None) -> np.ndarray:
    """[S^length, T] int32: every label sequence in lexicographic order, padded (T: length)."""
    T = length if T is None else T
    rows = list(itertools.product(range(S), repeat=length))
    labels = np.full((len(rows), T), PADDING, np.int32)
    labels[:, :length] = np.asarray(rows, np.int32).reshape(len(rows), length)
    return labels


def scores(potentials: ChainPotentials, labelings: np.ndarray) -> np.ndarray:
    """[N] float64: F of every label sequence of `all_labelings` (one length for all).

    Positions with PADDING are not scored; the empty sequence has the score 0.
    """
    labels = np.asarray(labelings)
    length = int((labels[0] != PADDING).sum())
    emissions, transitions, start, stop, triples = (
        None if part is None else np.asarray(part, np.float64) for part in potentials
    )
    total = np.zeros(len(labels))
    for t in range(length):
        total += emissions[t, labels[:, t]]
    for t in range(length - 1):
        table = transitions if transitions.ndim == 2 else transitions[t]
        total += table[labels[:, t], labels[:, t + 1]]
    if triples is not None:
        for t in range(length - 2):
            table = triples if triples.ndim == 3 else triples[t]
            total += table[labels[:, t], labels[:, t + 1], labels[:, t + 2]]
    if start is not None and length:
        total += start[labels[:, 0]]
    if stop is not None and length:
        total += stop[labels[:, length - 1]]
    return total


def stacked(chains: list[tuple[ChainPotentials, int]]) -> tuple[ChainPotentials, np.ndarray]:
    """Chains of equal shapes stacked on a new first axis, for vmap, and their lengths [N]."""
    parts = zip(*(potentials for potentials, _ in chains), strict=True)
    stack = [None if column[0] is None else np.stack(column) for column in parts]
    return ChainPotentials(*stack), np.asarray([length for _, length in chains], np.int32)


STRUCTURES = tuple(
    pytest.param(
        dict(second_order=second, varying=varying, start_stop=ends),
        id=f"order{1 + second}{'-varying' * varying}{'-ends' * ends}",
    )
    for second, varying, ends in itertools.product((False, True), repeat=3)
)
"""What a compiled program depends on; ties and forbidden labels are mixed within `cases`."""
PAIRWISE = tuple(STRUCTURES[i] for i in (1, 2, 4, 7))
"""Every two options with and without each other, and all three.

The order, varying tables and ends are read by `oracles.recursion` alone, which all oracles share
and `test_viterbi` meets under all eight structures: the others need every pair of them, not every
triple. Half the structures with twice the chains are as many cases of half the programs.
"""


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
    structure: dict[str, bool], count: int = 400, T: int = 5, S: int = 3, draw: int = 0
) -> Cases:
    """`count` random chains of one structure, a quarter each with ties, forbidden labels, both."""
    return _cases(tuple(structure.items()), count, T, S, draw)


@functools.cache
def _cases(structure: tuple, count: int, T: int, S: int, draw: int) -> Cases:
    random = np.random.default_rng([count, T, S, *(int(value) for _, value in structure), draw])
    tied = np.arange(count) % 2 == 0
    chains = [
        random_chain(random, T, S, **dict(structure), ties=tied[i], forbidden=i % 4 < 2)
        for i in range(count)
    ]
    potentials, length = stacked(chains)
    real = np.arange(T) < length[:, None]
    y_true = np.where(real, random.integers(0, S, (count, T)), PADDING).astype(np.int32)
    labelings = [all_labelings(S, int(end), T) for end in length]
    truth = [scores(chain, y) for (chain, _), y in zip(chains, labelings, strict=True)]
    return Cases(potentials, length, y_true, tied, labelings, truth)


def listed(given: Cases) -> Listed:
    """The label sequences of the cases, of equals the one with the lowest last label first."""
    orders = [np.lexsort(labels.T) for labels in given.labelings]
    pairs = zip(given.labelings, given.scores, orders, strict=True)
    outputs, F = zip(*((labels[order], own[order]) for labels, own, order in pairs), strict=True)
    return Listed(outputs, F, given.tied)


def as_dtype(potentials: ChainPotentials, dtype: str) -> ChainPotentials:
    """The potentials in another dtype."""
    return jax.tree.map(lambda leaf: np.asarray(leaf, dtype), potentials)


def preferred(labels: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Indices of label sequences in falling order of their scores, ties as in `viterbi`.

    Of equal ones the one with the lowest last label is first, then the one with the lowest label
    before it, and so on.
    """
    return np.lexsort([*labels.T, -scores])
