"""Handwritten words for `experiments.handwriting`: which train, which are read, and how padded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxstruct import Buckets
from jaxstruct.chains.structure import ChainInput, chain_inputs
from jaxstruct.core.length_buckets import assign_buckets, bucket_lengths
from jaxstruct.data.length_buckets import pad_dense, pad_labels
from jaxstruct.data.ocr_letters import OcrWords, load_ocr_letters, read_letter_data


class Data(NamedTuple):
    """All words, and what they are padded to.

    Fields:
      words: n words. lengths: [n] letters of each.
      boundaries: [k] padded lengths of the buckets, the same for every training and test set, so
        that programs are shared.
      dtype: of the pixels, as a machine reads them.
    """

    words: OcrWords
    lengths: np.ndarray
    boundaries: np.ndarray
    dtype: str


class Split(NamedTuple):
    """Numbers of words; `name` says which folds train."""

    name: str
    train: np.ndarray
    test: np.ndarray


class Examples(NamedTuple):
    """A training set in buckets, filled up with words of weight 0.

    Fields:
      inputs, outputs: of the chain structure.
      chosen: [N] the words, those of the training set first.
      weights: [N] 1 for a word of the training set, 0 for one that only fills a bucket up.
    """

    inputs: Buckets
    outputs: Buckets
    chosen: np.ndarray
    weights: np.ndarray


def load(letter_data: str | None, buckets: int, dtype: str) -> Data:
    """The words of a file as letter.data, or of the registered corpus, in so many buckets.

    Raises:
      CorpusMissing: the corpus is not on this machine; the message says how to get it.
      MalformedFile: the file is no letter.data; the message names the line.
      ValueError: `buckets` is not positive.
      FileNotFoundError: there is no such file.
    """
    words = read_letter_data(Path(letter_data)) if letter_data else load_ocr_letters()
    lengths = np.diff(words.offsets)
    return Data(words, lengths, bucket_lengths(lengths, buckets), dtype)


def _folds(words: OcrWords, names: Sequence[str]) -> list[int]:
    known = np.unique(words.folds).tolist()
    try:
        chosen = [int(name) for name in names]
    except ValueError:
        chosen = []
    if not chosen or not set(chosen) <= set(known):
        raise ValueError(f"train_folds: got {list(names)}, expected some of the folds {known}")
    return chosen


def one_split(words: OcrWords, train_folds: Sequence[str], examples: int) -> Split:
    """The words of `train_folds` train (the first `examples` of them, 0 for all), the rest tests.

    Raises:
      ValueError: a fold that there is not, or a negative number of examples.
    """
    folds = _folds(words, train_folds)
    if examples < 0:
        raise ValueError(f"examples: got {examples}, expected a number of words, or 0 for all")
    inside = np.isin(words.folds, folds)
    train = np.flatnonzero(inside)
    name = "fold " + ", ".join(map(str, folds))
    return Split(name, train[: examples or len(train)], np.flatnonzero(~inside))


def fold_splits(words: OcrWords, count: int, reverse: bool) -> list[Split]:
    """One split for each of the first `count` folds: it trains and all others test, or `reverse`.

    Raises:
      ValueError: fewer folds than that, or only one.
    """
    known = np.unique(words.folds)
    if not 1 <= count <= len(known) or len(known) < 2:
        raise ValueError(
            f"folds: got {count}, expected at most {len(known)}, the folds of these words, "
            "and at least two of them in the data"
        )
    splits = []
    for fold in known[:count]:
        inside, outside = np.flatnonzero(words.folds == fold), np.flatnonzero(words.folds != fold)
        name = f"all but fold {fold}" if reverse else f"fold {fold}"
        splits.append(Split(name, *((outside, inside) if reverse else (inside, outside))))
    return splits


def bucket_sizes(data: Data, splits: Sequence[Split]) -> np.ndarray:
    """[k] the most words that a training set of these splits has in each bucket."""
    buckets = [np.searchsorted(data.boundaries, data.lengths[split.train]) for split in splits]
    return np.max([np.bincount(each, minlength=len(data.boundaries)) for each in buckets], axis=0)


def examples_of(data: Data, train: np.ndarray, sizes: np.ndarray) -> Examples:
    """The words `train` in buckets of `sizes` [k] words each.

    A bucket with fewer words repeats its first one with weight 0, so that training sets of one
    size run in one compiled program; a bucket without any stays away.
    """
    chosen, weights, parts, filled = [train], [np.ones(len(train))], [], len(train)
    for bucket in assign_buckets(data.lengths[train], data.boundaries):
        size = sizes[np.searchsorted(data.boundaries, bucket.length)]
        extra = np.repeat(train[bucket.index[:1]], size - len(bucket.index))
        index = np.concatenate([bucket.index, filled + np.arange(len(extra))])
        parts.append((np.concatenate([train[bucket.index], extra]), bucket.length, index))
        chosen.append(extra)
        weights.append(np.zeros(len(extra)))
        filled += len(extra)
    index = tuple(part[2] for part in parts)
    inputs = tuple(_inputs(data, words, length) for words, length, _ in parts)
    outputs = tuple(
        pad_labels(data.words.letters, data.words.offsets, words, length)
        for words, length, _ in parts
    )
    return Examples(
        Buckets(inputs, index), Buckets(outputs, index), np.concatenate(chosen),
        np.concatenate(weights),
    )  # fmt: skip


def inputs_of(data: Data, chosen: np.ndarray) -> Buckets:
    """The inputs of some words in buckets, in their order."""
    buckets = assign_buckets(data.lengths[chosen], data.boundaries)
    parts = tuple(_inputs(data, chosen[bucket.index], bucket.length) for bucket in buckets)
    return Buckets(parts, tuple(bucket.index for bucket in buckets))


def _inputs(data: Data, chosen: np.ndarray, length: int) -> ChainInput:
    pixels = pad_dense(data.words.pixels, data.words.offsets, chosen, length)
    return chain_inputs(pixels.astype(data.dtype), data.lengths[chosen])


def letters_of(data: Data, chosen: np.ndarray) -> np.ndarray:
    """The positions of the letters of some words, one after the other."""
    starts = data.words.offsets[chosen]
    return np.concatenate(
        [np.arange(start, start + size) for start, size in
         zip(starts, data.lengths[chosen], strict=True)] or [np.zeros(0, np.int64)]
    )  # fmt: skip


def spell(data: Data, chosen: np.ndarray) -> list[np.ndarray]:
    """The true letters of some words."""
    letters, offsets = data.words.letters, data.words.offsets
    return [letters[offsets[i] : offsets[i + 1]] for i in chosen]


class Errors(NamedTuple):
    """Letters and words that were not read as written, in %; nan where there are no words."""

    letters: float
    words: float


def errors(data: Data, chosen: np.ndarray, read: Sequence[np.ndarray]) -> Errors:
    """How far `read`, the letters of each chosen word, is from what is written."""
    if not len(chosen):
        return Errors(float("nan"), float("nan"))
    wrong = [int(np.sum(a != b)) for a, b in zip(spell(data, chosen), read, strict=True)]
    letters = 100 * sum(wrong) / int(data.lengths[chosen].sum())
    return Errors(letters, 100 * sum(count > 0 for count in wrong) / len(wrong))
