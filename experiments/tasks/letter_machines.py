"""Structural SVMs of handwritten words: trained on one split and measured.

    1/2 |w|^2 + C' sum_i xi_i,   F(x, y; w) = sum_t <u_{y^t}, x^t> + sum_t v_{y^t y^{t+1}}

over words i, x^t the raw pixels of letter t.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from experiments.corpora.ocr_letters import LETTERS, PIXELS
from experiments.lib import common, fields
from experiments.lib.options import flag
from experiments.lib.progress import training_progress
from experiments.lib.record import Stopwatch
from experiments.tasks.handwriting import Data, Split, errors, spell
from jaxstruct import Solution, fit, fit_path, predict, take
from jaxstruct.chains.losses import NAMES
from jaxstruct.chains.structure import chain
from jaxstruct.core.contract import Problem
from jaxstruct.core.types import PyTree

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
    c_path: Sequence[str] = flag(
        (),
        "Values of C' to choose from for each formulation, by letters read wrong on held-out "
        "words; empty: c_over_n as it is.",
        each=float,
        above=0,
    )
    held_out: float = flag(0.2, "Part of the training words that c_path compares on.")


class Machine(NamedTuple):
    """A trained machine.

    Fields:
      row: what was measured of its training.
      read: words (their numbers) -> the letters of each.
      weights: of the chain, for a model file; None where it is no chain.
    """

    row: dict[str, Any]
    read: Callable[[np.ndarray], list[np.ndarray]]
    weights: PyTree | None


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
    """A structural SVM, trained `runs` times from the start; the last run is measured.

    With `options.c_path` C' is the one with the fewest wrong letters on a held-out part of the
    training words, and the machine is trained anew on all of them.
    """
    problem = chain_problem(options.loss, data.dtype)
    inputs, outputs = (take(tree, split.train) for tree in (data.inputs, data.outputs))
    ratio, path = options.c_over_n, []
    if options.c_path:
        ratio, path = choose_c(options, problem, data, split, formulation)
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
    row = {"machine": formulation, "c_over_n": ratio, "c_path": path} | numbers_of(results)
    return Machine(
        row, lambda chosen: read_words(problem, solution.weights, data, chosen), solution.weights
    )


def choose_c(
    options: Any, problem: Problem, data: Data, split: Split, formulation: str
) -> tuple[float, list[dict[str, Any]]]:
    """(C', the path): `options.c_path` in rising order, each solution started from the one before.

    Held-out words have weight 0, so that the path runs in the program of the training itself. Equal
    errors: the smallest C'.

    Raises:
      ValueError: the held-out part leaves nothing to train or to compare.
    """
    total = len(split.train)
    held = np.sort(common.held_out_parts(options, total)[0])
    weights = np.ones(total)
    weights[held] = 0
    ratios = sorted(map(float, options.c_path))
    solutions = fit_path(
        problem, take(data.inputs, split.train), take(data.outputs, split.train), formulation,
        [ratio * total for ratio in ratios], tolerance=options.tolerance,
        example_weights=weights, settings=options.settings(),
    )  # fmt: skip
    path = []
    for ratio, solution in zip(ratios, solutions, strict=True):
        found = errors(
            data, split.train[held],
            read_words(problem, solution.weights, data, split.train[held]),
        )  # fmt: skip
        path.append({
            "c_over_n": ratio, "status": solution.status, "held_out_letter_error": found.letters,
            "held_out_word_error": found.words, "oracle_calls": solution.statistics.oracle_calls,
        })  # fmt: skip
    best = min(path, key=lambda point: point["held_out_letter_error"])
    return best["c_over_n"], path


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
