"""scikit-learn's 1797 handwritten digits, split once and for all, and words of them.

Words are a training set for chains that everyone has: digits strung together by a rule that a chain
can learn, the next digit is mostly the one that counts on, 3 after 2 and 0 after 9.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jaxstruct.data.errors import sklearn_datasets

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


LENGTHS = range(3, 9)
"""The lengths of words, each as likely as the others."""
STAY_IN_ORDER = 0.8
"""P(the next digit is y + 1 mod 10); otherwise it is drawn uniformly from all ten."""
NOISE = 0.3
"""The share of pixels that are replaced by a uniform grey."""


class DigitWords(NamedTuple):
    """n words, their digits one after the other.

    Fields:
      pixels: [tokens, 64] float32 in [0, 1], 8x8 grey images row by row.
      labels: [tokens] int32 in 0 .. 9.
      offsets: [n + 1] int64; word i is tokens offsets[i] .. offsets[i + 1] - 1.
    """

    pixels: np.ndarray
    labels: np.ndarray
    offsets: np.ndarray


def load_digit_words(
    train: int = 200, test: int = 80, seed: int = 0
) -> tuple[DigitWords, DigitWords]:
    """Draws words to train and to test on, which share no image.

    A word has l = 3 .. 8 digits, y^1 uniform and, for t = 1 .. l - 1,

      P(y^{t+1} = y^t + 1 mod 10 | y^t) = 0.8 + 0.02,  every other digit 0.02.

    The image of a digit is dealt from a shuffled pile of its images, without replacement; an empty
    pile is shuffled anew. Words to train on take the training part of `digits.load_digits_split`
    (1347 images), words to test on the other part (450).

    Then every pixel is replaced, with probability 0.3 and on its own, by a grey drawn uniformly
    from [0, 1]: a digit alone is hard to read, and its neighbours help.

    RandomState is used because its stream is frozen: a seed gives the same words everywhere.

    Args:
      train, test: how many words, at least 1 each.
      seed: of the words and of the piles; the split of the images does not depend on it.

    Returns:
      The words to train on and those to test on.

    Raises:
      ValueError: train or test is below 1.
      ImportError: scikit-learn is not installed.
    """
    for name, value in (("train", train), ("test", test)):
        if value < 1:
            raise ValueError(f"{name}: got {value} words, expected at least 1")
    images = load_digits_split()
    random = np.random.RandomState(seed)
    return (
        _words(random, train, images.train_x, images.train_y),
        _words(random, test, images.test_x, images.test_y),
    )


def _words(random: np.random.RandomState, n: int, x: np.ndarray, y: np.ndarray) -> DigitWords:
    words = [_word(random) for _ in range(n)]
    labels = np.concatenate(words).astype(np.int32)
    offsets = np.concatenate([[0], np.cumsum([len(word) for word in words])]).astype(np.int64)
    images = np.empty(len(labels), np.int64)
    for digit in range(10):
        places = np.flatnonzero(labels == digit)
        images[places] = _dealt(random, np.flatnonzero(y == digit), len(places))
    noisy = random.uniform(size=(len(labels), x.shape[1])) < NOISE
    greys = random.uniform(size=noisy.shape).astype(np.float32)
    return DigitWords(np.where(noisy, greys, x[images]), labels, offsets)


def _word(random: np.random.RandomState) -> list[int]:
    length = LENGTHS[random.randint(len(LENGTHS))]
    word = [random.randint(10)]
    while len(word) < length:
        follows = random.uniform() < STAY_IN_ORDER
        word.append((word[-1] + 1) % 10 if follows else random.randint(10))
    return word


def _dealt(random: np.random.RandomState, pile: np.ndarray, count: int) -> np.ndarray:
    """`count` cards of a pile that is shuffled anew each time that it is used up."""
    rounds = [random.permutation(pile) for _ in range(-(-count // len(pile)))]
    return np.concatenate([pile[:0], *rounds])[:count]
