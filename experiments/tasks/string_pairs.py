"""Strings to strings as the thesis draws them (4.6.4): pairs, their kernels, inputs of machines."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np

from jaxstruct.core.sizes import size_class
from jaxstruct.kernels import encode_strings, gram_matrix, normalised, subsequences
from jaxstruct.strings import KernelCandidates

ALPHABET = "abcd"
TARGETS = ("abad", "abbd", "aabc")
"""The output of each class before noise."""
SHORTEST, LONGEST = 10, 15
ONE, TWO = 0.3, 0.15
"""Probabilities of one change and of two."""
NOISES = ("deletions", "insertions")


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
    letters = [int(rng.choice(np.flatnonzero(table.sum(axis=1))))]
    for _ in range(rng.integers(SHORTEST, LONGEST + 1) - 1):
        letters.append(int(rng.choice(4, p=table[letters[-1]])))
    return "".join(ALPHABET[letter] for letter in letters)


def draw_output(rng: np.random.Generator, kind: int, noise: str = "deletions") -> str:
    """The class's output after noise: one change with .3, two with .15, in each of two turns.

    Args:
      noise: what the first turn's two changes are: "deletions", as the thesis prints it, or
        "insertions", as Weston et al. have it. The second turn deletes.
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


def draw_pairs(n: int, seed: int, noise: str = "deletions") -> Pairs:
    """n pairs, every class equally likely."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(3, size=n)
    inputs = [draw_input(rng, kind) for kind in classes]
    return Pairs(inputs, [draw_output(rng, kind, noise) for kind in classes], classes)


SHORT = ("own", "none")


class Kernels(NamedTuple):
    """One data set as the methods see it.

    Fields:
      inputs: [n, n] K of the inputs.
      numbers: [n] which of the M distinct outputs each example has.
      outputs: [room, room] L of the distinct outputs, 0 beyond M; room is the size class of M, so
        that data sets share their programs.
      loss: [room, room] 1 - L, 0 on the diagonal.
    """

    inputs: np.ndarray
    numbers: np.ndarray
    outputs: np.ndarray
    loss: np.ndarray


def kernels_of(pairs: Pairs, decay: float, lengths: tuple[int, int], short: str) -> Kernels:
    """The normalised gapped-subsequence kernels of inputs and of distinct outputs.

    Args:
      decay, lengths: of `subsequences`, (shortest, longest).
      short: what an output with no subsequence is: "own", a direction of its own, L(y, y) = 1 and
        0 with all others; "none", L(y, y) = 0.
    """
    distinct = list(dict.fromkeys(pairs.outputs))
    places = {y: number for number, y in enumerate(distinct)}
    room = size_class(len(distinct))
    padded = distinct + [""] * (room - len(distinct))
    with jax.enable_x64(True):  # in float32 rounding alone can make eigenvalues of L negative
        kernel = normalised(subsequences(lengths[1], decay, shortest=lengths[0]))
        gram, inputs = (
            np.array(gram_matrix(kernel, encode_strings(strings, ALPHABET)))
            for strings in (padded, pairs.inputs)
        )
    if short == "own":
        size = len(distinct)
        gram[:size, :size] += np.diag(np.diag(gram)[:size] == 0)
    loss = np.clip(1 - gram, 0, 1)
    np.fill_diagonal(loss, 0)
    numbers = np.array([places[y] for y in pairs.outputs], np.int32)
    return Kernels(inputs, numbers, gram, loss)


def inputs_on(
    kernels: Kernels, some: np.ndarray, train: np.ndarray, observed: np.ndarray
) -> KernelCandidates:
    """Inputs on the training inputs as anchors."""
    row = kernels.inputs[np.ix_(some, train)]
    anchors = np.arange(len(some)) if some is train else np.full(len(some), len(train))
    return KernelCandidates(row, anchors.astype(np.int32), np.tile(observed, (len(some), 1)))
