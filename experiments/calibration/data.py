"""The data sets of `experiments.calibration`: to train on, to fit a temperature on, to test on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from experiments.taxonomy.documents import clinc150
from jaxstruct import Problem, Ragged, take
from jaxstruct.chains.structure import chain, chain_inputs
from jaxstruct.core.types import PyTree
from jaxstruct.data.digit_words import load_digit_words
from jaxstruct.data.digits import load_digits_split
from jaxstruct.data.ocr_letters import load_ocr_letters
from jaxstruct.multiclass.structure import multiclass


class Examples(NamedTuple):
    """Inputs and outputs as the problem takes them."""

    inputs: PyTree
    outputs: PyTree

    def part(self, which: np.ndarray) -> Examples:
        """The examples `which`."""
        return Examples(take(self.inputs, which), take(self.outputs, which))


class Data(NamedTuple):
    """One data set.

    Fields:
      problem: its structure.
      train, held_out, test: of each their own examples.
      unit: what predictions are of.
    """

    problem: Problem
    train: Examples
    held_out: Examples
    test: Examples
    unit: str


def _digits(dtype: str) -> tuple:
    digits = load_digits_split()
    d = digits.train_x.shape[1]
    problem = multiclass(d, 10, dtype=dtype)
    known, test = (
        Examples(x.astype(dtype), np.asarray(y, np.int32))
        for x, y in ((digits.train_x, digits.train_y), (digits.test_x, digits.test_y))
    )
    return problem, known, test, "images"


def _clinc150(dtype: str) -> tuple:
    corpus = clinc150()
    assert corpus.test is not None, "CLINC150 has a test part"
    problem = multiclass(corpus.number_of_features, len(corpus.taxonomy.classes), dtype=dtype)
    every = Examples(corpus.inputs, np.asarray(corpus.labels, np.int32))
    return problem, every.part(corpus.train), every.part(corpus.test), "queries"


def _words(pixels: np.ndarray, labels: np.ndarray, offsets: np.ndarray, dtype: str) -> Examples:
    inputs = chain_inputs(Ragged(pixels.astype(dtype), offsets))
    return Examples(inputs, Ragged(labels, offsets, -1))


def _digit_words(dtype: str) -> tuple:
    known, test = (
        _words(words.pixels, words.labels, words.offsets, dtype) for words in load_digit_words()
    )
    d = known.inputs.features.rows.shape[1]
    return chain(d, 10, dtype=dtype), known, test, "letters"


def _ocr_letters(dtype: str) -> tuple:
    """Fold 1 is known, fold 2 tests."""
    words = load_ocr_letters()
    every = _words(words.pixels, words.letters, words.offsets, dtype)
    d = every.inputs.features.rows.shape[1]
    known, test = (every.part(np.flatnonzero(words.folds == fold)) for fold in (1, 2))
    return chain(d, 26, dtype=dtype), known, test, "letters"


SETS = {
    "digits": _digits, "digit_words": _digit_words, "ocr_letters": _ocr_letters,
    "clinc150": _clinc150,
}  # fmt: skip


def load(name: str, held_out: float, examples: int, seed: int, dtype: str) -> Data:
    """A data set, its known part divided at random.

    Args:
      name: of `SETS`. held_out: the share of the known part that trains nothing.
      examples: known ones to use, 0 for all. seed: of the division. dtype: of the features.

    Raises:
      CorpusMissing: the corpus is not on this machine; the message says how to get it.
      ValueError: nothing is left to train on or to hold out.
    """
    problem, known, test, unit = SETS[name](dtype)
    n = len(known.outputs)
    order = np.random.default_rng(seed).permutation(n)[: examples or n]
    cut = round(held_out * len(order))
    if not 0 < cut < len(order):
        raise ValueError(
            f"held_out: {held_out:g} of {len(order)} examples leaves none to train on or none to "
            "hold out"
        )
    held, train = np.sort(order[:cut]), np.sort(order[cut:])
    return Data(problem, known.part(train), known.part(held), test, unit)
