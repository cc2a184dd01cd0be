"""Queries with graded documents."""

from __future__ import annotations

import os
import pathlib

import numpy as np
import pytest

from experiments.corpora.lambdarank import load_lambdarank
from jaxstruct.data.errors import MalformedFile
from tests.experiments.corpora.packed import tarred

TRAIN = "2 1:0.5 300:1\n0 2:4\n1 1:1\n"
FOLDER = pathlib.Path(os.environ.get("JAXSTRUCT_DATA", "")) / "lambdarank"


def archive(path, **parts):
    """An archive whose members are those of TRAIN, but for `parts`."""
    members = {"rank.train": TRAIN, "rank.train.query": "2\n1\n", "rank.test": TRAIN}
    members |= {"rank.test.query": "3\n"} | parts
    path.write_bytes(tarred({name: text.encode() for name, text in members.items()}, "xz"))
    return path


def test_documents_by_query(tmp_path):
    queries, test = load_lambdarank(archive(tmp_path / "a"))
    assert [rows.shape for rows in queries.rows] == [(2, 300), (1, 300)]
    assert queries.rows[0][0, [0, 1, 299]].tolist() == [0.5, 0, 1]
    assert [own.tolist() for own in queries.relevances] == [[2, 0], [1]]
    assert [own.dtype for own in test.relevances] == [np.int32]


@pytest.mark.parametrize(
    ("member", "text", "message"),
    [
        ("rank.train.query", "2\n2\n", r"rank.train.query has 4 documents, but .* has 3"),
        ("rank.train.query", "2\n0\n", r"entry 2 is '0', expected a number of documents >= 1"),
        ("rank.test", "1.5 1:1\n", "rank.test: a relevance is no integer >= 0"),
        ("rank.test", "1 2:1 1:1\n", r"rank.test:1: index 1 comes after 2"),
    ],
)
def test_damaged_files(tmp_path, member, text, message):
    with pytest.raises(MalformedFile, match=message):
        load_lambdarank(archive(tmp_path / "a", **{member: text}))


@pytest.mark.skipif(not FOLDER.is_dir(), reason="no lambdarank")
def test_the_corpus():
    train, test = load_lambdarank()
    assert (len(train.rows), len(test.rows)) == (201, 50)
    assert (sum(map(len, train.rows)), sum(map(len, test.rows))) == (3005, 768)
    assert np.unique(np.concatenate(train.relevances)).tolist() == [0, 1, 2, 3, 4]
