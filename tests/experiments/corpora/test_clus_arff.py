"""CLUS hierarchical ARFF, dense and sparse, sound and malformed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments.corpora.clus_arff import load_clus_arff
from jaxstruct.data.errors import MalformedFile
from tests.lib.refusals import refused

HEADER = """% a comment
@RELATION 'toy set'

@ATTRIBUTE word_1 numeric
@attribute 'word two' REAL   % trailing comment
@ATTRIBUTE class  hierarchical D/01/D,D/02,H
@ATTRIBUTE last integer
@DATA
"""
DENSE = HEADER + "0.5,0,D/01/D@H,3\n\n0,-1e-2, D/01 ,0  % P12\n0,0,H,0\n"
SPARSE = HEADER + "{1 0.5,4 3, 3 D/01/D@H}\n{3 D/01,2 -1e-2}\n{ 3 H }\n"


def _write(folder: Path, text: str) -> Path:
    path = folder / "toy.arff"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("text", [DENSE, SPARSE, SPARSE.replace("\n", "\r\n")])
def test_dense_and_sparse_say_the_same(text, tmp_path) -> None:
    """The class column is left out of the features, wherever it stands."""
    data = load_clus_arff(_write(tmp_path, text))
    assert data.feature_names == ("word_1", "word two", "last")
    assert data.rows.number_of_features == 3
    assert data.rows.indptr.tolist() == [0, 2, 3, 3]
    assert data.rows.indices.tolist() == [0, 2, 1]
    assert data.rows.values.tolist() == [0.5, 3.0, np.float32(-1e-2)]
    assert data.nodes == ("D", "D/01", "D/01/D", "D/02", "H")
    assert data.parents.tolist() == [-1, 0, 1, 0, -1]
    assert data.labels == ((2, 4), (1,), (4,))  # the main label first


def test_weka_numbers_from_zero(tmp_path) -> None:
    """The same rows, every number one less."""
    text = HEADER + "{0 0.5,3 3,2 D/01/D@H}\n{2 D/01,1 -1e-2}\n{2 H}\n"
    assert str(load_clus_arff(_write(tmp_path, text), first_index=0)) == str(
        load_clus_arff(_write(tmp_path, SPARSE))
    )


def test_missing_values(tmp_path) -> None:
    """Refused unless the caller says what to put."""
    path = _write(tmp_path, HEADER + "0.5,?,H,3\n")
    with refused(r"line 9: a value is missing .*pass missing_value", error=MalformedFile):
        load_clus_arff(path)
    assert load_clus_arff(path, missing_value=7.0).rows.values.tolist() == [0.5, 7.0, 3.0]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("1,2,H", "has 3 values, expected 4"),
        ("1,2,H,4,{0.5}", "has 5 values, expected 4"),
        ("1,x,H,4", "could not convert string to float: 'x'"),
        ("1,nan,H,4", "'nan' is not finite"),
        ("1,inf,H,4", "'inf' is not finite"),
        ("1,2,,4", "has no class"),
        ("1,2,Q,4", "class 'Q' is not a path"),
        ("1,2,H@,4", "class '' is not a path"),
        ("{1 2", "a sparse row must end with '}'"),
        ("{1 2}", "has no class"),
        ("{0 2,3 H}", "attribute 0 is out of range"),
        ("{5 2,3 H}", "attribute 5 is out of range"),
        ("{1 2,1 3,3 H}", "attribute 1 is out of range or comes twice"),
        ("{1 2,3 H,x 3}", "invalid literal"),
        ("{1,3 H}", "could not convert"),
    ],
)
def test_malformed_rows_are_named(row, message, tmp_path) -> None:
    """By file and line, counted with comments and empty lines."""
    path = _write(tmp_path, HEADER + "1,2,H,3\n% note\n\n" + row + "\n")
    refused(rf"toy.arff, line 12: {message}", load_clus_arff, path, error=MalformedFile)


def test_value_beyond_float32(tmp_path) -> None:
    """Reported with its row and feature."""
    with refused("row 0, feature 1 is not finite in float32"):
        load_clus_arff(_write(tmp_path, HEADER + "1,1e300,H,4\n"))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("word_1 numeric", "word_1 {red,green}", "line 4: .*expected numeric attributes"),
        ("word_1 numeric", "word_1", "line 4: "),
        ("last integer", "again hierarchical A,B", "line 7: .*one '@ATTRIBUTE class hierarchical"),
        ("class  hierarchical D/01/D,D/02,H", "class numeric", "line 8: '@DATA'; expected"),
        ("D/01/D,D/02,H", "D,,H", "line 6: the hierarchy names an empty class"),
        ("D/01/D,D/02,H", "root/A,A/B", "line 6: the hierarchy lists edges"),
        ("@DATA", "@FACTS", "line 8: '@FACTS'"),
        ("@DATA\n", "", "line 8: '1,2,H,3'"),
        ("1,2,H,3\n", "", "holds no example after @DATA"),
    ],
)
def test_malformed_headers(old, new, message, tmp_path) -> None:
    """What the reader does not understand is an error, never left out."""
    text = HEADER + "1,2,H,3\n"
    assert old in text
    with refused(message, error=MalformedFile):
        load_clus_arff(_write(tmp_path, text.replace(old, new)))


def test_header_alone_and_other_files(tmp_path) -> None:
    """Cut before @DATA, not text at all, not there."""
    with refused("has no @DATA", error=MalformedFile):
        load_clus_arff(_write(tmp_path, HEADER.replace("@DATA", "")))
    refused("has no @DATA", lambda: load_clus_arff(_write(tmp_path, "")), error=MalformedFile)
    path = _write(tmp_path, "")
    path.write_bytes(b"@RELATION \xff\xfe")
    refused("not UTF-8", load_clus_arff, path, error=MalformedFile)
    with pytest.raises(FileNotFoundError):
        load_clus_arff(tmp_path / "none.arff")
