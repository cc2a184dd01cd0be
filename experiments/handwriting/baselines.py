"""What `experiments.handwriting` compares the structural SVM with; see `BASELINES`."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.corpora.ocr_letters import LETTERS, PIXELS
from experiments.tasks.handwriting import Data, Split, letters_of
from experiments.tasks.letter_machines import (
    Machine,
    chain_problem,
    numbers_of,
    read_words,
    time_runs,
)
from jaxstruct import fit, predict, take
from jaxstruct.baselines.conditional_random_field import fit_random_field
from jaxstruct.baselines.perceptron import perceptron
from jaxstruct.core.contract import Problem
from jaxstruct.core.types import PyTree
from jaxstruct.multiclass.structure import multiclass

BASELINES = ("letters", "perceptron", "crf")
"""A multiclass SVM on single letters (the chain without transitions), the averaged perceptron of
the chain, and its conditional random field."""

LETTER_ROWS = 1024
"""Training sets of single letters are filled up to a multiple of this, to share programs."""

FIELD_TOLERANCE = 1e-3
"""Of the random field's gradient, relative to max(1, |w|)."""

EPOCHS = 20
"""Epochs of the perceptron."""


def train_baseline(options: Any, data: Data, split: Split, name: str, runs: int) -> Machine:
    """One of `BASELINES`, trained `runs` times; the last is measured."""
    train = {"letters": _train_letters, "perceptron": _train_perceptron, "crf": _train_field}[name]
    return train(options, data, split, runs)


def _train_letters(options: Any, data: Data, split: Split, runs: int) -> Machine:
    """svm1 with the zero-one loss on letters, each of the weight of a word's position."""
    problem = multiclass(PIXELS, len(LETTERS), dtype=data.dtype)
    places = letters_of(data, split.train)
    filled = np.resize(places, -(-len(places) // LETTER_ROWS) * LETTER_ROWS)
    weights = (np.arange(len(filled)) < len(places)).astype(np.float64)
    pixels = data.words.pixels.astype(data.dtype)
    settings = options.settings()._replace(working_sets="enumerated")
    results = [
        time_runs(
            options, f"letters, {split.name}",
            lambda update: fit(
                problem, pixels[filled], data.words.letters[filled], "svm1",
                options.c_over_n * len(filled), tolerance=options.tolerance,
                example_weights=weights, settings=settings, callback=update,
            ),
        )
        for _ in range(runs)
    ]  # fmt: skip

    def read(chosen: np.ndarray) -> list[np.ndarray]:
        flat = predict(problem, results[-1][1].weights, pixels[letters_of(data, chosen)])
        return np.split(np.asarray(flat), np.cumsum(data.lengths[chosen])[:-1])

    row = {"machine": "letters", "c_over_n": options.c_over_n, "c_path": []} | numbers_of(results)
    return Machine(row, read, None)


def _train_perceptron(options: Any, data: Data, split: Split, runs: int) -> Machine:
    """The averaged perceptron of the same features, without any constant to choose but `EPOCHS`."""
    problem = chain_problem(options.loss, data.dtype)
    examples = take(data.inputs, split.train), take(data.outputs, split.train)
    results = [
        time_runs(
            options, f"perceptron, {split.name}",
            lambda update: perceptron(
                problem, *examples, max_epochs=EPOCHS, seed=options.seed
            ),
        )
        for _ in range(runs)
    ]  # fmt: skip
    found = results[-1][1]
    epochs = len(found.mistakes)
    counts = (found.status.name, epochs, epochs * len(split.train))
    return _untold("perceptron", None, counts, results, problem, found.averaged, data)


def _train_field(options: Any, data: Data, split: Split, runs: int) -> Machine:
    """The conditional random field of the same features, L-BFGS."""
    problem = chain_problem(options.loss, data.dtype)
    examples = take(data.inputs, split.train), take(data.outputs, split.train)
    results = [
        time_runs(
            options, f"random field, {split.name}",
            lambda update: fit_random_field(
                problem, *examples, options.c_over_n * len(split.train),
                tolerance=FIELD_TOLERANCE,
            ),
        )
        for _ in range(runs)
    ]  # fmt: skip
    found = results[-1][1]
    counts = (found.status.name, found.iterations, found.evaluations * len(split.train))
    machine = _untold("crf", options.c_over_n, counts, results, problem, found.weights, data)
    machine.row["primal"] = found.objective
    return machine


def _untold(
    name: str,
    ratio: float | None,
    counts: tuple[str, int, int],
    results: list,
    problem: Problem,
    weights: PyTree,
    data: Data,
) -> Machine:
    """A machine of the chain without a dual; counts are its status, passes and oracle calls."""
    row = {"machine": name, "c_over_n": ratio, "c_path": []} | numbers_of([])
    row |= dict(zip(("status", "passes", "oracle_calls"), counts, strict=True))
    row["first_seconds"] = results[0][0]
    row["second_seconds"] = results[1][0] if len(results) > 1 else None
    row["compile_seconds"] = results[0][2]
    return Machine(row, lambda chosen: read_words(problem, weights, data, chosen), weights)
