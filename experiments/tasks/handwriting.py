"""Handwritten words: which train, and which are read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments.corpora.ocr_letters import OcrWords, load_ocr_letters, read_letter_data
from jaxstruct import Ragged
from jaxstruct.chains.structure import ChainInput, chain_inputs

KNOWN_OPTIMUM = 246.17406
"""Of svm1_margin with the Hamming loss, C' = 0.1, fold 1 of the registered corpus; to 1e-5.

Certified by `--x64 --tolerance=1e-8`; a C solver of the same objective, its weights put into it in
float64, came to 246.17426.
"""

CAPITALS = "The data lack the first letter of each word, a capital."


class Data(NamedTuple):
    """All words.

    Fields:
      words: n words. lengths: [n] letters of each.
      inputs, outputs: of the chain structure, stores of all words.
      dtype: of the pixels, as a machine reads them.
    """

    words: OcrWords
    lengths: np.ndarray
    inputs: ChainInput
    outputs: Ragged
    dtype: str


class Split(NamedTuple):
    """Numbers of words; `name` says which folds train."""

    name: str
    train: np.ndarray
    test: np.ndarray


def load(letter_data: str | None, dtype: str) -> Data:
    """The words of a file as letter.data, or of the registered corpus.

    Raises:
      CorpusMissing: the corpus is not on this machine; the message says how to get it.
      MalformedFile: the file is no letter.data; the message names the line.
      FileNotFoundError: there is no such file.
    """
    words = read_letter_data(Path(letter_data)) if letter_data else load_ocr_letters()
    inputs = chain_inputs(Ragged(words.pixels.astype(dtype), words.offsets))
    outputs = Ragged(words.letters, words.offsets, -1)
    return Data(words, outputs.lengths, inputs, outputs, dtype)


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
