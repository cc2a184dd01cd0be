"""Handwritten words (Kassel 1995; Taskar et al. 2003), read letter by letter by a chain.

    python -m experiments.handwriting
    python -m experiments.handwriting --x64 --tolerance=1e-7
    python -m experiments.handwriting --folds=10
    python -m experiments.handwriting --letter_data=letter.data

One fold of words trains, the rest tests. Beside its table the script writes a picture of words as
they were read, and the course of the training.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from experiments.corpora.ocr_letters import LETTERS, PIXELS
from experiments.lib import common
from experiments.lib.options import flag
from experiments.lib.plots import Plot
from experiments.lib.record import SECONDS
from experiments.lib.report import Columns, Table, rows_table, spread_text
from experiments.tasks.handwriting import (
    CAPITALS,
    KNOWN_OPTIMUM,
    ChainOptions,
    Data,
    Machine,
    Split,
    chain_problem,
    fold_splits,
    letters_of,
    load,
    measure,
    numbers_of,
    one_split,
    read_words,
    time_runs,
    train_chain,
)
from experiments.tasks.word_pictures import course_picture, picture_of
from jaxstruct import fit, predict, take
from jaxstruct.baselines.conditional_random_field import fit_random_field
from jaxstruct.baselines.perceptron import perceptron
from jaxstruct.core.contract import Problem
from jaxstruct.core.types import PyTree
from jaxstruct.multiclass.structure import multiclass
from jaxstruct.solvers.objective.formulations import FORMULATIONS

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

    row = {"machine": "letters", "c_over_n": options.c_over_n} | numbers_of(results)
    return Machine(row, read)


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
    row = {"machine": name, "c_over_n": ratio} | numbers_of([])
    row |= dict(zip(("status", "passes", "oracle_calls"), counts, strict=True))
    row["first_seconds"] = results[0][0]
    row["second_seconds"] = results[1][0] if len(results) > 1 else None
    row["compile_seconds"] = results[0][2]
    return Machine(row, lambda chosen: read_words(problem, weights, data, chosen))


ERRORS = ("train_letter_error", "train_word_error", "test_letter_error", "test_word_error")
ERROR_COLUMNS = tuple(
    (f"{part} error %", unit) for part in ("train", "test") for unit in ("letters", "words")
)


def knows_optimum(options: Any, row: Mapping[str, Any]) -> bool:
    """Whether `KNOWN_OPTIMUM` is that of this row."""
    task = (
        options.letter_data, list(options.train_folds), options.examples, options.loss,
        row["c_over_n"], row["machine"],
    )  # fmt: skip
    return task == (None, ["1"], 0, "hamming", 0.1, "svm1_margin")


def split_table(options: Any, data: Data, split: Split, rows: Sequence[Mapping[str, Any]]) -> Table:
    """What each machine made of one split."""
    columns: Columns = {
        "machine": "machine", "C'": "c_over_n", "status": "status", "passes": "passes",
        "planes added": "planes_added", "support planes": "support_planes",
        "oracle calls": "oracle_calls", ("objective", "primal P"): "primal:.5f",
        ("objective", "dual D"): "dual:.5f", ("objective", "(P - D) / P"): "relative_gap:.1e",
        **dict(zip(ERROR_COLUMNS, ERRORS, strict=True)), ("seconds", "first"): "first_seconds",
        ("seconds", "second"): "second_seconds", ("seconds", "first, compiling"): "compile_seconds",
        ("programs compiled", "first"): "compilations",
        ("programs compiled", "second"): "later_compilations",
    }  # fmt: skip
    notes = [
        f"{split.name} trains: {_size(data, split.train)}; test: {_size(data, split.test)}."
        + ("" if options.letter_data else f" {CAPITALS}"),
        *_settings(options),
    ]
    notes += [
        f"Known optimum of svm1_margin {KNOWN_OPTIMUM:.5f}; P less this: "
        f"{row['primal'] - KNOWN_OPTIMUM:+.5f}, D less this: {row['dual'] - KNOWN_OPTIMUM:+.5f}."
        for row in rows
        if knows_optimum(options, row)
    ]
    return rows_table("Handwritten words, letter by letter", columns, rows, notes)


def _size(data: Data, chosen: np.ndarray) -> str:
    return f"{len(chosen)} words, {data.lengths[chosen].sum()} letters"


def _settings(options: Any) -> list[str]:
    notes = [
        f"C' = C / n; loss {options.loss}; tolerance {options.tolerance:g}, "
        f"{'float64' if options.x64 else 'float32'}, variant {options.variant}; 'second' repeats "
        "the training without compiling."
    ]
    said = {
        "letters": "multiclass SVM on single letters, svm1 with the zero-one loss, C' a letter: "
        "the Hamming-loss svm1_margin without transitions.",
        "perceptron": f"structured perceptron, averaged, at most {EPOCHS} epochs (passes); an "
        "oracle call is a decoding.",
        "crf": "conditional random field, L-BFGS; P = 1/2 |w|^2 + C' sum_i -log p(y_i | x_i); an "
        "oracle call is a forward-backward run.",
    }
    notes += [f"{name}: {said[name]}" for name in options.baselines]
    return notes


def folds_table(options: Any, splits: Sequence[Split], rows: Mapping[str, list[dict]]) -> Table:
    """Mean and deviation over splits, one row a machine."""
    columns = ["machine", "C'", "converged", *ERROR_COLUMNS, "oracle calls", *SECONDS,
               "programs compiled"]  # fmt: skip
    body = [
        [machine, _join(found, "c_over_n"), f"{sum(map(_solved, found))}/{len(found)}",
         *(_spread(found, name) for name in ERRORS), _spread(found, "oracle_calls", 0),
         sum(row["first_seconds"] for row in found), _total(found, "compile_seconds"),
         _total(found, "compilations")]
        for machine, found in rows.items()
    ]  # fmt: skip
    notes = [
        f"Mean ± sample standard deviation over {len(splits)} splits: one fold trains, all "
        "others test. 'seconds' and 'programs compiled' are sums.",
        *_settings(options),
    ]
    return Table(f"Handwritten words, {len(splits)} folds", columns, body, notes)


def _solved(row: Mapping[str, Any]) -> bool:
    return row["status"] in ("CONVERGED", "EPSILON")


def _join(rows: Sequence[Mapping[str, Any]], name: str) -> str | None:
    values = {row[name] for row in rows} - {None}
    return ", ".join(f"{value:g}" for value in sorted(values)) or None


def _total(rows: Sequence[Mapping[str, Any]], name: str) -> float | None:
    counts = [row[name] for row in rows if row[name] is not None]
    return sum(counts) if counts else None


def _spread(rows: Sequence[Mapping[str, Any]], name: str, decimals: int = 2) -> str | None:
    return spread_text([row[name] for row in rows], decimals)


def split_plots(
    options: Any, data: Data, split: Split, machines: Sequence[Machine],
    rows: Sequence[Mapping[str, Any]],
) -> dict[str, Plot]:  # fmt: skip
    """Words as the first machine reads them, and the course of every training with a history.

    Args:
      rows: of the machines, with their errors.
    """
    plots = {}
    part, kind, chosen = (
        ("test", "test words", split.test) if len(split.test) else ("train", "words", split.train)
    )
    if options.picture_words:
        first = machines[0]
        plots["handwriting_words"] = picture_of(
            options, data, first.row["machine"], first.read, chosen, kind,
            (rows[0][f"{part}_letter_error"], rows[0][f"{part}_word_error"]),
        )  # fmt: skip
    trained = [machine.row for machine in machines if machine.row["history"] is not None]
    if trained:
        title = "Handwritten words: primal and dual while training"
        plots["handwriting_course"] = course_picture(trained, title, options.tolerance)
    return plots


class Options(ChainOptions):
    """The flags of this command."""

    letter_data: str | None = flag(
        None,
        "Words of your own: a file as letter.data of its makers, plain or .gz; default: the "
        "corpus, see third_party_data.",
    )
    train_folds: Sequence[str] = flag(("1",), "Folds to train on; the others test.", each=int)
    examples: int = flag(0, "Learn from the first so many words only; 0 for all.", least=0)
    folds: int = flag(
        0,
        "Cross-validation: each of the first so many folds trains in turn, all other words "
        "test; 10 is the protocol of Taskar et al. (2003). 0: one split, by train_folds.",
        least=0,
    )
    formulations: Sequence[str] = flag(
        ("svm1_margin",),
        f"Structural SVMs to train, some of {', '.join(FORMULATIONS)}. svm0 needs words that "
        "can be separated.",
        FORMULATIONS,
    )
    baselines: Sequence[str] = flag(
        BASELINES,
        f"Trained beside them, some of {', '.join(BASELINES)}: a multiclass SVM on single "
        "letters, the averaged perceptron and a conditional random field of the same features.",
        BASELINES,
    )
    picture_words: int = flag(24, "Words in the picture; 0: none.", least=0)


def run(options: Options) -> common.Outcome:
    """Train and test; print the table and write it.

    Raises:
      CorpusMissing: the corpus is not on this machine; the message says how to get it.
      ValueError: an option that does not fit; the message names it.
    """
    dtype = common.prepare(options)
    if not [*options.formulations, *options.baselines]:
        raise ValueError("formulations and baselines are both empty: there is nothing to train")
    data = load(options.letter_data, dtype)
    return _cross_validation(options, data) if options.folds else _one_split(options, data)


def _machines(options: Options, data: Data, split: Split, runs: int) -> Iterator[Machine]:
    """Each machine, as soon as it is trained."""
    for name in options.formulations:
        yield train_chain(options, data, split, name, runs)
    for name in options.baselines:
        yield train_baseline(options, data, split, name, runs)


def _one_split(options: Options, data: Data) -> common.Outcome:
    split = one_split(data.words, options.train_folds, options.examples)
    machines: list[Machine] = []
    rows: list[dict[str, Any]] = []
    with common.kept_if_stopped(options, {"rows": rows}):
        for machine in _machines(options, data, split, 2):
            machines.append(machine)
            rows.append(measure(machine, data, split))
    table = split_table(options, data, split, rows)
    plots = split_plots(options, data, split, machines, rows)
    numbers = {"split": split.name, "rows": rows}
    return common.save(options, table, numbers, plots)


def _cross_validation(options: Options, data: Data) -> common.Outcome:
    splits = fold_splits(data.words, options.folds)
    if options.examples:
        splits = [split._replace(train=split.train[: options.examples]) for split in splits]
    rows: dict[str, list[dict[str, Any]]] = {}
    name = "handwriting_folds"
    with common.kept_if_stopped(options, {"rows": rows}, name=name):
        for split in splits:
            for machine in _machines(options, data, split, 1):
                row = measure(machine, data, split) | {"split": split.name}
                rows.setdefault(row["machine"], []).append(row)
    table = folds_table(options, splits, rows)
    return common.save(options, table, {"rows": rows}, name=name)
