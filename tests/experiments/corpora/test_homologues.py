"""The generator against the recipe of JMLR 5.3."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.corpora import homologues as generator

n = 400


@pytest.fixture(scope="module", params=generator.PADDINGS)
def drawn(request):
    rng = np.random.default_rng(1)
    return request.param, generator.generate_homologues(rng, n, padding=request.param)


def homologues(data):
    return data.candidates[np.arange(len(data.homologue)), data.homologue]


def steps(data, row):
    """(pairs [k, 2] of letters, begin, end [2]) of one alignment, step by step."""
    pairs, (i, j) = [], data.begin[row].tolist()
    begin = i, j
    for kind in data.operations[row]:
        if kind == 0:
            pairs.append((data.natives[row, i], homologues(data)[row, j]))
        i, j = i + (kind != 2), j + (kind != 1)
    return np.array(pairs).reshape(-1, 2), begin, (i, j)


def test_letters_have_their_law(drawn):
    """P(c) = c / 210 for natives and decoys."""
    _, data = drawn
    decoy = np.arange(generator.DECOYS + 1) != data.homologue[:, None]
    for letters in (data.natives, data.candidates[decoy]):
        share = np.bincount(letters.ravel(), minlength=generator.LETTERS) / letters.size
        wanted = generator.letter_probabilities()
        assert (np.abs(share - wanted) < 5 * np.sqrt(wanted / letters.size)).all()


def test_pairs_match_or_substitute(drawn):
    """One third of the pairs match, two thirds are c -> (c mod 20) + 1; nothing else occurs."""
    _, data = drawn
    pairs = np.concatenate([steps(data, row)[0] for row in range(n)])
    match = pairs[:, 0] == pairs[:, 1]
    assert (match | (pairs[:, 1] == generator.substituted(pairs[:, 0]))).all()
    assert abs(match.mean() - 1 / 3) < 5 * np.sqrt(2 / 9 / len(pairs))


def test_operations_have_their_shares(drawn):
    padding, data = drawn
    share = np.bincount(data.operations.ravel(), minlength=3) / data.operations.size
    slack = 0.02 if padding == "kept" else 0.01  # strings that do not fit are drawn anew
    np.testing.assert_allclose(share, [0.6, 0.2, 0.2], atol=slack)


def test_alignments_fit(drawn):
    padding, data = drawn
    begins = []
    for row in range(n):
        _, begin, end = steps(data, row)
        assert max(end) <= generator.LENGTH and min(begin) >= 0
        begins.append(begin)
        if padding == "kept":
            start = begin[0]
            np.testing.assert_array_equal(data.natives[row, :start], homologues(data)[row, :start])
    second = np.array(begins)[:, 1]
    assert (second == 0).all() if padding == "end" else second.max() > 10
    assert np.array(begins)[:, 0].max() > 20


def test_a_seed_repeats_and_the_substitution_turns_around():
    one, two = (generator.generate_homologues(np.random.default_rng(3), 2) for _ in range(2))
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(generator.substituted(np.array([0, 18, 19])), [1, 19, 0])
