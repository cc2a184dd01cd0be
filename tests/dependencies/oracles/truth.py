"""Every tree of small sentences, and random potentials with ties and forbidden arcs."""

from __future__ import annotations

import functools
import itertools
from typing import NamedTuple

import numpy as np

from jaxstruct.dependencies.example_checks import crossing_arcs, fault_of
from tests.lib.enumeration import Listed


@functools.cache
def trees(words: int, projective: bool) -> np.ndarray:
    """[K, words] the heads of all trees with one word on the root."""
    every = itertools.product(range(words + 1), repeat=words)
    found = [heads for heads in every if not fault_of(heads)]
    if projective:
        found = [heads for heads in found if not crossing_arcs(heads).any()]
    return np.array(found)


@functools.cache
def labelled_trees(words: int, labels: int, projective: bool) -> np.ndarray:
    """[K, 2 words] heads and labels of all trees."""
    combinations = np.array(list(itertools.product(range(labels), repeat=words)))
    heads = trees(words, projective)
    both = np.repeat(heads, len(combinations), 0), np.tile(combinations, (len(heads), 1))
    return np.concatenate(both, axis=1)


class Cases(NamedTuple):
    """n sentences padded to T words. potentials: [n, T + 1, T, R]. length: [n]. tied: [n]."""

    potentials: np.ndarray
    length: np.ndarray
    tied: np.ndarray


def cases(seed: int, count: int, T: int, R: int, forbidden: float = 0.2) -> Cases:
    """Lengths run through 1..T; half of the potentials are small integers, a third forbids arcs."""
    random = np.random.default_rng([seed, count, T, R])
    shape = count, T + 1, T, R
    at = np.arange(count)
    tied = at // T % 2 == 0
    integers = random.integers(-2, 3, shape).astype(float)
    potentials = np.where(tied[:, None, None, None], integers, random.normal(size=shape))
    some = (at // (2 * T) % 3 == 0)[:, None, None, None] & (random.random(shape) < forbidden)
    return Cases(np.where(some, -np.inf, potentials), (1 + at % T).astype(np.int32), tied)


def scores(potentials: np.ndarray, outputs: np.ndarray) -> np.ndarray:
    """[K] F of outputs [K, 2 words] of one case."""
    heads, labels = np.split(outputs, 2, axis=1)
    words = np.arange(heads.shape[1])
    return potentials[heads, words[None], labels].sum(axis=1)


def listed(given: Cases, projective: bool) -> Listed:
    """All outputs of all cases, heads and labels padded with -1; ties prefer no tree."""
    T, R = given.potentials.shape[2:]
    outputs, every = [], []
    for potentials, length in zip(given.potentials, given.length, strict=True):
        own = labelled_trees(int(length), R, projective)
        padded = np.full((len(own), 2, T), -1)
        padded[:, :, :length] = own.reshape(len(own), 2, length)
        outputs.append(padded.reshape(len(own), 2 * T))
        every.append(scores(potentials, own))
    return Listed(outputs, every, np.zeros(len(outputs), bool))
