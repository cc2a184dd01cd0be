"""experiments.string_mapping on a small draw: tables, files and what is refused."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from experiments import string_mapping
from experiments.lib import common
from experiments.string_mapping import METHODS, Machine, Options, predicted
from experiments.tasks import string_pairs
from experiments.tasks.string_pairs import ALPHABET, Kernels, Pairs, kernels_of, transitions
from tests.experiments.scripts import options_of

DRAWN = string_pairs.draw_pairs(3000, 0)


def test_inputs_are_of_their_markov_models() -> None:
    lengths = Counter(map(len, DRAWN.inputs))
    assert set(lengths) == set(range(10, 16)) and min(lengths.values()) > 400
    for kind in range(3):
        counts = np.zeros((4, 4))
        for text in np.array(DRAWN.inputs)[DRAWN.classes == kind]:
            for a, b in zip(text[:-1], text[1:], strict=True):
                counts[ALPHABET.index(a), ALPHABET.index(b)] += 1
        seen = counts.any(axis=1)
        assert seen.tolist() == [kind != 2] * 2 + [True] * 2
        shares, want = counts[seen] / counts[seen].sum(axis=1, keepdims=True), transitions(kind)
        np.testing.assert_allclose(shares, want[seen], atol=0.025)
    assert np.bincount(DRAWN.classes).min() > 900


@pytest.mark.parametrize(("noise", "sign"), [("insertions", 1), ("deletions", -1)])
def test_output_lengths_are_those_of_two_turns(noise: str, sign: int) -> None:
    want, rng = np.zeros(7), np.random.default_rng(1)
    for change, chance in {0: 0.55, 1: 0.3, 2 * sign: 0.15}.items():
        for lost, other in ((0, 0.55), (1, 0.3), (2, 0.15)):
            want[4 + change - lost] += chance * other
    drawn = [len(string_pairs.draw_output(rng, 0, noise)) for _ in range(4000)]
    np.testing.assert_allclose(np.bincount(drawn, minlength=7) / len(drawn), want, atol=0.03)


MACHINE = Machine(1000.0, 0.0, tolerance=1e-2, seed=0, solver_seed=0, dtype="float32")
INPUTS = ["abcabcabca", "cdcdcdcdcd", "aaaaaaaaaa", "abcabcabcc", "cdcdcdcddd", "aaaaaaaaab"] * 3
OUTPUTS = ["abad", "aabc", "bbbb", "abad", "aabc", "bbbb"] * 3
PAIRS = Pairs(INPUTS, OUTPUTS, np.array([0, 1, 2] * 6))
TRAIN, TEST = np.arange(8), np.arange(12, 18)
"""As many train as of the strings of `test_open_questions`, whose programs serve them."""


@pytest.fixture(scope="module")
def own() -> Kernels:
    return kernels_of(PAIRS, 0.01, (3, 3), "own")


@pytest.mark.parametrize("name", METHODS)
def test_strings_that_are_told_apart_are_read(own: Kernels, name: str) -> None:
    found, detail = predicted(name, own, TRAIN, TEST, MACHINE)
    want = own.numbers[TEST]
    if name == "baseline":
        assert (found == own.numbers[0]).all()
    else:
        np.testing.assert_array_equal(found, want)
        assert detail


def test_short_outputs_are_like_themselves_or_like_nothing() -> None:
    pairs = Pairs(["abcabcabca"] * 18, ["ab", "abad", "ba"] * 6, np.zeros(18, int))
    own, none = (kernels_of(pairs, 0.01, (3, 3), short) for short in ("own", "none"))
    np.testing.assert_allclose(np.diag(own.outputs)[:3], 1, rtol=1e-6)
    np.testing.assert_allclose(np.diag(none.outputs)[:3], [0, 1, 0], rtol=1e-6)
    for kernels in (own, none):
        assert kernels.loss[0, 2] == 1 and not np.diag(kernels.loss).any()
        assert not kernels.outputs[3:].any()


options = options_of(
    Options, strings=40, folds=2, repeats=1, reading_repeats=1, readings=("C / n = 1",),
    methods=("baseline", "k-NN", "KDE", "SVM2 Δm"),
)  # fmt: skip


def test_rows_have_every_fold_and_measure(outcome: common.Outcome) -> None:
    rows = outcome.numbers["rows"]
    assert [row["method"] for row in rows] == ["baseline", "k-NN", "KDE", "SVM2 Δm"]
    for row in rows:
        each = np.array(row["errors"])
        assert each.shape == (1, 2, 3)
        np.testing.assert_allclose(row["mean"], each.mean(axis=(0, 1)))
        loss, zero_one, distance = row["mean"]
        assert 0 <= loss <= zero_one <= 1 and loss <= distance / np.sqrt(2) <= zero_one
        assert len(row["details"]) == 2
    assert all(one["status"] == "CONVERGED" for row in rows[3:] for one in row["details"])


def test_a_reading_changes_what_it_says(outcome: common.Outcome) -> None:
    rows, others = outcome.numbers["rows"], outcome.numbers["readings"]
    assert {row["reading"] for row in others} == {"C / n = 1"}
    for row, other in zip(rows, others, strict=True):
        if row["method"].startswith("SVM"):
            assert (row["details"][0]["C"], other["details"][0]["C"]) == (1, 20)
        else:
            assert row["errors"] == other["errors"]


def test_data_sets_are_compared_one_by_one() -> None:
    errors = np.array([[[0.1], [0.3]], [[0.4], [0.4]], [[0.5], [0.6]]])  # means .2, .4, .55
    best = {"method": "KDE", "errors": errors}
    other = {"method": "SVM2", "errors": errors + [[[0.1]], [[0.0]], [[-0.1]]]}
    assert string_mapping._behind([other, best], other, 0) == "1 of 3"
    assert string_mapping._behind([other, best], best, 0) is None
    assert string_mapping._behind([other], other, 0) is None
