"""Rows of every kind that people hold, and what is refused of them."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy import sparse

from jaxstruct.core.feature_rows import DenseRows, NamedRows, SparseRows, read_rows, read_sequences
from tests.core.frames import Frame
from tests.lib.refusals import refused


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


@pytest.mark.parametrize(
    "row",
    [["a", "b"], ("a", "b"), {"b", "a"}, np.array(["a", "b"]), dict(a=1, b=True)],
    ids=["list", "tuple", "set", "array", "mapping"],
)
def test_a_row_of_names(row) -> None:
    rows = read_rows("rows", [row, []])
    assert isinstance(rows, NamedRows) and rows.count == 2
    assert _listed(rows) == [[("a", 1), ("b", 1)], []]
    assert all(type(name) is str for name in rows.names)


def test_a_name_twice_counts_twice_and_a_generator_of_rows_is_read() -> None:
    assert _listed(read_rows("rows", (["a", "a"] for _ in range(2)))) == [[("a", 1), ("a", 1)]] * 2


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bool"])
def test_arrays_are_left_as_they_are(dtype: str) -> None:
    values = np.eye(3, dtype=dtype)
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


def test_an_array_of_objects_is_a_list_of_rows() -> None:
    rows = np.array([{"a": 1}, ["b"]], object)
    assert _listed(read_rows("rows", rows)) == [[("a", 1)], [("b", 1)]]


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
    "a mapping": ({"a": 1}, "rows must be a list of rows"),
    "no list": (3, "rows must be a list of rows"),
    "a token as text": (["dog"], r"rows\[0\] is the text 'dog', but a row is a list of names"),
    "a number as row": ([["a"], 3], r"rows\[1\] must be a row: .*got int 3"),
    "a name that is a number": ([["a", 1]], r"rows\[0\] must hold names, .*got int 1"),
    "a key that is a number": ([{1: "a"}], r"rows\[0\] names a feature int 1, not a text"),
    "none": ([{"a": None}], r"rows\[0\] gives feature 'a' the value None; expected a finite"),
    "nan": ([{}, {"a": NAN}], r"rows\[1\] gives feature 'a' the value float nan"),
    "infinite": ([{"a": float("inf")}], "the value float inf"),
    "too large": ([{"a": 10**400}], "gives feature 'a' the value int 1000"),
    "nested": ([{"a": {"b": 1}}], "the value dict"),
    "a list of numbers as value": ([{"a": [1]}], "the value list"),
    "complex": ([{"a": 1j}], "the value complex"),
    "unequal": ([[1, 2], [3]], r"rows\[1\] has numbers of shape \(1,\), rows\[0\] of \(2,\)"),
    "one axis": (np.zeros(3), "got an array float64 of shape"),
    "three axes": (np.zeros((1, 2, 3)), "got an array float64 of shape"),
    "texts in an array": (np.array([["a"]]), "got an array <U1 of shape"),
    "nan in an array": (np.array([[0, 1], [NAN, 0]]), r"rows\[1\] has nan in column 0 \(1 such\)"),
    "a frame's nan": (Frame({"x": [0.0], "y": [NAN]}), r"rows\[0\] has nan in column 'y'"),
    "a complex matrix": (sparse.csr_array(np.eye(2) * 1j), "rows must be .*real numbers"),
}


@pytest.mark.parametrize("case", WRONG_ROWS)
def test_rows_are_refused_by_name(case: str) -> None:
    rows, message = WRONG_ROWS[case]
    refused(message, read_rows, "rows", rows)


WRONG_SEQUENCES = {
    "a text": ("dog", "sequences must be a list of sequences"),
    "a sequence of texts": ([[["a"]], "dog"], r"sequences\[1\] must be a sequence, itself"),
    "a number": ([3], r"sequences\[0\] must be a sequence"),
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


@pytest.mark.parametrize("case", WRONG_SEQUENCES)
def test_sequences_are_refused_by_name(case: str) -> None:
    sequences, message = WRONG_SEQUENCES[case]
    refused(message, read_sequences, "sequences", sequences)


def test_a_frame_with_two_columns_of_one_name_is_refused() -> None:
    frame = Frame({"x": [1], "y": [2]})
    frame.columns = ["x", "x"]
    refused(re.escape("two columns named 'x'"), read_rows, "rows", frame)
