"""Rows of every kind that people hold, their columns, rows of SciPy's matrices."""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Mapping
from functools import partial

import jax
import numpy as np
import pytest
import scipy.sparse
from scipy import sparse
from sklearn.feature_extraction import DictVectorizer

import jaxstruct as js
from jaxstruct.core.checks import collected
from jaxstruct.core.feature_encoding import (
    FeatureEncoding,
    UnseenFeatures,
    dense_or_sparse,
    fit_features,
    inputs_of,
)
from jaxstruct.core.feature_rows import DenseRows, NamedRows, SparseRows, read_rows, read_sequences
from jaxstruct.core.padding import bucketed
from jaxstruct.core.ragged import Ragged
from tests.lib.refusals import refused


class Column(list):
    """A column of a frame."""

    def tolist(self) -> list:
        return list(self)


class Frame:
    """columns, iloc, dtypes, to_numpy() and frame[name]."""

    iloc = None

    def __init__(self, columns: Mapping[str, list]) -> None:
        self._columns = {name: np.asarray(own) for name, own in columns.items()}
        self.columns = list(columns)
        self.dtypes = [own.dtype for own in self._columns.values()]

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())))

    def __getitem__(self, name: str) -> Column:
        return Column(self._columns[name].tolist())

    def to_numpy(self) -> np.ndarray:
        if all(dtype.kind in "biuf" for dtype in self.dtypes):
            return np.stack(list(self._columns.values()), axis=1)
        return np.array([*zip(*(self[name] for name in self.columns), strict=True)], object)


def _listed(rows: NamedRows) -> list[list[tuple[str, float]]]:
    pairs = [*zip(rows.names, rows.values, strict=True)]
    return [pairs[a:b] for a, b in zip(rows.offsets, rows.offsets[1:], strict=False)]


def test_mappings_are_read_as_crfsuite_and_dict_vectorizer_read_them() -> None:
    row = {
        "word": "dog", "length": 3, "share": np.float32(0.5), "caps": False, "first": True,
        "flag": np.bool_(True), "shape": ["x", "xx"], "set": {"b", "a"}, "none": [], "zero": 0.0,
    }  # fmt: skip
    (found,) = _listed(read_rows("rows", [row]))
    assert found == [
        ("word=dog", 1), ("length", 3), ("share", 0.5), ("first", 1), ("flag", 1), ("shape=x", 1),
        ("shape=xx", 1), ("set=a", 1), ("set=b", 1), ("zero", 0),
    ]  # fmt: skip


def test_rows_of_names() -> None:
    names = ["a", "b"]
    for row in (names, tuple(names), set(names), np.array(names), dict(a=1, b=True)):
        rows = read_rows("rows", (own for own in (row, [])))
        assert isinstance(rows, NamedRows) and rows.count == 2
        assert _listed(rows) == [[("a", 1), ("b", 1)], []]
        assert all(type(name) is str for name in rows.names)
    twice = np.array([{"a": 1}, ["b", "b"]], object)
    assert _listed(read_rows("rows", twice)) == [[("a", 1)], [("b", 1), ("b", 1)]]


def test_arrays_are_left_as_they_are() -> None:
    values = np.eye(3, dtype="int8")
    rows = read_rows("rows", values)
    assert isinstance(rows, DenseRows) and rows.values is values and rows.names is None
    for listed in (values.tolist(), list(values)):
        np.testing.assert_array_equal(read_rows("rows", listed).values, values)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "lil"])
def test_sparse_rows_are_sorted_and_without_zeros(kind: str) -> None:
    dense = np.array([[0, 2.0, 0, 1], [0, 0, 0, 0], [3, 0, 0, 0]])
    rows = read_rows("rows", sparse.csr_array(dense).asformat(kind))
    assert isinstance(rows, SparseRows) and rows.number_of_features == 4
    assert (rows.indices.tolist(), rows.values.tolist()) == ([1, 3, 0], [2, 1, 3])
    assert rows.offsets.tolist() == [0, 2, 2, 3]


def test_a_frame_of_numbers_is_dense_and_another_one_named() -> None:
    numbers = read_rows("rows", Frame({"x": [1, 2], "y": [0.5, 1]}))
    assert numbers.names == ("x", "y") and numbers.values.tolist() == [[1, 0.5], [2, 1]]
    mixed = read_rows("rows", Frame({"x": [1, 2], "word": ["a", "b"]}))
    assert _listed(mixed) == [[("x", 1), ("word=a", 1)], [("x", 2), ("word=b", 1)]]


SEQUENCES = {
    "names": [[["a"], ["b"]], [], [["c"]]],
    "mappings": [[{"a": 1}, {"b": 1}], (), ({"c": 1.0},)],
    "frames": [Frame({"w": ["a", "b"]}), [], Frame({"w": ["c"]})],
}


@pytest.mark.parametrize("kind", SEQUENCES)
def test_sequences_of_named_rows(kind: str) -> None:
    rows, offsets = read_sequences("sequences", SEQUENCES[kind])
    assert offsets.tolist() == [0, 2, 2, 3]
    assert [name[-1] for name in rows.names] == ["a", "b", "c"]
    assert rows.offsets.tolist() == [0, 1, 2, 3]


def test_sequences_of_arrays_lists_of_numbers_and_matrices() -> None:
    dense = [np.eye(2), np.zeros((0, 2)), np.ones((1, 2))]
    for given in (dense, [one.tolist() for one in dense], np.stack([np.eye(2), np.eye(2)])):
        rows, offsets = read_sequences("sequences", given)
        assert isinstance(rows, DenseRows) and len(rows.values) == offsets[-1]
    rows, offsets = read_sequences("sequences", [sparse.csr_array(one) for one in dense])
    assert offsets.tolist() == [0, 2, 2, 3] and rows.offsets.tolist() == [0, 1, 2, 4]
    assert rows.indices.tolist() == [0, 1, 0, 1]


NAN = float("nan")
WRONG_ROWS = {
    "a text": ("dog", "rows must be a list of rows"),
    "a token as text": (["dog"], r"rows\[0\] is the text 'dog', but a row is a list of names"),
    "a number as row": ([["a"], 3], r"rows\[1\] must be a row: .*got int 3"),
    "a name that is a number": ([["a", 1]], r"rows\[0\] must hold names, .*got int 1"),
    "a key that is a number": ([{1: "a"}], r"rows\[0\] names a feature int 1, not a text"),
    "none": ([{"a": None}], r"rows\[0\] gives feature 'a' the value None; expected a finite"),
    "nan": ([{}, {"a": NAN}], r"rows\[1\] gives feature 'a' the value float nan"),
    "too large": ([{"a": 10**400}], "gives feature 'a' the value int 1000"),
    "nested": ([{"a": {"b": 1}}], "the value dict"),
    "unequal": ([[1, 2], [3]], r"rows\[1\] has numbers of shape \(1,\), rows\[0\] of \(2,\)"),
    "three axes": (np.zeros((1, 2, 3)), "got an array float64 of shape"),
    "nan in an array": (np.array([[0, 1], [NAN, 0]]), r"rows\[1\] has nan in column 0 \(1 such\)"),
    "a frame's nan": (Frame({"x": [0.0], "y": [NAN]}), r"rows\[0\] has nan in column 'y'"),
    "a complex matrix": (sparse.csr_array(np.eye(2) * 1j), "rows must be .*real numbers"),
}


def test_rows_are_refused_by_name() -> None:
    for rows, message in WRONG_ROWS.values():
        refused(message, read_rows, "rows", rows)


WRONG_SEQUENCES = {
    "a text": ("dog", "sequences must be a list of sequences"),
    "a sequence of texts": ([[["a"]], "dog"], r"sequences\[1\] must be a sequence, itself"),
    "a token as text": ([[["a"]], [["b"], "dog"]], r"sequences\[1\]\[1\] is the text 'dog'"),
    "a value": ([[], [{}, {"a": None}]], r"sequences\[1\]\[1\] gives feature 'a'"),
    "lists beside arrays": ([[["a"]], np.eye(2)], "of one kind, got lists beside arrays"),
    "other widths": (
        [[], np.eye(2), np.eye(3)],
        r"got dense rows of 3 columns in \w+\[2\], dense .* 2 .*\[1\]",
    ),
    "other columns": (
        [Frame({"a": [1.0], "b": [1.0]}), Frame({"a": [1.0], "c": [1.0]})],
        r"a frame of 2 columns, 'c' among them in \w+\[1\], .*'b' in its place",
    ),
    "kinds": ([np.eye(2), sparse.csr_array(np.eye(2))], r"got sparse rows .*\[1\], dense rows"),
}


def test_sequences_are_refused_by_name() -> None:
    for sequences, message in WRONG_SEQUENCES.values():
        refused(message, read_sequences, "sequences", sequences)
    frame = Frame({"x": [1], "y": [2]})
    frame.columns = ["x", "x"]
    refused(re.escape("two columns named 'x'"), read_rows, "rows", frame)


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


def test_the_columns_are_those_of_dict_vectorizer() -> None:
    rows = _random_rows(0, 40)
    vectorizer = DictVectorizer(sparse=False).fit(rows)
    encoding = fit_features(read_rows("rows", rows))
    assert set(encoding.names) == set(vectorizer.get_feature_names_out())
    order = [encoding.index.columns[name] for name in vectorizer.get_feature_names_out()]
    new = [*_random_rows(10, 30), {"word": "never seen", "number": 1.0}]
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
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _matrix(encoding, [["a"]])


def test_the_constant_is_the_last_feature_of_every_row() -> None:
    values = np.array([[1, 0], [0, 0]])
    kinds = values, sparse.csr_array(values), [["a", "b"], []]
    for rows, constant in itertools.product(kinds, (0, 2.5)):
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
    "another order": (
        Frame({"x": [1.0], "y": [1.0]}), Frame({"y": [1.0], "x": [1.0]}),
        "rows has column 0 named 'y', where the encoding was fitted to 'x'",
    ),
}  # fmt: skip


def test_rows_that_do_not_fit_are_refused() -> None:
    for first, second, message in WRONG.values():
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


def dense(rows, d):
    """What rows stand for, written down entry by entry."""
    dtype = next(iter(rows.values)).dtype
    table = np.zeros((len(rows.indices), d + 1), dtype)
    for row, (indices, values) in enumerate(zip(rows.indices, rows.values, strict=True)):
        for index, value in zip(indices, values, strict=True):
            table[row, index] += value
    assert not table[:, d].any()
    return table[:, :d]


@pytest.mark.parametrize("kind", ["csr_matrix", "csc_matrix", "coo_array", "lil_matrix"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, bool])
def test_rows_stand_for_the_matrix(kind, dtype):
    random = np.random.default_rng(0)
    table = random.integers(-3, 4, (9, 7)) * (random.random((9, 7)) < 0.4)
    matrix = getattr(scipy.sparse, kind)(table.astype(dtype))
    rows = js.from_scipy(matrix)
    assert isinstance(rows, js.SparseFeatures) and rows.indices.rows.dtype == np.int32
    assert isinstance(rows.indices, js.Ragged) and isinstance(rows.values, js.Ragged)
    assert rows.values.rows.dtype == (dtype if np.dtype(dtype).kind == "f" else np.float32)
    np.testing.assert_array_equal(dense(rows, 7), table.astype(dtype))
    np.testing.assert_array_equal(rows.indices.lengths, (table != 0).sum(axis=1))
    assert rows.indices.fill == 7 and rows.values.fill == 0
    assert all((np.diff(row) > 0).all() for row in rows.indices)


def test_repeats_are_summed_zeros_dropped_and_the_matrix_left_alone():
    matrix = scipy.sparse.csr_matrix(
        (np.array([1.0, 2.0, 5.0, 0.0]), np.array([3, 3, 1, 0]), np.array([0, 3, 4, 4])), (3, 4)
    )
    rows = js.from_scipy(matrix)
    assert [row.tolist() for row in rows.indices] == [[1, 3], [], []]
    assert [row.tolist() for row in rows.values] == [[5, 3], [], []]
    assert matrix.nnz == 4 and matrix.indices.tolist() == [3, 3, 1, 0]


def test_rows_that_are_tokens_of_sequences():
    table = np.array([[0, 2, 0], [1, 0, 3], [0, 0, 0], [0, 0, 4.0]])
    tokens = js.from_scipy(scipy.sparse.csr_matrix(table), offsets=np.array([0, 1, 1, 4]))
    assert [one.tolist() for one in tokens.indices] == [[[1, 3]], [], [[0, 2], [3, 3], [2, 3]]]
    assert [one.tolist() for one in tokens.values] == [[[2, 0]], [], [[1, 3], [0, 0], [4, 0]]]
    x = js.chains.chain_inputs(tokens)
    assert x.length.tolist() == [1, 0, 3]
    rows = table.astype(np.float32)
    full = js.chains.chain_inputs(js.ragged([rows[:1], rows[:0], rows[1:]]))
    problem, random = js.chains.chain(3, 2), np.random.default_rng(0)
    w = jax.tree.map(lambda leaf: random.normal(size=leaf.shape), problem.initial_weights)
    of_rows = jax.jit(jax.vmap(problem.model.potentials, (None, 0)))
    y = js.ragged([[0], [], [1, 0, 1]])
    parts = (bucketed(problem.padding, each, y)[0].parts for each in (x, full))
    for pair in zip(*parts, strict=True):
        found, wanted = (of_rows(w, each) for each in pair)
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-6), found, wanted)


@pytest.mark.parametrize(
    "matrix, options, match",
    [
        (np.eye(3), {}, "matrix must be a SciPy sparse matrix, got ndarray"),
        ([[1, 2]], {}, "matrix must be a SciPy sparse matrix, got list"),
        (scipy.sparse.csr_matrix(np.eye(3) * 1j), {}, "must be .n, d. real numbers .*complex128"),
        (scipy.sparse.csr_matrix(np.eye(3)), {"offsets": [0, 2]}, "offsets must go from 0 to 3"),
    ],
)
def test_what_is_refused(matrix, options, match):
    refused(match, js.from_scipy, matrix, **options)
