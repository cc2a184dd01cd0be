"""Snakes: a file written here, bad ones, and the real corpus."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments.corpora.errors import CorpusMissing
from experiments.corpora.snakes import load_snakes
from jaxstruct.data.errors import MalformedFile
from tests.lib.refusals import refused

SHAPES = np.array([[2, 3], [1, 4]])


def _arrays(**changes: np.ndarray) -> dict[str, np.ndarray]:
    rng, found = np.random.default_rng(0), {}
    for part in ("train", "test"):
        found[f"{part}_shapes"] = SHAPES
        found[f"{part}_pixels"] = rng.integers(0, 256, (10, 3)).astype(np.uint8)
        found[f"{part}_labels"] = rng.integers(0, 11, 10).astype(np.int8)
    return found | changes


def test_a_file_comes_back_as_it_was_written(tmp_path: Path) -> None:
    arrays = _arrays()
    np.savez(tmp_path / "own.npz", **arrays)
    train, test = load_snakes(tmp_path / "own.npz")
    np.testing.assert_array_equal(train.pixels, arrays["train_pixels"])
    np.testing.assert_array_equal(test.labels, arrays["test_labels"])
    assert test.labels.dtype == np.int32 and train.offsets.tolist() == [0, 6, 10]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_shapes": SHAPES[:, :1]}, "train_shapes is int64 .2, 1., expected integers"),
        ({"train_shapes": SHAPES * 1.0}, "train_shapes is float64"),
        ({"test_shapes": SHAPES - 1}, "test_shapes must be heights and widths of at least 1"),
        ({"test_pixels": np.zeros((9, 3), np.uint8)}, r"expected uint8 \[10, 3\] and integers"),
        ({"train_pixels": np.zeros((10, 3))}, "train_pixels and train_labels are float64"),
        ({"train_labels": np.full(10, 11)}, r"train_labels must lie in 0..10"),
    ],
)
def test_bad_files(changes: dict, message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "own.npz", **_arrays(**changes))
    refused(message, load_snakes, tmp_path / "own.npz", error=MalformedFile)


def test_the_real_corpus() -> None:
    try:
        train, test = load_snakes()
    except CorpusMissing as missing:
        pytest.skip(str(missing))
    assert (len(train.shapes), len(test.shapes)) == (200, 100)
    assert (len(train.labels), len(test.labels)) == (7566, 3750)
    for part in (train, test):  # every grid has one snake of ten cells
        cells = np.split(part.labels, part.offsets[1:-1])
        assert all(sorted(own[own > 0]) == list(range(1, 11)) for own in cells)
    assert len(np.unique(train.pixels, axis=0)) == 5
