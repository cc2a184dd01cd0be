"""scikit-learn's digits, their split, and words of them: the rule and the images."""

from __future__ import annotations

import sys

import numpy as np
import sklearn.datasets

from jaxstruct.data.digits import LENGTHS, NOISE, load_digit_words, load_digits_split
from jaxstruct.data.errors import sklearn_datasets
from tests.lib.refusals import refused


def test_split_is_the_permutation() -> None:
    """First 1347 to train on, 450 to test on, grey levels over 16; other seeds split otherwise."""
    split, source = load_digits_split(), sklearn.datasets.load_digits()
    order = np.random.RandomState(0).permutation(1797)
    x = np.concatenate([split.train_x, split.test_x])
    y = np.concatenate([split.train_y, split.test_y])
    assert split.train_x.shape == (1347, 64) and split.test_x.shape == (450, 64)
    np.testing.assert_array_equal(x, (source.data / 16)[order].astype(np.float32), strict=True)
    np.testing.assert_array_equal(y, source.target[order].astype(np.int32), strict=True)
    assert x.min() == 0 and x.max() == 1
    assert y[:5].tolist() == [2, 8, 2, 6, 6]  # as RandomState(0) has given them since 2005
    assert (load_digits_split(1).train_y != split.train_y).any()


def test_without_sklearn_the_extra_is_named(monkeypatch) -> None:
    """`None` in sys.modules is how Python marks a module that cannot be imported."""
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with refused(r"a thing needs scikit-learn; .*jaxstruct\[experiments\]", error=ImportError):
        sklearn_datasets("a thing")
    refused("load_digits_split needs", load_digits_split, error=ImportError)


def test_shapes() -> None:
    """Ragged words of 3 to 8 digits, of the types that the padding functions take."""
    for words, n in zip(load_digit_words(30, 7), (30, 7), strict=True):
        lengths = np.diff(words.offsets)
        assert len(lengths) == n and words.offsets[0] == 0 and set(lengths) <= set(LENGTHS)
        assert words.offsets[-1] == len(words.labels) == len(words.pixels)
        assert words.pixels.shape[1] == 64 and 0 <= words.pixels.min() <= words.pixels.max() <= 1
        dtypes = [array.dtype for array in words]
        assert dtypes == [np.float32, np.int32, np.int64]


def test_the_words_are_frozen() -> None:
    """The stream of RandomState(0); another seed gives other words."""
    train, test = load_digit_words()
    assert (len(train.labels), len(test.labels)) == (1147, 446)
    assert train.labels[:9].tolist() == [5, 3, 3, 4, 5, 8, 9, 6, 8]
    again, _ = load_digit_words()
    assert all(np.array_equal(a, b) for a, b in zip(train, again, strict=True))
    other, _ = load_digit_words(seed=1)
    assert not np.array_equal(other.labels[:100], train.labels[:100])


def test_neighbours_count_on() -> None:
    """P(y + 1 | y) = 0.82, and the rest is even; lengths and first digits are even."""
    words, _ = load_digit_words(4000, 1)
    inner = np.ones(len(words.labels), bool)
    inner[words.offsets[:-1]] = False
    steps = (words.labels[inner] - words.labels[np.flatnonzero(inner) - 1]) % 10
    shares = np.bincount(steps, minlength=10) / len(steps)
    np.testing.assert_allclose(shares, np.where(np.arange(10) == 1, 0.82, 0.02), atol=0.01)
    first = np.bincount(words.labels[words.offsets[:-1]], minlength=10) / 4000
    np.testing.assert_allclose(first, 0.1, atol=0.02)
    lengths = np.bincount(np.diff(words.offsets))[3:] / 4000
    np.testing.assert_allclose(lengths, 1 / 6, atol=0.02)


def test_images_are_of_their_digit_and_part() -> None:
    """The nearest image is of the same label and of the part's own images, each used in turn."""
    split = load_digits_split()
    parts = ((split.train_x, split.train_y), (split.test_x, split.test_y))
    for words, (images, digits) in zip(load_digit_words(), parts, strict=True):
        equal = np.stack([(images == row).sum(axis=1) for row in words.pixels])
        found = equal.argmax(axis=1)
        np.testing.assert_array_equal(digits[found], words.labels)
        assert abs(equal.max(axis=1).mean() / 64 - (1 - NOISE)) < 0.01
        for digit in range(10):
            times = np.bincount(found[words.labels == digit], minlength=len(images))
            times = times[digits == digit]
            assert times.max() - times.min() <= 1


def test_at_least_one_word() -> None:
    refused("train: got 0", load_digit_words, 0, 1)
    refused("test: got 0", load_digit_words, 1, 0)
