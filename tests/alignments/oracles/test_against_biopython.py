"""Alignments against Biopython's PairwiseAligner, on random real-valued matrices.

Its convention: a gap of g letters scores open_gap_score + (g - 1) extend_gap_score, which are minus
our costs. A deletion may follow an insertion directly, and the other way round, each run opened
anew, as in ours. It picks Needleman-Wunsch or Smith-Waterman where both gap scores are equal, and
Gotoh elsewhere; all four are met here. Gap costs are positive: with gaps that gain a local
alignment of ours may end in one.
"""

from __future__ import annotations

import jax
import numpy as np
import pytest
from Bio.Align import Alignment, PairwiseAligner
from Bio.Align.substitution_matrices import Array

from jaxstruct.alignments.alphabets import PROTEIN, WrittenAlignment, encode, write_rows
from jaxstruct.alignments.costs import AlignmentCosts, alignment_potentials
from jaxstruct.alignments.oracles.pairwise import global_alignment, local_alignment

M, N, PAIRS = 30, 26, 300
LETTERS = np.array(list(PROTEIN.letters))
GAPS = {"linear": (1.0, 1.0), "affine": (3.0, 0.4), "long gaps dearer": (0.7, 1.9)}


def sequences(seed):
    """Pairs of which the second is a changed part of the first, of all lengths from 1."""
    random = np.random.default_rng(seed)
    firsts, seconds = [], []
    for _ in range(PAIRS):
        first = random.choice(LETTERS, random.integers(1, M + 1))
        kept = first[random.random(len(first)) < 0.75]
        kept[random.random(len(kept)) < 0.3] = random.choice(LETTERS)
        extra = random.choice(LETTERS, random.integers(1, 6))
        second = np.insert(kept, random.integers(len(kept) + 1), extra)[:N]
        firsts.append("".join(first))
        seconds.append("".join(second))
    return firsts, seconds


def aligner_of(mode, substitution, gaps):
    """Biopython's, with the same scores."""
    aligner = PairwiseAligner(mode=mode)
    aligner.substitution_matrix = Array(PROTEIN.letters, 2, substitution)
    aligner.open_gap_score, aligner.extend_gap_score = -gaps[0], -gaps[1]
    return aligner


def padded(texts, width):
    rows = np.full((len(texts), width), -1, np.int32)
    for row, text in zip(rows, texts, strict=True):
        row[: len(text)] = encode(PROTEIN, text)
    return rows


POTENTIALS = jax.jit(jax.vmap(alignment_potentials, (None, 0, 0)))


def batch(firsts, seconds, substitution, gaps, dtype):
    """(potentials, lengths) of all pairs."""
    costs = AlignmentCosts(*(np.asarray(leaf, dtype) for leaf in (substitution, *gaps)))
    potentials = POTENTIALS(costs, padded(firsts, M), padded(seconds, N))
    lengths = np.array([[len(a), len(b)] for a, b in zip(firsts, seconds, strict=True)])
    return potentials, lengths


def substitution_of(seed, symmetric):
    """Real numbers, mostly negative, higher on the diagonal."""
    random = np.random.default_rng(seed)
    scores = random.normal(-0.5, 1.2, (20, 20)) + np.diag(random.uniform(1, 4, 20))
    return (scores + scores.T) / 2 if symmetric else scores


OURS = {"global": jax.jit(jax.vmap(global_alignment)), "local": jax.jit(jax.vmap(local_alignment))}


@pytest.mark.parametrize("gaps", GAPS.values(), ids=GAPS)
@pytest.mark.parametrize("mode", OURS)
def test_scores_and_alignments(x64, mode, gaps):
    substitution = substitution_of(3, symmetric=mode == "local")
    firsts, seconds = sequences(len(mode))
    aligner = aligner_of(mode, substitution, gaps)
    wanted = np.array([aligner.score(a, b) for a, b in zip(firsts, seconds, strict=True)])
    assert np.std(wanted) > 1 and ("Gotoh" in aligner.algorithm) == (gaps[0] != gaps[1])
    potentials, lengths = batch(firsts, seconds, substitution, gaps, "float64")
    found = jax.device_get(OURS[mode](potentials, lengths))
    np.testing.assert_allclose(found.score, wanted, rtol=0, atol=1e-10)
    rescored = [
        score_of_rows(aligner, WrittenAlignment(*pair))
        for pair in zip(firsts, seconds, found.operations, found.begin, strict=True)
    ]
    np.testing.assert_allclose(rescored, wanted, rtol=0, atol=1e-10)


def score_of_rows(aligner, written):
    """What Biopython says an alignment of ours scores."""
    rows = write_rows(written)
    if not rows[0]:
        return 0.0
    lines = [row.encode() for row in rows]
    parts, coordinates = Alignment.parse_printed_alignment(lines)
    return Alignment([part.decode() for part in parts], coordinates).counts(aligner).score
