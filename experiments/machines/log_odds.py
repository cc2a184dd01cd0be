"""The generative alignment model: a substitution matrix of log-odds (JMLR 5.3; Durbin et al. 1998).

    W[a, b] = log P(a, b) / (P(a) P(b))

P(a, b) is how often letter a of the native sequence is paired with letter b of its homologue, and
P(a), P(b) how often the letters occur, all with Laplace estimates: one more than was counted. Gaps
have a cost delta that the model does not learn.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from experiments.machines.homologues import HomologueInput, HomologueOutput
from jaxstruct.alignments.potentials import DELETE, INSERT, PAIR

BACKGROUNDS = ("sequences", "pairs")


class LetterCounts(NamedTuple):
    """What the estimates are made of, for an alphabet of A letters.

    Fields:
      pairs: [A, A] how often a letter of the first is paired with one of the second sequence.
      first, second: [A] how often letters occur in the first and in the second sequences.
    """

    pairs: np.ndarray
    first: np.ndarray
    second: np.ndarray


def pair_counts(
    alphabet_size: int,
    first: np.ndarray,
    second: np.ndarray,
    operations: np.ndarray,
    begin: np.ndarray,
) -> np.ndarray:
    """[A, A] how often two letters are paired in n alignments.

    Args:
      alphabet_size: A.
      first, second: [n, M], [n, N] letters. operations: [n, L], -1 on padding. begin: [n, 2].
    """
    paired, deleted, inserted = (operations == kind for kind in (PAIR, DELETE, INSERT))
    i = begin[:, :1] + np.cumsum(paired | deleted, axis=1) - 1
    j = begin[:, 1:] + np.cumsum(paired | inserted, axis=1) - 1
    row = np.nonzero(paired)[0]
    counts = np.zeros((alphabet_size, alphabet_size))
    np.add.at(counts, (first[row, i[paired]], second[row, j[paired]]), 1)
    return counts


def _letter_counts(alphabet_size: int, letters: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    real = letters[np.arange(letters.shape[1]) < lengths[:, None]]
    return np.bincount(real, minlength=alphabet_size).astype(float)


def homologue_counts(
    alphabet_size: int, inputs: HomologueInput, outputs: HomologueOutput
) -> LetterCounts:
    """Counts of natives and their homologues; decoys are not looked at."""
    native, candidates, native_lengths, lengths = map(np.asarray, inputs)
    candidate, operations, begin = map(np.asarray, outputs)
    rows = np.arange(len(native))
    homologues = candidates[rows, candidate]
    return LetterCounts(
        pair_counts(alphabet_size, native, homologues, operations, begin),
        _letter_counts(alphabet_size, native, native_lengths),
        _letter_counts(alphabet_size, homologues, lengths[rows, candidate]),
    )


def log_odds(
    counts: LetterCounts, *, background: str = "sequences", smoothing: float = 1.0
) -> np.ndarray:
    """[A, A] W, float64, natural logarithms.

    Args:
      counts: see `LetterCounts`.
      background: where P(a) and P(b) come from: "sequences", all letters of the sequences, or
        "pairs", the rows and columns of P(a, b).
      smoothing: added to every count (Laplace: 1).
    """
    joint = _estimates(counts.pairs, smoothing)
    if background == "pairs":
        first, second = joint.sum(axis=1), joint.sum(axis=0)
    else:
        first, second = (_estimates(each, smoothing) for each in counts[1:])
    return np.log(joint) - np.log(first)[:, None] - np.log(second)


def _estimates(counts: np.ndarray, smoothing: float) -> np.ndarray:
    return (counts + smoothing) / (counts + smoothing).sum()


def alignment_weights(substitution: np.ndarray, gap_cost: float, dtype: str = "float32") -> dict:
    """Weights of `homologue_search` with linear gaps: a matrix and the cost delta of a letter."""
    return {"substitution": np.asarray(substitution, dtype), "gap": np.asarray(gap_cost, dtype)}
