"""scikit-learn's 1797 handwritten digits, split once and for all."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jaxstruct.data.optional import sklearn_datasets

TRAIN_SIZE = 1347
"""Examples of the training part; the other 450 are the test part."""


class DigitsSplit(NamedTuple):
    """8x8 grey images, row by row, and their digits.

    Fields:
      train_x, test_x: [1347, 64] and [450, 64] float32 in [0, 1].
      train_y, test_y: [1347] and [450] int32 in 0 .. 9.
    """

    train_x: np.ndarray
    train_y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray


def load_digits_split(seed: int = 0) -> DigitsSplit:
    """Returns the digits in the order RandomState(seed).permutation(1797), grey levels over 16.

    The legacy RandomState is used because its stream is frozen: the split is the same for every
    version of NumPy.

    Raises:
      ImportError: scikit-learn is not installed.
    """
    images = sklearn_datasets("load_digits_split").load_digits()
    order = np.random.RandomState(seed).permutation(len(images.target))
    x = (images.data[order] / 16.0).astype(np.float32)
    y = images.target[order].astype(np.int32)
    return DigitsSplit(x[:TRAIN_SIZE], y[:TRAIN_SIZE], x[TRAIN_SIZE:], y[TRAIN_SIZE:])
