"""CLINC150 from handmade files, bad files, and the real corpus."""

from __future__ import annotations

import collections
import json
from pathlib import Path

import pytest

from experiments.corpora.clinc150 import Queries, load_clinc150
from experiments.corpora.errors import CorpusMissing
from jaxstruct.data.errors import MalformedFile
from tests.lib.refusals import refused

QUERIES = {
    "train": [["how much", "balance"], ["pay it", "bill"], ["hé", "hi"]],
    "val": [["my money", "balance"]],
    "test": [["hello", "hi"]],
}
DOMAINS = {"banking": ["balance", "bill"], "talk": ["hi"]}


def _write(folder: Path, queries: object = QUERIES, domains: object = DOMAINS) -> Path:
    for name, content in (("data_full.json", queries), ("domains.json", domains)):
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_round_trip(tmp_path) -> None:
    """Texts and intents by split, and the domain of each intent."""
    corpus = load_clinc150(_write(tmp_path))
    assert corpus.train == Queries(("how much", "pay it", "hé"), ("balance", "bill", "hi"))
    assert corpus.validation == Queries(("my money",), ("balance",))
    assert corpus.test == Queries(("hello",), ("hi",))
    assert corpus.domains == {"balance": "banking", "bill": "banking", "hi": "talk"}
    assert corpus.out_of_scope == {}


def test_out_of_scope_splits_are_apart(tmp_path) -> None:
    """They add no intent to the taxonomy, and each is optional."""
    extra = {"oos_train": [["who won", "oos"]], "oos_val": [["why", "oos"]]}
    corpus = load_clinc150(_write(tmp_path, QUERIES | extra))
    assert corpus.out_of_scope == {
        "train": Queries(("who won",), ("oos",)),
        "validation": Queries(("why",), ("oos",)),
    }
    assert "oos" not in corpus.domains


@pytest.mark.parametrize(
    ("queries", "domains", "message"),
    [
        ("{", DOMAINS, "data_full.json: not JSON"),
        (QUERIES, "[]", "domains.json: holds a list, expected an object"),
        ({"train": [], "val": []}, DOMAINS, "expected a list 'test'"),
        (QUERIES | {"val": [["a", "bill"], ["b"]]}, DOMAINS, r"val\[1\] is \['b'\]"),
        (QUERIES | {"val": [["", "bill"]]}, DOMAINS, r"val\[0\] is"),
        (QUERIES, DOMAINS | {"home": ["bill"]}, "'bill' is under two domains"),
        (QUERIES, DOMAINS | {"home": "lamp"}, "'home' is not a list"),
        (QUERIES, DOMAINS | {"home": ["lamp"]}, "differ from the queries': lamp"),
        (QUERIES, {"banking": ["balance", "bill"]}, "differ from the queries': hi"),
        (QUERIES, {"banking": ["balance", "b ill"], "talk": ["hi"]}, "differ .*: b ill, bill"),
    ],
)
def test_malformed(queries, domains, message, tmp_path) -> None:
    """The file and the place are named."""
    refused(message, lambda: load_clinc150(_write(tmp_path, queries, domains)), error=MalformedFile)


def test_missing(folders, tmp_path) -> None:
    """Without a path, the registered corpus is looked for."""
    refused("--corpus=clinc150", load_clinc150, error=CorpusMissing)
    with pytest.raises(FileNotFoundError):
        load_clinc150(tmp_path)


def test_real_corpus(require_corpus) -> None:
    """The counts of the source, 15 intents a domain, both files spelling the intents alike."""
    require_corpus("clinc150", "data_full.json")
    require_corpus("clinc150", "domains.json")
    corpus = load_clinc150()
    splits = (corpus.train, corpus.validation, corpus.test)
    assert [len(split.texts) for split in splits] == [15000, 3000, 4500]
    for split, each in zip(splits, (100, 20, 30), strict=True):
        assert set(collections.Counter(split.labels).values()) == {each}
    assert len(corpus.domains) == 150
    assert set(collections.Counter(corpus.domains.values()).values()) == {15}
    sizes = {name: len(queries.texts) for name, queries in corpus.out_of_scope.items()}
    assert sizes == {"train": 100, "validation": 100, "test": 1000}
