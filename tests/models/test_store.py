"""Stores: what is written is what prepare makes of all records at once, opened so or refused."""

from __future__ import annotations

import json
from contextlib import nullcontext

import numpy as np
import pytest

import jaxstruct as js
from jaxstruct.data.bracketing import read_tree
from jaxstruct.data.trees import Tree
from jaxstruct.models import Store, write_rows, write_sequences, write_trees
from jaxstruct.models.store import open_store
from tests.lib.equality import assert_same
from tests.lib.refusals import refused
from tests.models.model_cases import TREES

ROWS = [["a", "b"], ["b", "c", "b"], ["c"], ["a", "d"]]
LABELS = ["x", "y", "x", "z"]


@pytest.fixture
def folder(tmp_path):
    records = [(i, *pair) for i, pair in enumerate(zip(ROWS, LABELS, strict=True))]
    return write_rows(tmp_path / "a.store", records).folder


def test_a_store_trains_and_its_model_predicts(folder) -> None:
    store = js.open_store(folder, check=True)
    assert isinstance(store, Store) and len(store) == 4
    assert repr(store) == "Store(multiclass, 4 examples)"
    assert not store.inputs.values.rows.flags.writeable  # it lies on the disk
    data = store.prepare()
    solution = js.fit_in_blocks(*data, C=100.0, blocks=2)
    assert solution.status.solved and js.trained(data, solution).predict(ROWS) == LABELS


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "zip"}, "is of no format"),
        ({"version": 2}, "is of version 2 of the format, this jaxstruct reads 1"),
        ({"structure": "chain"}, "its encoding of multiclass"),
        ({"structure": "tables"}, "is of the structure 'tables'"),
        ({"examples": 7}, "has 4 examples, its header says 7"),
        ({"arrays": {}}, "has the arrays .*, expected"),
        ({"arrays": {"../values": {}}}, "has an array called '../values'"),
    ],
)
def test_a_header_that_does_not_fit_is_refused(folder, change, words) -> None:
    header = json.loads((folder / "header.json").read_text())
    (folder / "header.json").write_text(json.dumps(header | change))
    refused(words, open_store, folder)
    (folder / "header.json").write_text("[")
    refused("does not hold together", open_store, folder)


def test_damaged_arrays_are_refused(folder, tmp_path) -> None:
    values = np.load(folder / "values.npy")
    values[0] += 1
    np.save(folder / "values.npy", values)
    open_store(folder)
    refused("'values.npy' that does not have its digest", open_store, folder, check=True)
    np.save(folder / "values.npy", values[:-1])
    refused("'values.npy' of .*, its header says", open_store, folder)
    (folder / "values.npy").write_bytes(b"PK")
    refused("'values.npy' that cannot be read", open_store, folder)
    (folder / "values.npy").unlink()
    refused("values.npy", open_store, folder, error=FileNotFoundError)
    refused("there is no store in", open_store, tmp_path, error=FileNotFoundError)


def test_arrays_that_are_no_offsets_are_refused(tmp_path) -> None:
    folder = write_sequences(tmp_path / "s", [(0, [["a"], ["b"]], ["N", "V"])]).folder
    offsets = np.load(folder / "offsets.npy")
    np.save(folder / "offsets.npy", offsets[::-1].copy())
    refused("offsets must rise", open_store, folder)


def placed(*columns) -> list:
    return [(f"place {i}", *each) for i, each in enumerate(zip(*columns, strict=True))]


def random_rows(random, count):
    """Lists of names with repeats, and mappings with zeros, flags and texts."""
    names, kinds, rows = list("abcdefgh"), [0.0, 1.5, True, False, "v", ["p", "q"]], []
    for _ in range(count):
        own = random.choice(names, random.integers(0, 6)).tolist()
        some = random.choice(names, 3, replace=False).tolist()
        mapping = {name: kinds[random.integers(6)] for name in some}
        rows.append(own if random.random() < 0.5 else mapping)
    return rows


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Several chunks and pieces of everything."""
    monkeypatch.setattr("jaxstruct.models.store.CHUNK", 3)


@pytest.mark.parametrize(("min_count", "constant"), [(1, 1.0), (3, 0.0)])
def test_rows_are_those_of_prepare(tmp_path, min_count, constant) -> None:
    for seed in range(3):
        random = np.random.default_rng(seed)
        rows = random_rows(random, 20)
        labels = random.choice(["x", "y", "z"], 20).tolist()
        options = {"min_count": min_count, "constant": constant}
        written = write_rows(tmp_path / str(seed), placed(rows, labels), **options)
        assert (written.examples, written.bad) == (20, 0)
        store = open_store(written.folder, check=True)
        encoding = js.multiclass.prepare(rows, labels, **options).encoding
        assert store.encoding == encoding
        with pytest.warns() if min_count > 1 else nullcontext():
            assert_same(store.inputs, encoding.inputs(rows))
        assert_same(store.outputs, encoding.outputs(labels))
        names = {"header.json", "offsets.npy", "indices.npy", "values.npy", "labels.npy"}
        assert {path.name for path in written.folder.iterdir()} == names


@pytest.mark.parametrize(("min_count", "constant"), [(1, 0.0), (2, 0.5)])
def test_sequences_are_those_of_prepare(tmp_path, min_count, constant) -> None:
    random = np.random.default_rng(5)
    sequences = [random_rows(random, random.integers(1, 6)) for _ in range(10)]
    labels = [random.choice(["N", "V"], len(one)).tolist() for one in sequences]
    options = {"min_count": min_count, "constant": constant}
    store = open_store(write_sequences(tmp_path / "s", placed(sequences, labels), **options).folder)
    encoding = js.chains.prepare(sequences, labels, **options).encoding
    assert store.encoding == encoding
    with pytest.warns() if min_count > 1 else nullcontext():
        assert_same(store.inputs, encoding.inputs(sequences))
    assert_same(store.outputs, encoding.outputs(labels))


def test_rows_of_numbers(tmp_path) -> None:
    rows = [(np.array([0, 2]), np.array([1.0, 0.5])), ((), ()), (np.array([1]), np.array([2.0]))]
    store = open_store(write_rows(tmp_path / "n", placed(rows, [3, -1, 3])).folder)
    assert store.encoding.features.kind == "sparse" and store.encoding.codec.classes == (-1, 3)
    assert store.encoding.features.number_of_features == 4  # the constant is the last one
    assert [one.tolist() for one in store.inputs.indices] == [[0, 2, 3], [3], [1, 3]]
    assert [one.tolist() for one in store.inputs.values] == [[1, 0.5, 1], [1], [2, 1]]
    written = write_rows(tmp_path / "m", placed(rows, [3, -1, 3]), columns=9, constant=0.0)
    assert open_store(written.folder).encoding.features.number_of_features == 9


@pytest.mark.parametrize("options", [{}, {"read_words": True}, {"read_words": True, "rare": 0}])
def test_trees_are_those_of_prepare(tmp_path, options) -> None:
    trees = [read_tree(line) for line in TREES.split("\n")] * 2
    first, second = (Tree(tag, (), word) for tag, word in (("N", "New York\n"), ("V", "(é)")))
    trees.append(Tree("S", (Tree("X", (first, second)), Tree("N", (), '"'))))
    written = write_trees(tmp_path / "t", enumerate(trees), **options)
    store = open_store(written.folder)
    encoding = js.trees.prepare(trees, **options).encoding
    assert ("(é)" in encoding.grammar.terminals) == ("rare" in options)  # it is there once
    for one, other in zip(store.encoding.grammar, encoding.grammar, strict=True):
        np.testing.assert_array_equal(one, other)
    assert_same(store.inputs, encoding.inputs(trees))
    assert_same(store.outputs, encoding.outputs(trees))


def test_bad_records_are_told_and_passed_over(tmp_path) -> None:
    rows = [["a"], "text", ["b"], ["c"], [1.0, 2.0], ["a"]]
    labels = ["x", "y", None, "y", "x", "x"]
    records, reported = placed(rows, labels), []
    written = write_rows(tmp_path / "r", records, report=lambda *pair: reported.append(pair))
    assert (written.examples, written.bad) == (3, 3)
    places, reasons = zip(*reported, strict=True)
    assert places == ("place 1", "place 2", "place 4")
    said = zip(("is the text", "missing label", "dense"), reasons, strict=True)
    assert all(words in reason for words, reason in said)
    refused("the one of place 'place 1'", write_rows, tmp_path / "q", records)
    assert [path.name for path in tmp_path.iterdir()] == ["r"]  # nothing half-written


@pytest.mark.parametrize(
    ("records", "match"),
    [
        ([], "records: none came"),
        (placed([["a"], ["b"]], ["x", "x"]), "the label \\['x'\\] alone"),
        (placed([[], []], ["x", "y"]), "no feature stands in any"),
        (placed([([2], [1.0]), ([-1], [1.0])], ["x", "y"]), "columns that are none"),
        (placed([([2], [1.0]), ([1], [np.inf])], ["x", "y"]), "not finite"),
        (placed([([2], [1.0]), ([9], [1.0])], ["x", "y"]), "has column 9, but there are 4"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, records, match) -> None:
    refused(match, write_rows, tmp_path / "r", records, columns=4)
    assert not list(tmp_path.iterdir())


def test_no_record_that_is_left_says_what_happened(tmp_path) -> None:
    """None came, or all were bad: how many, and the first of them."""
    target, silent = tmp_path / "none", {"report": lambda *pair: None}
    bad = placed(["one", "two"], ["x", "y"])
    all_bad = "2 came and all were bad; the first, of place 'place 0'"
    refused(f"{all_bad}: .*is the text", write_rows, target, bad, **silent)
    marked = placed([Tree("A+B", (), "a")] * 2)
    refused(f"{all_bad}: label: got 'A\\+B'", write_trees, target, marked, **silent)
    for write in (write_rows, write_sequences, write_trees):
        refused("records: none came", write, target, [], **silent)


def test_sequences_and_labels_have_one_length(tmp_path) -> None:
    records = [(0, [["a"]], ["N", "V"])]
    refused("has 2 labels of 1 tokens", write_sequences, tmp_path / "s", records)
    refused("has no token", write_sequences, tmp_path / "s", [(0, [], [])])
    refused("is there already", write_rows, tmp_path, [])
