"""SVM-light files through scikit-learn."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path

import numpy as np
import pytest

from jaxstruct.data.errors import MalformedFile
from jaxstruct.data.svmlight import load_svmlight
from tests.lib.refusals import refused

TEXT = "+1 1:0.5 4:-2 # first\n-1\n# a comment\n3 2:1e-1\n"


def _write(folder: Path, text: str) -> Path:
    path = folder / "toy.dat"
    path.write_text(text)
    return path


def test_one_based(tmp_path) -> None:
    """The first feature is written 1; an example without features stays."""
    data = load_svmlight(_write(tmp_path, TEXT))
    assert data.labels.tolist() == [1.0, -1.0, 3.0]
    assert data.rows.indptr.tolist() == [0, 2, 2, 3]
    assert data.rows.indices.tolist() == [0, 3, 1]
    assert data.rows.values.tolist() == [0.5, -2.0, np.float32(0.1)]
    assert data.rows.number_of_features == 4


def test_zero_based_is_not_guessed(tmp_path) -> None:
    """The same text means other features, whatever its lowest index is."""
    data = load_svmlight(_write(tmp_path, TEXT), zero_based=True)
    assert data.rows.indices.tolist() == [1, 4, 2]
    assert data.rows.number_of_features == 5


def test_number_of_features(tmp_path) -> None:
    """A test set takes the training set's; a file that goes beyond it is refused."""
    path = _write(tmp_path, TEXT)
    assert load_svmlight(path, number_of_features=9).rows.number_of_features == 9
    with refused("toy.dat:1: index 4 is more than 3 features allow", error=MalformedFile):
        load_svmlight(path, number_of_features=3)


def test_compressed(tmp_path) -> None:
    """As the public collections are often shipped; a cut one is an error."""
    path = tmp_path / "toy.dat.gz"
    path.write_bytes(gzip.compress(TEXT.encode()))
    assert load_svmlight(path).labels.tolist() == [1.0, -1.0, 3.0]
    path.write_bytes(path.read_bytes()[:-10])
    refused("not a sound SVM-light file", load_svmlight, path, error=MalformedFile)


@pytest.mark.parametrize(
    "text",
    [
        "1 0:1\n",  # below the base
        "1 2:1 1:1\n",  # does not rise
        "1 2:1 2:1\n",  # twice
        "1 2\n",
        "1 x:1\n",
        "1 2:x\n",
        "spam 1:1\n",
        "1 1:nan\n",
        "1 1:1e300\n",  # beyond float32
        "nan 1:1\n",
        "",
        "# nothing\n",
    ],
)
def test_malformed(text, tmp_path) -> None:
    """The file is named."""
    refused("toy.dat", lambda: load_svmlight(_write(tmp_path, text)), error=MalformedFile)


def test_queries_and_grades(tmp_path) -> None:
    """Of LETOR files, behind a byte order mark."""
    path = _write(tmp_path, "\ufeff2 qid:7 1:0.5\n0 qid:7 # none\n\n1 qid:-3 2:1\n")
    data = load_svmlight(path)
    assert data.queries is not None and data.queries.tolist() == [7, 7, -3]
    assert data.labels.dtype == np.int64 and data.labels.tolist() == [2, 0, 1]
    assert data.rows.indices.tolist() == [0, 1]
    assert load_svmlight(_write(tmp_path, "1.5 1:1\n")).labels.tolist() == [1.5]
    assert load_svmlight(_write(tmp_path, TEXT)).queries is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 qid:1 1:2\n\n2 1:2\n", "toy.dat:3: has no qid, but line 1 has one"),
        ("1 1:2\n2 qid:1 1:2\n", "toy.dat:2: has a qid, but line 1 has none"),
        ("1 qid:1 1:2\n2 qid: 1:2\n", "toy.dat:2: the qid is no integer"),
        ("1 qid:1 1:2\n2 qid:x 1:2\n", "toy.dat:2: the qid is no integer"),
        ("1 qid:1.5 1:2\n", "toy.dat:1: the qid is no integer"),
        (f"1 qid:{'9' * 30} 1:2\n", "toy.dat:1: the qid is no integer"),
        ("1 1:2 qid:1\n", "toy.dat:1: 'qid:1' does not begin with an integer"),
    ],
)
def test_a_missing_or_broken_query_is_refused(text, message, tmp_path) -> None:
    refused(message, load_svmlight, _write(tmp_path, text), error=MalformedFile)


def test_missing(tmp_path) -> None:
    """As any other file."""
    with pytest.raises(FileNotFoundError):
        load_svmlight(tmp_path / "none.dat")


@pytest.mark.parametrize(
    "line, message",
    [
        ("1 2:1 2:3", "index 2 comes twice"),
        ("1 3:1 2:3", "index 2 comes after 3"),
        ("1 0:1", "index 0 is too low"),
        ("1 1:1 4294967301:2", "index 4294967301 is more than 134217728 features allow"),
        ("1 2147483647:2", "index 2147483647 is more than 134217728 features allow"),
        (f"1 {'9' * 40}:2", "9 is more than 134217728 features allow .see number_of_features"),
        ("1 2", "'2' has no value"),
        ("1 2:1e39", "'2:1e39' has no value that is finite in float32"),
        ("1 x:1", "'x:1' does not begin with an integer"),
        ("1 qid:3 2:nan", "'2:nan' has no value"),
        ("nan 1:1", "the label 'nan'"),
        ("\xe4 1:1", "the label '\xe4'"),
    ],
)
@pytest.mark.parametrize("ending", ["", ".gz", ".bz2"])
def test_the_line_at_fault_is_named(line, message, ending, tmp_path) -> None:
    """A label beyond float32 is no fault, and comments are lines too."""
    path = tmp_path / f"toy.dat{ending}"
    content = f"1e300 qid:1 1:2\n# a comment\n{line}\n1 1:1\n".encode()
    pack = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress}[ending]
    path.write_bytes(pack(content))
    refused(f"toy.dat{ending}:3: .*{message}", load_svmlight, path, error=MalformedFile)


def test_very_many_features_are_asked_for(tmp_path) -> None:
    """An index that is so high is taken where the caller says so."""
    path = _write(tmp_path, "1 200000000:1\n")
    refused("toy.dat:1: index 200000000 is more than", load_svmlight, path, error=MalformedFile)
    assert load_svmlight(path, number_of_features=1 << 28).rows.indices.tolist() == [199999999]


def test_damaged_packing(tmp_path) -> None:
    """zlib has an error of its own, which is no ValueError."""
    path = tmp_path / "toy.dat.gz"
    packed = bytearray(gzip.compress(TEXT.encode()))
    packed[10:14] = b"\xff" * 4
    path.write_bytes(packed)
    with refused("toy.dat.gz: not a sound SVM-light file .*block", error=MalformedFile):
        load_svmlight(path)
