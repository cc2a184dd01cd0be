"""Queries with graded documents, as LightGBM distributes them for its lambdarank example."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments.corpora.archives import read_members
from experiments.corpora.locate import find_file
from jaxstruct.data.errors import MalformedFile, decoded
from jaxstruct.data.svmlight import load_svmlight

FEATURES = 300
_PARTS = ("train", "test")


class Queries(NamedTuple):
    """n queries.

    Fields:
      rows: n float32 arrays [k, d], the features of k documents.
      relevances: n int32 arrays [k], >= 0.
    """

    rows: list[np.ndarray]
    relevances: list[np.ndarray]


class GradedQueries(NamedTuple):
    """The two parts."""

    train: Queries
    test: Queries


def load_lambdarank(path: Path | None = None) -> GradedQueries:
    """Reads 201 queries of 3,005 documents to learn from and 50 of 768 to test, d = 300.

    Args:
      path: an archive with rank.{train,test}, SVM-light files without qid, and
        rank.{train,test}.query, a number of documents a line (not checked by checksum); or None for
        the registered corpus.

    Raises:
      CorpusMissing, ChecksumMismatch: see `locate.find_file`.
      MissingMember, UnsafeArchive, CorruptArchive: see `archives.read_members`.
      MalformedFile: a file is not in its format, a relevance is no integer >= 0, or the numbers of
        documents do not add up.
      ImportError: scikit-learn, which reads SVM-light files, is not installed.
    """
    path = Path(path) if path else find_file("lambdarank", "lambdarank.tar.xz")
    members = [f"rank.{part}{kind}" for part in _PARTS for kind in ("", ".query")]
    contents = read_members(path, members)
    parts = [
        _queries(f"{path}:rank.{part}", contents[f"rank.{part}"], contents[f"rank.{part}.query"])
        for part in _PARTS
    ]
    return GradedQueries(*parts)


def _queries(name: str, documents: bytes, counts: bytes) -> Queries:
    sizes = []
    for number, line in enumerate(decoded(counts, f"{name}.query").split(), 1):
        if not line.isdecimal() or not int(line):
            raise MalformedFile(
                f"{name}.query: entry {number} is {line!r}, expected a number of documents >= 1"
            )
        sizes.append(int(line))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "documents"
        file.write_bytes(documents)
        try:
            found = load_svmlight(file, number_of_features=FEATURES)
        except MalformedFile as error:
            raise MalformedFile(str(error).replace(str(file), name)) from error
    relevances = found.labels.astype(np.int32)
    if (relevances != found.labels).any() or relevances.min() < 0:
        raise MalformedFile(f"{name}: a relevance is no integer >= 0")
    if sum(sizes) != len(relevances):
        raise MalformedFile(
            f"{name}.query has {sum(sizes)} documents, but {name} has {len(relevances)}"
        )
    rows = np.zeros((len(relevances), FEATURES), np.float32)
    documents_of_entries = np.repeat(np.arange(len(rows)), np.diff(found.rows.indptr))
    rows[documents_of_entries, found.rows.indices] = found.rows.values
    ends = np.cumsum(sizes)[:-1]
    return Queries(np.split(rows, ends), np.split(relevances, ends))
