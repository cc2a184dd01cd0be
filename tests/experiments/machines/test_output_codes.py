"""Codes, their decoders and the machines that they train."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.multiclass import OneVsOneClassifier
from sklearn.svm import SVC

from experiments.machines import output_codes
from experiments.machines.binary import decision_values
from experiments.machines.output_codes import (
    all_pairs_code,
    decode_code,
    random_code,
    row_distances,
)
from tests.lib.refusals import refused

RNG = np.random.default_rng(3)
K, N, D = 4, 40, 5
CENTRES = RNG.normal(size=(K, D)) * 1.2
Y = np.arange(N) % K
X = CENTRES[Y] + RNG.normal(size=(N, D))
NEW = CENTRES[Y] + RNG.normal(size=(N, D))


def test_codes_of_the_thesis():
    one = output_codes.one_against_all_code(3)
    assert one.tolist() == [[1, -1, -1], [-1, 1, -1], [-1, -1, 1]]
    pairs = all_pairs_code(4)
    assert pairs.shape == (4, 6) and pairs.T.tolist()[1] == [1, 0, -1, 0]
    assert np.all((pairs != 0).sum(0) == 2) and np.all(pairs.sum(0) == 0)
    assert output_codes.is_code(pairs) and not output_codes.is_code(pairs[[0, 1, 1]])


def test_random_codes_are_codes_of_distant_rows_and_repeat():
    code = random_code(8, 15, seed=1)
    np.testing.assert_array_equal(code, random_code(8, 15, seed=1))
    assert not np.array_equal(code, random_code(8, 15, seed=2))
    assert output_codes.is_code(code) and np.all(code != 0)
    slow = [[sum((1 - a * b) / 2 for a, b in zip(r, s, strict=True)) for s in code] for r in code]
    np.testing.assert_allclose(row_distances(code), slow)
    draws = [np.random.default_rng(s).choice([-1, 1], (8, 15)) for s in range(20)]
    off = ~np.eye(8, dtype=bool)
    typical = np.median([row_distances(draw)[off].min() for draw in draws])
    assert row_distances(code)[off].min() >= typical


def test_a_code_corrects_half_of_its_distance():
    code = random_code(6, 31, seed=0)
    wrong = int((row_distances(code)[~np.eye(6, dtype=bool)].min() - 1) // 2)
    assert wrong >= 3
    values = np.repeat(code, 50, axis=0).astype(float)
    for row in values:
        row[RNG.choice(31, wrong, replace=False)] *= -1
    np.testing.assert_array_equal(decode_code(code, values), np.repeat(np.arange(6), 50))


@pytest.mark.parametrize("rule", ["hamming", "hinge", "linear"])
@pytest.mark.parametrize("code", [all_pairs_code(4), random_code(4, 5, 2)], ids=["pairs", "r"])
def test_decoders_do_what_their_equations_say(rule, code):
    values = np.round(RNG.normal(size=(60, code.shape[1])) * 2) / 2  # ties and zeros among them
    loss = {
        "hamming": lambda m, f: (1 - m * np.sign(f)) / 2,
        "hinge": lambda m, f: max(0.0, 1 - m * f),
        "linear": lambda m, f: -m * f,
    }[rule]

    def distance(row, f):
        return sum(loss(m, value) for m, value in zip(row, f, strict=True))

    table = np.array([[distance(row, f) for row in code] for f in values])
    np.testing.assert_array_equal(decode_code(code, values, rule), table.argmin(1))
    linear = -values @ code.T
    tied = np.where(np.isclose(table, table.min(1, keepdims=True)), linear, np.inf).argmin(1)
    np.testing.assert_array_equal(decode_code(code, values, rule, "margins"), tied)


def test_votes_and_the_largest_value():
    values = RNG.normal(size=(50, 6))
    votes = np.zeros((50, 4), int)
    for m, (r, s) in enumerate([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]):
        np.add.at(votes, (np.arange(50), np.where(values[:, m] > 0, r, s)), 1)
    np.testing.assert_array_equal(decode_code(all_pairs_code(4), values), votes.argmax(1))
    np.testing.assert_array_equal(
        decode_code(output_codes.one_against_all_code(6), values, "linear"),
        output_codes.decode_largest(values),
    )
    assert output_codes.decode_largest(np.array([[1.0, 2.0, 2.0]])).tolist() == [1]


def test_all_pairs_agree_with_another_program(x64):
    ours = output_codes.fit_output_code(X, Y, all_pairs_code(K), "svm1", 3.0 * N, dtype="float64",
                           tolerance=1e-9)  # fmt: skip
    other = OneVsOneClassifier(SVC(kernel="linear", C=3.0, tol=1e-9)).fit(X, Y)
    for m, machine in enumerate(other.estimators_):
        w = -machine.coef_[0]  # there the second class of a pair is the positive one
        np.testing.assert_allclose(ours.weights["weights"][:, m], w, atol=1e-4)
        np.testing.assert_allclose(ours.weights["bias"][m], -machine.intercept_[0], atol=1e-3)
    assert ours.alpha.shape == (6, 2 * N // K)
    found = decode_code(all_pairs_code(K), decision_values(ours, NEW), ties="margins")
    assert np.mean(found == other.predict(NEW)) >= 0.95


@pytest.mark.thorough
def test_every_code_learns(x64):
    one = output_codes.one_against_all_code(K)
    for name, code in (("all", one), ("pairs", all_pairs_code(K)), ("r", random_code(K, 7, 1))):
        found = output_codes.fit_output_code(X, Y, code, "svm2", 1.0 * N)
        values = decision_values(found, NEW)
        for rule in ("linear",) if name == "all" else ("hamming", "hinge", "linear"):
            assert np.mean(decode_code(code, values, rule) != Y) < 0.45, (name, rule)


def test_what_no_machine_can_learn_is_refused():
    fit, pairs = output_codes.fit_output_code, all_pairs_code(3)
    refused(r"signs\[:, 1\] has no -1", fit, X, np.minimum(Y, 1), pairs)
    refused("machines is 1: none of 100", random_code, 3, 1)
