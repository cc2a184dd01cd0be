"""experiments.reranking on drawn words and trees: rows, files, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.lib import common
from experiments.reranking import lists, trees, words
from experiments.reranking.command import Options, against_one_best, run
from experiments.reranking.lists import Lists
from experiments.reranking.words import EDGE, wrong_letters
from experiments.tasks.handwriting import chain_problem, load, read_words, spell
from jaxstruct.data.bracketing import read_tree
from tests.experiments.handwriting_cases import random_words, write_letter_data
from tests.experiments.parsing_cases import drawn_trees, write_trees
from tests.experiments.scripts import QUIET

LISTS = Lists(
    [["ab", "aa"], ["b"], ["ab", "bb", "ba"]], [[5.0, 3.0], [1.0], [0.0, -2.0, -4.0]],
    [[1.0, 0.0], [0.0], [1.0, 0.5, 0.5]], ["aa", "b", "bbb"],
)  # fmt: skip


def letters(text: str) -> dict[str, float]:
    return {letter: text.count(letter) for letter in text}


def test_inputs_hold_the_base_score_and_known_features() -> None:
    """F less the best F in deviations; "b" is seen in two lists, "a" too, nothing else."""
    features = lists.read_features(LISTS, letters)
    assert features[1] == [{}]  # one candidate: nothing to distinguish
    index = lists.index_features(LISTS, features, 2)
    gaps = np.array([-2.0, -2.0, -4.0])
    assert set(index.places) == {"a", "b"} and index.deviation == gaps.std() and index.size == 3
    x = lists.inputs_of(index, LISTS, features, "float64")
    assert [own.tolist() for own in x.numbers] == [[0, 1], [2], [3, 4, 5]]
    dense = np.zeros((6, 4))
    rows = np.arange(6)[:, None], x.features.indices.rows
    dense[rows] = x.features.values.rows
    a, b = index.places["a"], index.places["b"]
    np.testing.assert_allclose(dense[:, 0], np.array([0, -2, 0, 0, -2, -4]) / gaps.std())
    np.testing.assert_array_equal(dense[:, a], [1, 2, 0, 1, 0, 1])
    np.testing.assert_array_equal(dense[:, b], [1, 0, 0, 1, 2, 1])
    assert lists.index_features(LISTS, features, 3).places == {}


def test_targets_and_places() -> None:
    apart = lists.told_apart([{"x": 1, "y": 2}, {"x": 1, "y": 3}, {"x": 1}])
    assert apart == [{"y": 2}, {"y": 3}, {}]  # what all have tells nothing
    assert LISTS.targets() == [1, 0, 1]  # of equal costs the base's best
    assert lists.places_of(LISTS, np.array([1, 2, 5])) == [1, 0, 2]
    empty = LISTS._replace(outputs=[["ab", "aa"], [], ["ab"]])
    assert lists.with_lists(empty).tolist() == [0, 2]


def test_runs_of_letters() -> None:
    found = words.letter_runs((1, 1, 1, 2))
    assert found[1, 1, 1] == 1 and found[EDGE, 1, 1] == 1 and found[1, 1, 2] == 1
    assert found[EDGE, 1, 1, 1, 2, EDGE] == 1 and sum(found.values()) == 4 + 3 + 2 + 1
    assert words.letter_runs((1, 1, 1, 1))[1, 1, 1] == 2
    assert wrong_letters((1, 2, 3), (1, 3, 3)) == 1


def test_the_best_of_k_is_what_is_predicted(options: Options) -> None:
    data, problem = load(options.letter_data, "float32"), chain_problem("hamming", "float32")
    random, start = np.random.default_rng(0), problem.initial_weights
    w = {name: np.float32(random.normal(size=leaf.shape)) for name, leaf in start.items()}
    chosen = np.roll(np.arange(16), 5)
    found = words.k_best_words(problem, w, data, chosen, 3)
    wanted = read_words(problem, w, data, chosen)
    assert [list(own[0]) for own in found.outputs] == [word.tolist() for word in wanted]
    for i, own in enumerate(found.outputs):
        assert len(set(own)) == len(own) == 3 and found.scores[i] == sorted(found.scores[i])[::-1]
        assert found.costs[i] == [wrong_letters(found.truths[i], y) for y in own]
    whole, right = words.measures(found, [0] * len(chosen))
    wrong = sum(own[0] for own in found.costs)
    assert right == pytest.approx(100 * (1 - wrong / sum(map(len, found.truths))))
    assert whole == 100 * np.mean([own[0] == 0 for own in found.costs])


def test_new_texts_are_in_no_training_word(options: Options) -> None:
    data = load(options.letter_data, "float32")
    train, test = words.chosen_words(options, data, new=True)
    texts = [{tuple(word) for word in spell(data, part)} for part in (train, test)]
    assert texts[0] and texts[1] and not texts[0] & texts[1]
    every, rest = words.chosen_words(options, data, new=False)
    assert len(every) + len(rest) == 24 and set(train) < set(every) and set(test) <= set(rest)
    assert 0 < len(test) < len(rest) / 2  # a fifth of the texts


RIGHT = read_tree("(S (NP (DT the) (NN dog)) (VP (VBD saw) (NP (PRP it))))")
FLAT = read_tree("(S (DT the) (NN dog) (VP (VBD saw) (NP (PRP it))))")


def test_rules_with_the_constituent_above() -> None:
    found = trees.parents(RIGHT)
    assert found["rule", "NP", ("DT", "NN")] == 1 and found["rule", "S", ("NP", "VP")] == 1
    assert found["rule below", "VP", "NP", ("PRP",)] == 1
    assert found["rule below", "", "S", ("NP", "VP")] == 1
    assert found["pair", "NP", ("<", "DT")] == 1 and found["pair", "NP", ("PRP", ">")] == 1
    assert sum(value for name, value in found.items() if name[0] == "rule") == 4


def test_costs_and_figures() -> None:
    """FLAT misses one of four constituents: F1 = 2 * 3 / 7."""
    assert trees.one_minus_f1(RIGHT, RIGHT) == 0
    assert trees.one_minus_f1(RIGHT, FLAT) == pytest.approx(1 / 7)
    two = Lists([[FLAT, RIGHT], []], [[1.0, 0.0], []], [[1 / 7, 0.0], []], [RIGHT, RIGHT])
    assert trees.measures(two, [0, 0])[0] == 0
    whole, f1 = trees.measures(two, [1, 0])  # the sentence without a tree misses four of eight
    assert whole == 50 and f1 == pytest.approx(100 * 2 * 4 / (8 + 4))


@pytest.fixture(scope="module")
def options(tmp_path_factory) -> Options:
    """So few words that they share the programs of `test_handwriting`, with those of other folds
    left out, too; of this seed each fold of the trees has a longest sentence and all rules."""
    folder = tmp_path_factory.mktemp("reranking")
    write_letter_data(folder / "letter.data", random_words())
    return Options(
        tasks=("trees",), machines=("svm1_margin", "perceptron"), k_words=3, k_trees=2,
        base_folds=4, seed=1, letter_data=str(folder / "letter.data"), train_folds=("0",),
        train_trees=write_trees(folder / "train.mrg", drawn_trees(5, 40)),
        test_trees=write_trees(folder / "test.mrg", drawn_trees(1, 30)),
        c_path=("0.01", "0.1"), least_seen=1, output=str(folder), **QUIET,
    )  # fmt: skip


def test_no_machine_beats_the_list(options: Options, outcome: common.Outcome) -> None:
    """Of trees both machines, of words the perceptron alone."""
    words = run(options.replace(tasks=("words",), machines=("perceptron",))).numbers
    every = {"trees": outcome.numbers["rows"], "words": words["rows"]}
    for (task, rows), names in zip(every.items(), (options.machines, ["perceptron"]), strict=True):
        who = ["one best", "best of k", *names]
        assert [(row["task"], row["who"]) for row in rows] == [(task, each) for each in who]
        first, best, *machines = rows
        assert set(first["places"]) == {0} and max(best["places"]) > 0
        assert first["whole"] <= best["whole"] <= 100 and first["second"] < best["second"]
        for row in machines:
            assert row["whole"] <= best["whole"] and len(row["places"]) == len(first["places"])
            assert len(row["costs"]) == np.count_nonzero(row["places"])
    sizes = outcome.numbers["lists"] | words["lists"]
    assert sizes["words"]["train"]["inputs"] == 8 and sizes["words"]["test"]["inputs"] == 16
    assert sizes["trees"]["train"]["inputs"] == 40
    # A noun phrase that is a pronoun takes no prepositional phrase: a rule and the one above.
    first, best, svm, averaged = every["trees"]
    assert first["second"] < svm["second"] <= best["second"]
    assert svm["status"] == "CONVERGED" and svm["c_over_n"] in (0.01, 0.1)
    assert svm["primal"] >= svm["dual"] > 0
    assert len(svm["c_path"]) == 2 and "c_over_n" not in averaged


def test_folds_come_back_in_order() -> None:
    folds = lists.folds_of(7, 3, 1)
    for others, held in folds:
        assert sorted([*others, *held]) == list(range(7)) and not set(others) & set(held)
    every = Lists(*([i * 10 + j for i in range(7)] for j in range(4)))
    back = lists.joined([(held, every.take(held)) for _, held in folds])
    assert [list(column) for column in back] == [list(column) for column in every]


def test_against_the_one_best() -> None:
    """Six better, one worse, one neither: 2 (1 + 7) / 2^7."""
    costs = [(1.0, 0.0)] * 6 + [(0.0, 0.5), (1.0, 1.0)]
    for row, counts in (
        ({"costs": costs}, [6, 1, "0.12"]), ({"costs": []}, [0, 0, "1"]), ({}, [None] * 3),
        ({"costs": [(1.0, 0.0)] * 3000}, [3000, 0, "< 1e-300"]),
    ):  # fmt: skip
        assert against_one_best(row) == counts
