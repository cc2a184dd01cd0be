"""SVM-light files through scikit-learn."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from jaxstruct.data.errors import MalformedFile
from jaxstruct.data.svmlight import load_svmlight

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
    with pytest.raises(MalformedFile, match="toy.dat: not a sound SVM-light file"):
        load_svmlight(path, number_of_features=3)


def test_compressed(tmp_path) -> None:
    """As the public collections are often shipped; a cut one is an error."""
    path = tmp_path / "toy.dat.gz"
    path.write_bytes(gzip.compress(TEXT.encode()))
    assert load_svmlight(path).labels.tolist() == [1.0, -1.0, 3.0]
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(MalformedFile, match="not a sound SVM-light file"):
        load_svmlight(path)


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
    with pytest.raises(MalformedFile, match="toy.dat"):
        load_svmlight(_write(tmp_path, text))


def test_missing(tmp_path) -> None:
    """As any other file."""
    with pytest.raises(FileNotFoundError):
        load_svmlight(tmp_path / "none.dat")
