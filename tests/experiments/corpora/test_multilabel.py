"""Inputs with sets of labels: a file written here, bad ones, and the real corpora."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments.corpora.errors import CorpusMissing
from experiments.corpora.multilabel import load_label_sets
from jaxstruct.data.errors import MalformedFile
from tests.lib.refusals import refused

X, Y = np.arange(6.0, dtype=np.float32).reshape(3, 2), np.array([[0, 1], [1, 1], [0, 0]], np.int8)
ARRAYS = {"train_x": X, "train_y": Y, "test_x": X[:1], "test_y": Y[:1]}


def test_a_file_comes_back_as_it_was_written(tmp_path: Path) -> None:
    np.savez(tmp_path / "own.npz", **ARRAYS)
    found = load_label_sets("own", tmp_path / "own.npz")
    for name, leaf in found._asdict().items():
        np.testing.assert_array_equal(leaf, ARRAYS[name])
    assert found.train_y.dtype == np.int32


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_x": X[:2]}, "train_x and train_y are float32 .2, 2. and int8 .3, 2."),
        ({"test_y": Y[:1] * 1.0}, "test_x and test_y are float32"),
        ({"train_y": Y + 1}, "train_x must be finite, train_y zeros and ones"),
        ({"test_x": X[:1] * np.nan}, "test_x must be finite"),
        ({"test_x": X[:1, :1]}, "train and test differ in their features or labels"),
    ],
)
def test_bad_files(changes: dict, message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "own.npz", **ARRAYS | changes)
    refused(message, load_label_sets, "own", tmp_path / "own.npz", error=MalformedFile)


@pytest.mark.parametrize(
    ("name", "sizes"), [("scene", (1211, 294, 1196, 6)), ("yeast", (1500, 103, 917, 14))]
)
def test_the_real_corpora(name: str, sizes: tuple) -> None:
    try:
        data = load_label_sets(name)
    except CorpusMissing as missing:
        pytest.skip(str(missing))
    assert (*data.train_x.shape, *data.test_y.shape) == sizes


def test_another_name_is_refused() -> None:
    refused("name: got 'reuters', expected one of", load_label_sets, "reuters")
