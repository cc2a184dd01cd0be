"""The log-odds matrix against counting letter by letter, and against the letters' own law."""

from __future__ import annotations

import numpy as np

from experiments.machines.homologues import homologue_search
from experiments.machines.log_odds import (
    LetterCounts,
    alignment_weights,
    homologue_counts,
    log_odds,
)
from jaxstruct import predict
from jaxstruct.alignments.potentials import PAIR
from tests.alignments.oracles.truth import STEP
from tests.experiments.machines.homologue_cases import A, random_examples, sequences


def counted(x, y):
    """(pairs, first, second) with loops."""
    pairs, first, second = np.zeros((A, A)), np.zeros(A), np.zeros(A)
    for index in range(len(x.native)):
        native, candidates = sequences(x, index)
        homologue = candidates[y.candidate[index]]
        i, j = map(int, y.begin[index])
        for kind in (int(o) for o in y.operations[index] if o >= 0):
            if kind == PAIR:
                pairs[native[i], homologue[j]] += 1
            i, j = i + STEP[kind][0], j + STEP[kind][1]
        for letter in native:
            first[letter] += 1
        for letter in homologue:
            second[letter] += 1
    return LetterCounts(pairs, first, second)


def test_counts():
    x, y = random_examples(60)
    wanted = counted(x, y)
    assert wanted.pairs.sum() > 20
    for got, expected in zip(homologue_counts(A, x, y), wanted, strict=True):
        np.testing.assert_array_equal(got, expected)


def test_log_odds_by_hand():
    counts = LetterCounts(np.array([[3.0, 0], [1, 0]]), np.array([5.0, 1]), np.array([6.0, 0]))
    joint = np.array([[4, 1], [2, 1]]) / 8
    sequences = log_odds(counts)
    np.testing.assert_allclose(
        sequences, np.log(joint / np.outer([6 / 8, 2 / 8], [7 / 8, 1 / 8])), rtol=1e-12
    )
    pairs = log_odds(counts, background="pairs", smoothing=1.0)
    np.testing.assert_allclose(
        pairs, np.log(joint / np.outer([5 / 8, 3 / 8], [6 / 8, 2 / 8])), rtol=1e-12
    )
    assert not np.allclose(log_odds(counts, smoothing=0.1), sequences)


def test_letters_paired_at_random_have_no_odds():
    """Counts in proportion to the product of the letters' own give W close to 0."""
    first, second = np.array([1e6, 3e6]), np.array([2e6, 2e6])
    counts = LetterCounts(np.outer(first, second) / 1e6, first, second)
    for background in ("sequences", "pairs"):
        np.testing.assert_allclose(log_odds(counts, background=background), 0, atol=1e-5)


def test_it_finds_homologues():
    x, y = random_examples(60)
    problem = homologue_search(A)
    weights = alignment_weights(log_odds(homologue_counts(A, x, y)), 0.5)
    assert weights["substitution"].dtype == weights["gap"].dtype == np.float32
    assert predict(problem, weights, x).candidate.shape == (60,)
