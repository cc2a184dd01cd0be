"""Columns: against scikit-learn's vectoriser, and what happens to features that are new."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.feature_extraction import DictVectorizer

from jaxstruct.core.checks import collected
from jaxstruct.core.feature_encoding import (
    FeatureEncoding,
    UnseenFeatures,
    dense_or_sparse,
    fit_features,
    inputs_of,
)
from jaxstruct.core.feature_rows import read_rows, read_sequences
from jaxstruct.core.ragged import Ragged
from tests.core.frames import Frame
from tests.lib.refusals import refused


def _matrix(encoding: FeatureEncoding, rows: object) -> np.ndarray:
    """[R, d] of rows, as an encoding has them."""
    read = dense_or_sparse(encoding, "rows", read_rows("rows", rows))
    if hasattr(read, "offsets"):
        shape = len(read.offsets) - 1, read.number_of_features
        return sparse.csr_array((read.values, read.indices, read.offsets), shape).toarray()
    return read.values


def _random_rows(seed: int, count: int) -> list[dict]:
    rng = np.random.default_rng(seed)
    words = [f"w{i}" for i in range(9)]
    return [
        {
            "word": str(rng.choice(words)), "number": float(rng.normal()), "caps": bool(i % 2),
            "parts": [str(one) for one in rng.choice(words, int(rng.integers(0, 4)), False)],
        }
        for i in range(count)
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_the_columns_are_those_of_dict_vectorizer(seed: int) -> None:
    rows = _random_rows(seed, 40)
    vectorizer = DictVectorizer(sparse=False).fit(rows)
    encoding = fit_features(read_rows("rows", rows))
    assert set(encoding.names) == set(vectorizer.get_feature_names_out())
    order = [encoding.index.columns[name] for name in vectorizer.get_feature_names_out()]
    new = [*_random_rows(seed + 10, 30), {"word": "never seen", "number": 1.0}]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseenFeatures)
        found = _matrix(encoding, new)
    np.testing.assert_allclose(found[:, order], vectorizer.transform(new), rtol=1e-6)


def test_frequent_features_come_first_and_ties_go_by_name() -> None:
    rows = [["b", "a", "c"], ["b", "c"], ["b", "b", "b", "z"]]
    encoding = fit_features(read_rows("rows", rows))
    assert encoding.names == ("b", "c", "a", "z")  # rows that have it: 3, 2, 1, 1
    assert fit_features(read_rows("rows", rows[::-1])).names == encoding.names
    assert fit_features(read_rows("rows", rows), min_count=2).names == ("b", "c")


def test_features_named_twice_are_summed_and_those_of_value_0_left_out() -> None:
    encoding = fit_features(read_rows("rows", [["a", "b"], {"c": 0.0}]))
    found = dense_or_sparse(
        encoding, "rows", read_rows("rows", [["b", "a", "b"], {"c": 0, "a": 2}])
    )
    assert (found.indices.tolist(), found.values.tolist()) == ([0, 1, 0], [1, 2, 2])
    assert found.offsets.tolist() == [0, 2, 3]


def test_unseen_features_are_counted_and_dropped() -> None:
    encoding = fit_features(read_rows("rows", [["a", "b"]]))
    message = r"rows names 2 features that training did not have, 3 times in all \(most often 'x'\)"
    with pytest.warns(UnseenFeatures, match=message):
        found = _matrix(encoding, [["a", "x"], ["y", "x"]])
    np.testing.assert_array_equal(found, [[1, 0], [0, 0]])
    with pytest.warns(UnseenFeatures, match="rows names feature 'x', .* not have, once; it is dro"):
        _matrix(encoding, [["x"]])
    with pytest.warns(UnseenFeatures, match="not have, 2 times; it is dropped"):
        _matrix(encoding, [["x", "x"]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _matrix(encoding, [["a"]])


@pytest.mark.parametrize("constant", [0, 1, 2.5])
def test_the_constant_is_the_last_feature_of_every_row(constant: float) -> None:
    values = np.array([[1, 0], [0, 0]])
    kinds = values, sparse.csr_array(values), [["a", "b"], []]
    for rows in kinds:
        encoding = fit_features(read_rows("rows", rows), constant=constant)
        found = _matrix(encoding, rows)
        assert encoding.number_of_features == found.shape[1] == 2 + (constant > 0)
        assert found.dtype == np.float32 and len(encoding.names) == found.shape[1]
        if constant:
            assert found[:, 2].tolist() == [constant] * 2 and encoding.names[2] == "constant"


def test_names_of_columns_without_names_are_numbers() -> None:
    assert fit_features(read_rows("rows", np.eye(3))).names == ("0", "1", "2")
    frame = fit_features(read_rows("rows", Frame({"x": [1.0], "y": [2.0]})))
    assert frame.names == ("x", "y")
    np.testing.assert_array_equal(_matrix(frame, np.eye(2)), np.eye(2))  # arrays have no names


def test_inputs_are_arrays_or_ragged_stores() -> None:
    dense = dense_or_sparse(fit_features(read_rows("r", np.eye(3))), "r", read_rows("r", np.eye(3)))
    assert inputs_of(dense).shape == (3, 3)
    assert inputs_of(dense, np.array([0, 1, 3])).lengths.tolist() == [1, 2]
    rows, offsets = read_sequences("s", [[["a", "b"], ["b"]], [], [[]]])
    encoding = fit_features(rows)
    x = inputs_of(dense_or_sparse(encoding, "s", rows), offsets)
    assert isinstance(x.indices, Ragged) and x.indices.lengths.tolist() == [2, 0, 1]
    assert x.indices.rows.tolist() == [[0, 1], [0, 2], [2, 2]]  # padding has index d and value 0
    assert x.values.rows.tolist() == [[1, 1], [1, 0], [0, 0]]
    flat = inputs_of(dense_or_sparse(encoding, "s", rows))
    assert flat.indices.lengths.tolist() == [2, 1, 0]


@pytest.mark.parametrize("rows", [np.eye(2), sparse.csr_array(np.eye(2)), [["a"]]], ids=type)
def test_no_rows_are_of_the_kind_of_training(rows) -> None:
    encoding = fit_features(read_rows("rows", rows), constant=1)
    none = dense_or_sparse(encoding, "rows", read_rows("rows", []))
    assert none.count == 0 and type(none) is type(
        dense_or_sparse(encoding, "r", read_rows("r", rows))
    )


WRONG = {
    "another kind": ([["a"]], np.eye(2), "rows has dense rows, but .* to named ones"),
    "other columns": (np.eye(2), np.eye(3), "rows has 3 columns, the encoding was fitted to 2"),
    "other sparse columns": (sparse.eye_array(2), sparse.eye_array(3), "rows has 3 columns"),
    "another order": (
        Frame({"x": [1.0], "y": [1.0]}), Frame({"y": [1.0], "x": [1.0]}),
        "rows has column 0 named 'y', where the encoding was fitted to 'x'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_rows_that_do_not_fit_are_refused(case: str) -> None:
    first, second, message = WRONG[case]
    encoding = fit_features(read_rows("rows", first))
    refused(message, _matrix, encoding, second)


@pytest.mark.parametrize(
    "rows, options, message",
    [
        ([[], {}], {}, "no feature stands in any of the 2 rows: name one at least"),
        ([], dict(constant=1), "the training set is empty"),
        ([["a"]], dict(min_count=2), "none of the 1 features occurs 2 times"),
        ([["a"]], dict(min_count=0), "min_count must be at least 1"),
        ([["a"]], dict(constant=-1), "constant must be finite and >= 0"),
        (np.eye(2), dict(min_count=2), "min_count must be 1 unless features have names"),
    ],
)
def test_what_cannot_be_fitted_is_refused(rows, options: dict, message: str) -> None:
    refused(message, lambda: fit_features(read_rows("rows", rows), **options))


def test_a_constant_feature_may_stand_alone() -> None:
    encoding = fit_features(read_rows("rows", [[], {}]), constant=2.0)
    assert encoding.names == ("constant",)
    np.testing.assert_array_equal(_matrix(encoding, [[], {}, []]), [[2.0]] * 3)


def test_unseen_features_are_collected_in_place_of_warnings() -> None:
    encoding = fit_features(read_rows("rows", [["a"], ["b"]]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with collected(UnseenFeatures) as found:
            _matrix(encoding, [["a", "x", "x"], ["y"]])
            _matrix(encoding, [["a"]])
    (one,) = found
    assert one.count == 3 and str(one).startswith("rows names 2 features that training did not")
    with pytest.warns(UnseenFeatures, match="rows names feature 'x'"):
        _matrix(encoding, [["x"]])
