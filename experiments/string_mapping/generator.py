"""Pairs of strings as the thesis draws them (4.6.4, after Weston et al. 2003, section 5.1)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

ALPHABET = "abcd"
TARGETS = ("abad", "abbd", "aabc")
"""The output of each class before noise."""
SHORTEST, LONGEST = 10, 15
ONE, TWO = 0.3, 0.15
"""Probabilities of one change and of two."""
NOISES = ("insertions", "deletions")


class Pairs(NamedTuple):
    """n inputs, their outputs and the classes that made them."""

    inputs: list[str]
    outputs: list[str]
    classes: np.ndarray


def transitions(kind: int) -> np.ndarray:
    """[4, 4] the Markov model of a class: uniform; .7 to itself; c and d alone, .7 to itself."""
    if kind == 0:
        return np.full((4, 4), 0.25)
    if kind == 1:
        return np.full((4, 4), 0.1) + 0.6 * np.eye(4)
    of_two = np.full((2, 2), 0.3) + 0.4 * np.eye(2)
    return np.kron(np.diag([0.0, 1.0]), of_two)


def draw_input(rng: np.random.Generator, kind: int) -> str:
    """A string of 10 to 15 letters; every letter of its class may be the first."""
    table = transitions(kind)
    letters = [rng.choice(np.flatnonzero(table.sum(axis=1)))]
    for _ in range(rng.integers(SHORTEST, LONGEST + 1) - 1):
        letters.append(rng.choice(4, p=table[letters[-1]]))
    return "".join(ALPHABET[letter] for letter in letters)


def draw_output(rng: np.random.Generator, kind: int, noise: str = "insertions") -> str:
    """The class's output after noise: one change with .3, two with .15, in each of two turns.

    Args:
      noise: what the first turn's two changes are: "insertions", as Weston et al. have it, or
        "deletions", as the thesis prints it. The second turn deletes.
    """
    letters = list(TARGETS[kind])
    count = int(rng.choice(3, p=[1 - ONE - TWO, ONE, TWO]))
    if count == 2 and noise == "deletions":
        _delete(rng, letters, 2)
    else:
        for _ in range(count):
            letters.insert(rng.integers(len(letters) + 1), ALPHABET[rng.integers(4)])
    _delete(rng, letters, int(rng.choice(3, p=[1 - ONE - TWO, ONE, TWO])))
    return "".join(letters)


def _delete(rng: np.random.Generator, letters: list[str], count: int) -> None:
    for _ in range(min(count, len(letters))):
        letters.pop(rng.integers(len(letters)))


def draw_pairs(n: int, seed: int, noise: str = "insertions") -> Pairs:
    """n pairs, every class equally likely."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(3, size=n)
    inputs = [draw_input(rng, kind) for kind in classes]
    return Pairs(inputs, [draw_output(rng, kind, noise) for kind in classes], classes)
