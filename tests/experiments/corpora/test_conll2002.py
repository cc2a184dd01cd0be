"""The shared task of CoNLL-2002: a toy archive, and the real one if present."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from experiments.corpora.conll2002 import load_conll2002
from experiments.corpora.errors import CorpusMissing, MissingMember
from jaxstruct.core.sizes import bucket_lengths
from jaxstruct.data.errors import MalformedFile
from tests.experiments.corpora.packed import zipped
from tests.lib.refusals import refused


def test_load_from_a_zip(tmp_path: Path) -> None:
    """The three parts of the language asked for; errors name the member and its line."""
    path = tmp_path / "own.zip"
    parts = ("train", "testa", "testb")
    dutch = {f"conll2002/ned.{part}": f"{part} N O\n".encode() for part in parts}
    path.write_bytes(zipped(dutch | {f"conll2002/esp.{part}": b"a O\nb\n" for part in parts}))
    dutch = load_conll2002("ned", path)
    assert [part[0].words for part in dutch] == [("train",), ("testa",), ("testb",)]
    with refused(r"own.zip:conll2002/esp.train:2: 'b' has 1 columns", error=MalformedFile):
        load_conll2002("esp", path)
    path.write_bytes(zipped({"conll2002/esp.train": b"a O\n"}))
    refused("esp.testa", load_conll2002, path=path, error=MissingMember)


def test_load_errors(folders) -> None:
    refused("language: got 'deu', expected one of esp, ned", load_conll2002, "deu")
    refused("--corpus=conll2002", load_conll2002, error=CorpusMissing)


def test_real_spanish(require_corpus) -> None:
    """The counts of the source; the 300 sentences of tables 2 and 3."""
    require_corpus("conll2002", "conll2002.zip")
    corpus = load_conll2002("esp")
    assert [len(part) for part in corpus] == [8323, 1915, 1517]
    lengths = [len(sentence.words) for sentence in corpus.train]
    assert sum(lengths) == 264715 and max(lengths) == 1238
    first = corpus.train[:300]
    assert sum(len(sentence.words) for sentence in first) == 8541
    labels = {label for sentence in first for label in sentence.labels}
    assert labels == {"O", *(f"{p}-{t}" for p in "BI" for t in ("LOC", "MISC", "ORG", "PER"))}
    assert corpus.train[0].words[:3] == ("Melbourne", "(", "Australia")
    assert corpus.train[0].tags[:3] == ("NP", "Fpa", "NP")


def test_real_dutch(require_corpus) -> None:
    """No document line is a token, and the others are all there."""
    require_corpus("conll2002", "conll2002.zip")
    corpus = load_conll2002("ned")
    tokens = [sum(len(sentence.words) for sentence in part) for part in corpus]
    documents = [287, 74, 119]
    assert [len(part) for part in corpus] == [15806, 2895, 5195]
    lines = [202931, 37761, 68994]
    assert [a + b for a, b in zip(tokens, documents, strict=True)] == lines
    assert not any("-DOCSTART-" in sentence.words for part in corpus for sentence in part)


def test_spanish_news_in_length_buckets(require_corpus) -> None:
    """Six buckets: 1.31 positions a token; one would take 38.9."""
    require_corpus("conll2002", "conll2002.zip")
    lengths = [len(sentence.words) for sentence in load_conll2002("esp").train]

    def positions(boundaries):
        return boundaries[np.searchsorted(boundaries, lengths)].sum()

    assert positions(bucket_lengths(lengths, price=0)) < 1.31 * sum(lengths)
    assert positions(bucket_lengths(lengths, 1)) > 38 * sum(lengths)
