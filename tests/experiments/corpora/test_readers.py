"""Readers of single corpora: files written here, bad ones, and counts of the real ones."""

from __future__ import annotations

import collections
import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from experiments.corpora.clinc150 import Queries, load_clinc150
from experiments.corpora.conll2002 import load_conll2002
from experiments.corpora.errors import MissingMember
from experiments.corpora.gum_dependencies import load_gum_dependencies
from experiments.corpora.lambdarank import load_lambdarank
from experiments.corpora.multilabel import load_label_sets
from experiments.corpora.snakes import load_snakes
from jaxstruct.data.errors import MalformedFile
from tests.experiments.corpora.packed import lambdarank, zipped
from tests.lib.refusals import refused

QUERIES = {
    "train": [["how much", "balance"], ["pay it", "bill"], ["hé", "hi"]],
    "val": [["my money", "balance"]],
    "test": [["hello", "hi"]],
}
DOMAINS = {"banking": ["balance", "bill"], "talk": ["hi"]}


def _clinc150(folder: Path, queries: object = QUERIES, domains: object = DOMAINS) -> Path:
    for name, content in (("data_full.json", queries), ("domains.json", domains)):
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_clinc150(tmp_path) -> None:
    """Texts and intents by split, the domain of each intent; out-of-scope splits are apart."""
    corpus = load_clinc150(_clinc150(tmp_path))
    assert corpus.train == Queries(("how much", "pay it", "hé"), ("balance", "bill", "hi"))
    assert corpus.validation == Queries(("my money",), ("balance",))
    assert corpus.test == Queries(("hello",), ("hi",))
    assert corpus.domains == {"balance": "banking", "bill": "banking", "hi": "talk"}
    assert corpus.out_of_scope == {}
    extra = {"oos_train": [["who won", "oos"]], "oos_val": [["why", "oos"]]}
    corpus = load_clinc150(_clinc150(tmp_path, QUERIES | extra))
    train, validation = Queries(("who won",), ("oos",)), Queries(("why",), ("oos",))
    assert corpus.out_of_scope == {"train": train, "validation": validation}
    assert "oos" not in corpus.domains


@pytest.mark.parametrize(
    ("queries", "domains", "message"),
    [
        ("{", DOMAINS, "data_full.json: not JSON"),
        (QUERIES | {"val": [["a", "bill"], ["b"]]}, DOMAINS, r"val\[1\] is \['b'\]"),
        (QUERIES, DOMAINS | {"home": ["bill"]}, "'bill' is under two domains"),
        (QUERIES, {"banking": ["balance", "b ill"], "talk": ["hi"]}, "differ .*: b ill, bill"),
    ],
)
def test_bad_clinc150(queries, domains, message, tmp_path) -> None:
    path = _clinc150(tmp_path, queries, domains)
    refused(message, load_clinc150, path, error=MalformedFile)


def test_conll2002(tmp_path: Path) -> None:
    """The three parts of the language asked for; errors name the member and its line."""
    path = tmp_path / "own.zip"
    parts = ("train", "testa", "testb")
    dutch = {f"conll2002/ned.{part}": f"{part} N O\n".encode() for part in parts}
    path.write_bytes(zipped(dutch | {f"conll2002/esp.{part}": b"a O\nb\n" for part in parts}))
    dutch = load_conll2002("ned", path)
    assert [part[0].words for part in dutch] == [("train",), ("testa",), ("testb",)]
    message = r"own.zip:conll2002/esp.train:2: 'b' has 1 columns"
    refused(message, load_conll2002, "esp", path, error=MalformedFile)
    path.write_bytes(zipped({"conll2002/esp.train": b"a O\n"}))
    refused("esp.testa", load_conll2002, path=path, error=MissingMember)


def test_lambdarank(tmp_path) -> None:
    queries, test = load_lambdarank(lambdarank(tmp_path / "a"))
    assert [rows.shape for rows in queries.rows] == [(2, 300), (1, 300)]
    assert queries.rows[0][0, [0, 1, 299]].tolist() == [0.5, 0, 1]
    assert [own.tolist() for own in queries.relevances] == [[2, 0], [1]]
    assert [own.dtype for own in test.relevances] == [np.int32]
    for member, text, message in (
        ("rank.train.query", "2\n2\n", r"rank.train.query has 4 documents, but .* has 3"),
        ("rank.train.query", "2\n0\n", r"entry 2 is '0', expected a number of documents >= 1"),
        ("rank.test", "1.5 1:1\n", "rank.test: a relevance is no integer >= 0"),
        ("rank.test", "1 2:1 1:1\n", r"rank.test:1: index 1 comes after 2"),
    ):
        path = lambdarank(tmp_path / "a", **{member: text})
        refused(message, load_lambdarank, path, error=MalformedFile)


X, Y = np.arange(6.0, dtype=np.float32).reshape(3, 2), np.array([[0, 1], [1, 1], [0, 0]], np.int8)
SETS = {"train_x": X, "train_y": Y, "test_x": X[:1], "test_y": Y[:1]}
SHAPES = np.array([[2, 3], [1, 4]])
PIXELS = np.random.default_rng(0).integers(0, 256, (10, 3)).astype(np.uint8)
SNAKES = {
    f"{part}_{name}": array
    for part in ("train", "test")
    for name, array in (
        ("shapes", SHAPES), ("pixels", PIXELS), ("labels", np.arange(10, dtype=np.int8))
    )
}  # fmt: skip


def test_arrays_come_back_as_they_were_written(tmp_path: Path) -> None:
    np.savez(tmp_path / "sets.npz", **SETS)
    found = load_label_sets("own", tmp_path / "sets.npz")
    for name, leaf in found._asdict().items():
        np.testing.assert_array_equal(leaf, SETS[name])
    np.savez(tmp_path / "snakes.npz", **SNAKES)
    train, test = load_snakes(tmp_path / "snakes.npz")
    np.testing.assert_array_equal(train.pixels, PIXELS)
    np.testing.assert_array_equal(test.labels, np.arange(10))
    assert found.train_y.dtype == test.labels.dtype == np.int32
    assert train.offsets.tolist() == [0, 6, 10]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_x": X[:2]}, "train_x and train_y are float32 .2, 2. and int8 .3, 2."),
        ({"test_y": Y[:1] * 1.0}, "test_x and test_y are float32"),
        ({"train_y": Y + 1}, "train_x must be finite, train_y zeros and ones"),
        ({"test_x": X[:1] * np.nan}, "test_x must be finite"),
        ({"test_x": X[:1, :1]}, "train and test differ in their features or labels"),
        ({"train_shapes": SHAPES[:, :1]}, "train_shapes is int64 .2, 1., expected integers"),
        ({"train_shapes": SHAPES * 1.0}, "train_shapes is float64"),
        ({"test_shapes": SHAPES - 1}, "test_shapes must be heights and widths of at least 1"),
        ({"test_pixels": PIXELS[:9]}, r"expected uint8 \[10, 3\] and integers"),
        ({"train_labels": np.full(10, 11)}, r"train_labels must lie in 0..10"),
    ],
)
def test_bad_arrays(changes: dict, message: str, tmp_path: Path) -> None:
    of_sets = set(changes) <= set(SETS)
    np.savez(tmp_path / "own.npz", **(SETS if of_sets else SNAKES) | changes)
    read = partial(load_label_sets, "own") if of_sets else load_snakes
    refused(message, read, tmp_path / "own.npz", error=MalformedFile)


def test_the_real_clinc150(require_corpus) -> None:
    """The counts of the source, 15 intents a domain, both files spelling the intents alike."""
    require_corpus("clinc150", "data_full.json")
    corpus = load_clinc150()
    splits = (corpus.train, corpus.validation, corpus.test)
    assert [len(split.texts) for split in splits] == [15000, 3000, 4500]
    for split, each in zip(splits, (100, 20, 30), strict=True):
        assert set(collections.Counter(split.labels).values()) == {each}
    assert set(collections.Counter(corpus.domains.values()).values()) == {15}
    sizes = {name: len(queries.texts) for name, queries in corpus.out_of_scope.items()}
    assert sizes == {"train": 100, "validation": 100, "test": 1000}


def test_the_real_conll2002(require_corpus) -> None:
    """The counts of the source; the 300 sentences of tables 2 and 3; no document line is a token,
    and the others are all there."""
    require_corpus("conll2002", "conll2002.zip")
    corpus = load_conll2002("esp")
    assert [len(part) for part in corpus] == [8323, 1915, 1517]
    assert sum(len(sentence.words) for sentence in corpus.train) == 264715
    first = corpus.train[:300]
    assert sum(len(sentence.words) for sentence in first) == 8541
    labels = {label for sentence in first for label in sentence.labels}
    assert labels == {"O", *(f"{p}-{t}" for p in "BI" for t in ("LOC", "MISC", "ORG", "PER"))}
    assert corpus.train[0].tags[:3] == ("NP", "Fpa", "NP")
    corpus = load_conll2002("ned")
    assert [len(part) for part in corpus] == [15806, 2895, 5195]
    tokens = [sum(len(sentence.words) for sentence in part) for part in corpus]
    assert np.add(tokens, [287, 74, 119]).tolist() == [202931, 37761, 68994]
    assert not any("-DOCSTART-" in sentence.words for part in corpus for sentence in part)


def test_the_other_real_corpora(require_corpus) -> None:
    require_corpus("gum_dependencies", "gum-dep.tar.xz")
    gum = load_gum_dependencies()
    assert [len(part) for part in gum] == [9933, 1341, 1285]
    assert sum(len(sentence.words) for sentence in gum.train) == 172_374
    require_corpus("multilabel", "scene.npz")
    for name, sizes in (("scene", (1211, 294, 1196, 6)), ("yeast", (1500, 103, 917, 14))):
        sets = load_label_sets(name)
        assert (*sets.train_x.shape, *sets.test_y.shape) == sizes
    require_corpus("snakes", "snakes.npz")
    train, test = load_snakes()
    assert (len(train.shapes), len(test.shapes)) == (200, 100)
    assert (len(train.labels), len(test.labels)) == (7566, 3750)
    for part in (train, test):  # every grid has one snake of ten cells
        cells = np.split(part.labels, part.offsets[1:-1])
        assert all(sorted(own[own > 0]) == list(range(1, 11)) for own in cells)
    queries, test = load_lambdarank()
    assert (len(queries.rows), len(test.rows)) == (201, 50)
    assert (sum(map(len, queries.rows)), sum(map(len, test.rows))) == (3005, 768)
    assert np.unique(np.concatenate(queries.relevances)).tolist() == [0, 1, 2, 3, 4]
