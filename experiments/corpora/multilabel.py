"""Inputs with sets of labels: scenes (6 labels) and yeast genes (14), as Mulan collects them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments.corpora.archives import read_npz
from experiments.corpora.locate import find_file
from jaxstruct.data.errors import MalformedFile

NAMES = ("scene", "yeast")
"""scene: Boutell et al. 2004, 294 colour features; yeast: Elisseeff and Weston 2002, 103."""

_KEYS = ("train_x", "train_y", "test_x", "test_y")


class LabelSets(NamedTuple):
    """A part to learn from and one to test.

    Fields:
      train_x, test_x: [n, d] float32.
      train_y, test_y: [n, L] int32, 1 for the labels of the set.
    """

    train_x: np.ndarray
    train_y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray


def load_label_sets(name: str, path: Path | None = None) -> LabelSets:
    """The packed corpus of this name. Nothing in the file is unpickled.

    Args:
      name: one of `NAMES`; not read where there is a path.
      path: an .npz file of this form (not checked by checksum), or None for the registered one.

    Raises:
      CorpusMissing, ChecksumMismatch: see `locate.find_file`.
      FileNotFoundError: no such file.
      MalformedFile: damaged, an array missing or of another type, or arrays that do not fit.
      ValueError: there is no corpus of this name.
    """
    if path is None and name not in NAMES:
        raise ValueError(f"name: got {name!r}, expected one of {NAMES}")
    path = Path(path) if path else find_file("multilabel", f"{name}.npz")
    train_x, train_y, test_x, test_y = read_npz(path, _KEYS)
    for part, x, y in (("train", train_x, train_y), ("test", test_x, test_y)):
        fits = x.ndim == y.ndim == 2 and len(x) == len(y) and len(x)
        if not fits or x.dtype.kind != "f" or y.dtype.kind not in "iu":
            raise MalformedFile(
                f"{path}: {part}_x and {part}_y are {x.dtype} {x.shape} and {y.dtype} {y.shape}, "
                "expected floats [n, d] and integers [n, L]"
            )
        if not np.isfinite(x).all() or not np.isin(y, (0, 1)).all():
            raise MalformedFile(f"{path}: {part}_x must be finite, {part}_y zeros and ones")
    if train_x.shape[1] != test_x.shape[1] or train_y.shape[1] != test_y.shape[1]:
        raise MalformedFile(
            f"{path}: train and test differ in their features or labels: {train_x.shape}, "
            f"{test_x.shape}, {train_y.shape}, {test_y.shape}"
        )
    x = (leaf.astype(np.float32) for leaf in (train_x, test_x))
    y = (leaf.astype(np.int32) for leaf in (train_y, test_y))
    (train_x, test_x), (train_y, test_y) = x, y
    return LabelSets(train_x, train_y, test_x, test_y)
