"""Handwritten words: which train and which are read, and structural SVMs of them.

    1/2 |w|^2 + C' sum_i xi_i,   F(x, y; w) = sum_t <u_{y^t}, x^t> + sum_t v_{y^t y^{t+1}}

over words i, x^t the raw pixels of letter t.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from experiments.corpora.ocr_letters import (
    LETTERS,
    PIXELS,
    OcrWords,
    load_ocr_letters,
    read_letter_data,
)
from experiments.lib import fields
from experiments.lib.options import flag
from experiments.lib.progress import training_progress
from experiments.lib.record import Stopwatch
from jaxstruct import Ragged, Solution, fit, predict, take
from jaxstruct.chains.losses import NAMES
from jaxstruct.chains.structure import ChainInput, chain, chain_inputs
from jaxstruct.core.contract import Problem
from jaxstruct.core.types import PyTree

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
    chosen = [int(name) for name in names]
    if not chosen or not set(chosen) <= set(known):
        raise ValueError(f"train_folds: got {list(names)}, expected some of the folds {known}")
    return chosen


def one_split(words: OcrWords, train_folds: Sequence[str], examples: int) -> Split:
    """The words of `train_folds` train (the first `examples` of them, 0 for all), the rest tests.

    Raises:
      ValueError: a fold that there is not.
    """
    folds = _folds(words, train_folds)
    inside = np.isin(words.folds, folds)
    train = np.flatnonzero(inside)
    name = "fold " + ", ".join(map(str, folds))
    return Split(name, train[: examples or len(train)], np.flatnonzero(~inside))


def fold_splits(words: OcrWords, count: int) -> list[Split]:
    """One split for each of the first `count` folds: it trains and all others test.

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
        inside = words.folds == fold
        splits.append(Split(f"fold {fold}", np.flatnonzero(inside), np.flatnonzero(~inside)))
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


TOLD = (
    "status", "primal", "dual", "relative_gap", "passes", "planes_added", "support_planes",
    "oracle_calls", "history", "compilations", "later_compilations", "first_seconds",
    "second_seconds", "compile_seconds",
)  # fmt: skip
"""Numbers of a training in a row; None where a machine has no such number."""

Trained = TypeVar("Trained")


class ChainOptions(fields.Training):
    """How a chain of letters is trained."""

    loss: str = flag(
        "hamming",
        "Delta of a word: the number of wrong letters, that over the length, or 0/1.",
        NAMES,
    )
    c_over_n: float = flag(0.1, "C' = C / n, n training words.", above=0)


class Machine(NamedTuple):
    """A trained machine.

    Fields:
      row: what was measured of its training.
      read: words (their numbers) -> the letters of each.
    """

    row: dict[str, Any]
    read: Callable[[np.ndarray], list[np.ndarray]]


def chain_problem(loss: str, dtype: str) -> Problem:
    """The chain of letters: no start or stop weights, S x S transitions."""
    return chain(PIXELS, len(LETTERS), loss=loss, dtype=dtype)


def read_words(
    problem: Problem, weights: PyTree, data: Data, chosen: np.ndarray
) -> list[np.ndarray]:
    """The letters that a chain reads in some words."""
    return list(predict(problem, weights, take(data.inputs, chosen)))


def measure(machine: Machine, data: Data, split: Split) -> dict[str, Any]:
    """The machine's row with its errors on the words of a split."""
    row = dict(machine.row)
    for name, chosen in (("train", split.train), ("test", split.test)):
        found = errors(data, chosen, machine.read(chosen) if len(chosen) else [])
        row |= {f"{name}_letter_error": found.letters, f"{name}_word_error": found.words}
    return row


def train_chain(options: Any, data: Data, split: Split, formulation: str, runs: int) -> Machine:
    """A structural SVM, trained `runs` times from the start; the last run is measured."""
    problem = chain_problem(options.loss, data.dtype)
    inputs, outputs = (take(tree, split.train) for tree in (data.inputs, data.outputs))
    ratio = options.c_over_n
    results = [
        time_runs(
            options, f"{formulation}, {split.name}",
            lambda update: fit(
                problem, inputs, outputs, formulation, ratio * len(outputs),
                tolerance=options.tolerance, settings=options.settings(),
                callback=update,
            ),
        )
        for _ in range(runs)
    ]  # fmt: skip
    solution = results[-1][1]
    row = {"machine": formulation, "c_over_n": ratio} | numbers_of(results)
    return Machine(row, lambda chosen: read_words(problem, solution.weights, data, chosen))


def time_runs(
    options: Any, what: str, train: Callable[[Callable], Trained]
) -> tuple[float, Trained, float]:
    """(seconds, what `train` returns, seconds of compiling), with a progress bar around it."""
    with training_progress(500, what, options.progress, options.tolerance) as update:
        watch = Stopwatch()
        result = train(update)
        return watch.elapsed().wall, result, watch.compiling().wall


def numbers_of(results: Sequence[tuple[float, Solution, float]]) -> dict[str, Any]:
    """Numbers of the runs of one training: all of the last, and what the first compiled.

    Without results the same fields with nothing in them.
    """
    if not results:
        return dict.fromkeys(TOLD)
    solution = results[-1][1]
    statistics, later = solution.statistics, len(results) > 1
    values = (
        solution.status.name, solution.primal, solution.dual,
        solution.gap / abs(solution.primal), statistics.passes, statistics.planes_added,
        statistics.support_planes, statistics.oracle_calls, statistics.history,
        results[0][1].statistics.compilations, statistics.compilations if later else None,
        results[0][0], results[1][0] if later else None, results[0][2],
    )  # fmt: skip
    return dict(zip(TOLD, values, strict=True))


def describe(
    data: Data, chosen: Sequence[int] | np.ndarray, read: Sequence[np.ndarray]
) -> list[dict]:
    """Words as texts: what is written, what was read, and which letters are wrong."""

    def text(letters: np.ndarray) -> str:
        return "".join(LETTERS[letter] for letter in letters)

    return [
        {"word": int(i), "fold": int(data.words.folds[i]), "written": text(true),
         "read": text(found), "wrong": np.flatnonzero(true != found)}
        for i, true, found in zip(chosen, spell(data, np.asarray(chosen)), read, strict=True)
    ]  # fmt: skip
