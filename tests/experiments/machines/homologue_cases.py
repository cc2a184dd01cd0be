"""Random homologues among decoys, short enough to write down every alignment."""

from __future__ import annotations

from functools import cache

import numpy as np

from experiments.machines.homologues import HomologueInput, HomologueOutput, homologue_outputs
from jaxstruct.alignments.potentials import PAIR
from tests.alignments.oracles.truth import STEP, every

A, M, N, Q = 3, 4, 3, 3


def psi(native, candidate, operations, begin, gaps="linear", symmetric=False):
    """The histogram of operations, counted one by one: [A A + 1] or [A A + 2]."""
    pairs, opened, later = np.zeros((A, A)), 0, 0
    (i, j), before = begin, None
    for kind in operations:
        if kind == PAIR:
            pairs[native[i], candidate[j]] += 1
        else:
            opened, later = opened + (kind != before), later + (kind == before)
        i, j, before = i + STEP[kind][0], j + STEP[kind][1], kind
    pairs = (pairs + pairs.T) / 2 if symmetric else pairs
    costs = [-opened - later] if gaps == "linear" else [-later, -opened]
    return np.concatenate([costs, pairs.ravel()])  # leaves in the order of their names


def all_alignments(native, candidate, **kind):
    """([K, D] Psi of every local alignment, the alignments)."""
    found = every(len(native), len(candidate), True)
    rows = [psi(native, candidate, operations, begin, **kind) for operations, begin in found]
    return np.array(rows), found


@cache
def random_examples(n, seed=0, shortest=1):
    """(inputs, outputs): lengths from `shortest`, some candidates absent, homologues anywhere."""
    random = np.random.default_rng(seed)
    native = random.integers(0, A, (n, M)).astype(np.int32)
    candidates = random.integers(0, A, (n, Q, N)).astype(np.int32)
    lengths = random.integers(shortest, M + 1, n).astype(np.int32)
    counts = random.integers(shortest, N + 1, (n, Q)).astype(np.int32)
    for i in range(0, n, 4):
        counts[i, random.integers(Q)] = 0
    native[np.arange(M) >= lengths[:, None]] = -1
    candidates[np.arange(N) >= counts[..., None]] = -1
    place, begins = np.zeros(n, np.int32), np.zeros((n, 2), int)
    operations = np.full((n, M + N), -1)
    for i in range(n):
        place[i] = random.choice(np.flatnonzero(counts[i]))
        options = every(int(lengths[i]), int(counts[i, place[i]]), True)
        kinds, begins[i] = options[random.integers(len(options))]
        operations[i, : len(kinds)] = kinds
    return (
        HomologueInput(native, candidates, lengths, counts),
        homologue_outputs(place, operations, begins, M + N),
    )


def sequences(inputs, i):
    """(native, candidates) of example i without padding."""
    native = inputs.native[i, : inputs.native_length[i]]
    lengths = inputs.candidate_lengths[i]
    return native, [row[:length] for row, length in zip(inputs.candidates[i], lengths, strict=True)]


def psi_of(inputs, i, output: HomologueOutput, **kind):
    """Psi of one output of example i."""
    native, candidates = sequences(inputs, i)
    operations = [int(o) for o in np.asarray(output.operations) if o >= 0]
    begin = tuple(map(int, output.begin))
    return psi(native, candidates[int(output.candidate)], operations, begin, **kind)


def flat(weights) -> np.ndarray:
    """Weights as one vector, in the order of their names."""
    return np.concatenate([np.ravel(weights[name]) for name in sorted(weights)])


def weights_of(vector: np.ndarray, gaps: str, dtype: str) -> dict[str, np.ndarray]:
    """The inverse of `flat`."""
    names = ["gap"] if gaps == "linear" else ["gap_extend", "gap_open"]
    vector = vector.astype(dtype)
    costs = dict(zip(names, vector, strict=False))
    return costs | {"substitution": vector[len(names) :].reshape(A, A)}
