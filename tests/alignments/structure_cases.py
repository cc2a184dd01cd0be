"""Aligned pairs of short sequences, with every alignment enumerated, its Psi and its losses."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from jaxstruct.alignments.structure import (
    AlignmentInput,
    AlignmentOutput,
    alignment_inputs,
    alignment_outputs,
)
from tests.alignments.oracles.truth import STEP, every


class AlignedPairs(NamedTuple):
    """n pairs over A letters.

    Fields:
      x, y: padded to (M, N). firsts, seconds: the sequences. truths: the index of the true one
        among every(m, n, local) of each pair.
    """

    A: int
    local: bool
    x: AlignmentInput
    y: AlignmentOutput
    firsts: list
    seconds: list
    truths: list

    def outputs(self, i: int) -> list:
        """[(operations, begin)] of pair i."""
        return every(len(self.firsts[i]), len(self.seconds[i]), self.local)

    def psi(self, i: int, gaps: str, symmetric: bool) -> np.ndarray:
        """[k, D] of all its alignments, in the order of `flat_weights`."""
        rows = [
            psi_of(self.A, self.firsts[i], self.seconds[i], *y, gaps, symmetric)
            for y in self.outputs(i)
        ]
        return np.array(rows)

    def losses(self, i: int, name: str) -> np.ndarray:
        """[k] Delta of all its alignments."""
        outputs = self.outputs(i)
        truth = outputs[self.truths[i]]
        return np.array([loss_of(name, truth, y) for y in outputs])


def padded_inputs(firsts, seconds, size):
    """Pairs of sequences as arrays [n, M] and [n, N]."""
    x, every = alignment_inputs(firsts, seconds), np.arange(len(firsts))
    sides = zip((x.first, x.second), size, strict=True)
    return AlignmentInput(*(side.padded(every, width) for side, width in sides), x.lengths)


def padded_outputs(operations, begin, width):
    """Alignments as arrays [n, width]."""
    y = alignment_outputs(operations, begin)
    return y._replace(operations=y.operations.padded(np.arange(len(operations)), width))


@lru_cache
def aligned_pairs(
    n: int, M: int, N: int, local: bool, A: int = 3, seed: int = 0, learnable: bool = False
) -> AlignedPairs:
    """Random pairs of all lengths from 1; truths are any alignments, or about the best of a w."""
    random = np.random.default_rng(seed)
    firsts = [random.integers(0, A, random.integers(1, M + 1)) for _ in range(n)]
    seconds = [random.integers(0, A, random.integers(1, N + 1)) for _ in range(n)]
    spaces = [every(len(a), len(b), local) for a, b in zip(firsts, seconds, strict=True)]
    truths = [int(random.integers(len(space))) for space in spaces]
    if learnable:
        w = np.append(random.normal(-0.3, 1, (A, A)) + 2 * np.eye(A), 1.0)
        for i, (a, b, space) in enumerate(zip(firsts, seconds, spaces, strict=True)):
            psi = np.array([psi_of(A, a, b, *y, "linear", False) for y in space])
            truths[i] = int(np.argmax(psi @ w + 0.3 * random.normal(size=len(space))))
    chosen = [space[truth] for space, truth in zip(spaces, truths, strict=True)]
    x = padded_inputs(firsts, seconds, (M, N))
    y = padded_outputs([np.array(o, int) for o, _ in chosen], [b for _, b in chosen], M + N)
    return AlignedPairs(A, local, x, y, firsts, seconds, truths)


def used(operations, begin) -> tuple[list, list]:
    """(the pairs (i, j), the kind of every gap letter with whether its run goes on)."""
    (i, j), pairs, gaps, before = begin, [], [], None
    for kind in operations:
        if kind == 0:
            pairs.append((i, j))
        else:
            gaps.append(kind == before)
        i, j, before = i + STEP[kind][0], j + STEP[kind][1], kind
    return pairs, gaps


def psi_of(A, first, second, operations, begin, gaps, symmetric) -> np.ndarray:
    """The histogram of one alignment."""
    pairs, letters = used(operations, begin)
    counts = np.zeros((A, A))
    for i, j in pairs:
        counts[first[i], second[j]] += 1
    counts = (counts + counts.T) / 2 if symmetric else counts
    later = sum(letters)
    opened = len(letters) - later
    costs = [-opened - later] if gaps == "linear" else [-opened, -later]
    return np.array([*counts.ravel(), *costs])


def flat_weights(w) -> np.ndarray:
    """Weights in the order of `psi_of`."""
    names = ("substitution", "gap") if "gap" in w else ("substitution", "gap_open", "gap_extend")
    return np.concatenate([np.ravel(w[name]) for name in names]).astype(float)


def loss_of(name, truth, y) -> float:
    """Delta by its definition: letter by letter, or pair by pair."""
    pairs, true = used(*y)[0], used(*truth)[0]
    if "pairs" in name:
        count, most = len(set(true) - set(pairs)), len(true)
    else:
        count = 0
        for side in (0, 1):
            is_with, should = ({p[side]: p[1 - side] for p in each} for each in (pairs, true))
            letters = set(is_with) | set(should)
            count += sum(is_with.get(letter) != should.get(letter) for letter in letters)
        most = len(truth[0]) + len(true)
    return count / max(most, 1) if "normalised" in name else count
