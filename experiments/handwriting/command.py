"""Handwritten words (Kassel 1995; Taskar et al. 2003), read letter by letter by a chain.

    python -m experiments.handwriting
    python -m experiments.handwriting --x64 --tolerance=1e-7
    python -m experiments.handwriting --folds=10
    python -m experiments.handwriting --c_path=0.01,0.03,0.1,0.3 --formulations=svm1_slack,svm2
    python -m experiments.handwriting --letter_data=letter.data --model=model.npz
    python -m experiments.handwriting --letter_data=new.data --model=model.npz --predict_only

One fold of words trains, the rest tests. Beside its table the script writes a picture of words as
they were read, and the course of the training.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.handwriting.baselines import BASELINES, EPOCHS, train_baseline
from experiments.lib import common
from experiments.lib.options import flag
from experiments.lib.plots import Plot
from experiments.lib.record import SECONDS
from experiments.lib.report import Columns, Table, rows_table, spread_text
from experiments.tasks.handwriting import (
    CAPITALS,
    KNOWN_OPTIMUM,
    Data,
    Split,
    errors,
    fold_splits,
    load,
    one_split,
)
from experiments.tasks.letter_machines import (
    ChainOptions,
    Machine,
    chain_problem,
    describe,
    measure,
    read_words,
    train_chain,
)
from experiments.tasks.word_pictures import course_picture, picture_of
from jaxstruct.solvers.checkpoints.run_state import load_weights, save_weights
from jaxstruct.solvers.objective.formulations import FORMULATIONS

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
    if options.c_path:
        path = ", ".join(options.c_path)
        notes.append(
            f"C' of a formulation is that of {path} with the fewest wrong letters on "
            f"{100 * options.held_out:g} % of the training words, held out."
        )
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
    way = "all folds but one train, that one tests" if options.reverse else (
        "one fold trains, all others test"
    )  # fmt: skip
    notes = [
        f"Mean ± sample standard deviation over {len(splits)} splits: {way}. 'seconds' and "
        "'programs compiled' are sums.",
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
    model: str | None = flag(
        None,
        "File for the weights (.npz): of the first formulation, written; read with predict_only.",
    )
    predict_only: bool = flag(
        False, "Train nothing: read all words with --model and write what was read."
    )
    train_folds: Sequence[str] = flag(("1",), "Folds to train on; the others test.", each=int)
    examples: int = flag(0, "Learn from the first so many words only; 0 for all.", least=0)
    folds: int = flag(
        0,
        "Cross-validation: each of the first so many folds trains in turn, all other words "
        "test; 10 is the protocol of Taskar et al. (2003). 0: one split, by train_folds.",
        least=0,
    )
    reverse: bool = flag(False, "With folds: one fold tests, all others train.")
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
    """Train and test, or read only; print the table and write it.

    Raises:
      CorpusMissing: the corpus is not on this machine; the message says how to get it.
      ValueError: an option that does not fit; the message names it.
    """
    dtype = common.prepare(options)
    _check(options)
    if options.model and not options.predict_only:
        common.check_folder("model", Path(options.model).parent)
    data = load(options.letter_data, dtype)
    if options.predict_only:
        return _read_only(options, data)
    return _cross_validation(options, data) if options.folds else _one_split(options, data)


def _check(options: Options) -> None:
    if not options.predict_only and not [*options.formulations, *options.baselines]:
        raise ValueError("formulations and baselines are both empty: there is nothing to train")
    if options.predict_only and not options.model:
        raise ValueError("predict_only needs --model, a file that this script wrote")
    if options.model and not options.predict_only and (options.folds or not options.formulations):
        raise ValueError("model is written of one split's first formulation: drop --folds")


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
            if options.model and not machines:
                save_weights(options.model, machine.weights)
            machines.append(machine)
            rows.append(measure(machine, data, split))
    table = split_table(options, data, split, rows)
    plots = split_plots(options, data, split, machines, rows)
    numbers = {"split": split.name, "rows": rows}
    return common.save(options, table, numbers, plots)


def _cross_validation(options: Options, data: Data) -> common.Outcome:
    splits = fold_splits(data.words, options.folds, options.reverse)
    if options.examples:
        splits = [split._replace(train=split.train[: options.examples]) for split in splits]
    rows: dict[str, list[dict[str, Any]]] = {}
    name = f"handwriting_folds{'_reverse' if options.reverse else ''}"
    with common.kept_if_stopped(options, {"rows": rows}, name=name):
        for split in splits:
            for machine in _machines(options, data, split, 1):
                row = measure(machine, data, split) | {"split": split.name}
                rows.setdefault(row["machine"], []).append(row)
    table = folds_table(options, splits, rows)
    return common.save(options, table, {"rows": rows}, name=name)


def _read_only(options: Options, data: Data) -> common.Outcome:
    problem = chain_problem(options.loss, data.dtype)
    assert options.model is not None, "_check has looked"
    weights = load_weights(options.model, problem)
    every = np.arange(len(data.lengths))

    def read(chosen: np.ndarray) -> list[np.ndarray]:
        return read_words(problem, weights, data, chosen)

    start = time.perf_counter()
    found = read(every)
    seconds = time.perf_counter() - start
    wrong = errors(data, every, found)
    columns = ["words", "letters", ("error %", "letters"), ("error %", "words"), "seconds"]
    body = [[len(every), int(data.lengths.sum()), wrong.letters, wrong.words, seconds]]
    notes = [f"Read by {options.model}; errors against the letters of the file."]
    table = Table("Handwritten words, read by a trained model", columns, body, notes)
    plots = {}
    if options.picture_words:
        plots["handwriting_read_words"] = picture_of(
            options, data, "the model", read, every, "words", (wrong.letters, wrong.words)
        )
    numbers: dict[str, Any] = {"words": describe(data, every, found)}
    return common.save(options, table, numbers, plots, name="handwriting_read")
