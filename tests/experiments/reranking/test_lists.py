"""Lists of candidates: features that tell them apart, numbers, folds."""

from __future__ import annotations

import numpy as np

from experiments.reranking.lists import (
    Lists,
    folds_of,
    index_features,
    inputs_of,
    joined,
    places_of,
    read_features,
    told_apart,
    with_lists,
)

LISTS = Lists(
    [["ab", "aa"], ["b"], ["ab", "bb", "ba"]], [[5.0, 3.0], [1.0], [0.0, -2.0, -4.0]],
    [[1.0, 0.0], [0.0], [1.0, 0.5, 0.5]], ["aa", "b", "bbb"],
)  # fmt: skip


def letters(text: str) -> dict[str, float]:
    return {letter: text.count(letter) for letter in text}


def test_what_all_candidates_have_tells_nothing() -> None:
    assert told_apart([{"x": 1, "y": 2}, {"x": 1, "y": 3}, {"x": 1}]) == [{"y": 2}, {"y": 3}, {}]


def test_inputs_hold_the_base_score_and_known_features() -> None:
    """F less the best F in deviations; "b" is seen in two lists, "a" too, nothing else."""
    features = read_features(LISTS, letters)
    assert features[1] == [{}]  # one candidate: nothing to tell apart
    index = index_features(LISTS, features, 2, 3.0)
    gaps = np.array([-2.0, -2.0, -4.0])
    assert set(index.places) == {"a", "b"} and index.deviation == gaps.std() and index.size == 3
    x = inputs_of(index, LISTS, features, "float64")
    assert [own.tolist() for own in x.numbers] == [[0, 1], [2], [3, 4, 5]]
    dense = np.zeros((6, 4))
    rows = np.arange(6)[:, None], x.features.indices.rows
    dense[rows] = x.features.values.rows
    a, b = index.places["a"], index.places["b"]
    np.testing.assert_allclose(dense[:, 0], 3 * np.array([0, -2, 0, 0, -2, -4]) / gaps.std())
    np.testing.assert_array_equal(dense[:, a], [1, 2, 0, 1, 0, 1])
    np.testing.assert_array_equal(dense[:, b], [1, 0, 0, 1, 2, 1])
    assert index_features(LISTS, features, 3, 1.0).places == {}


def test_targets_and_places() -> None:
    assert LISTS.targets() == [1, 0, 1]  # of equal costs the base's best
    assert places_of(LISTS, np.array([1, 2, 5])) == [1, 0, 2]
    empty = LISTS._replace(outputs=[["ab", "aa"], [], ["ab"]])
    assert with_lists(empty).tolist() == [0, 2]


def test_folds_come_back_in_order() -> None:
    folds = folds_of(7, 3, 1)
    for others, held in folds:
        assert sorted([*others, *held]) == list(range(7)) and not set(others) & set(held)
    every = Lists(*([i * 10 + j for i in range(7)] for j in range(4)))
    back = joined([(held, every.take(held)) for _, held in folds])
    assert [list(column) for column in back] == [list(column) for column in every]
