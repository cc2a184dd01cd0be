"""The tables and pictures of `experiments.handwriting`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments.handwriting.baselines import EPOCHS
from experiments.handwriting.data import Data, Split
from experiments.handwriting.machines import Machine, describe
from experiments.handwriting.pictures import course_picture, word_picture
from experiments.lib.plots import Plot
from experiments.lib.record import SECONDS
from experiments.lib.report import Table
from jaxstruct.evaluation.metrics import mean_and_deviation

ERRORS = ("train_letter_error", "train_word_error", "test_letter_error", "test_word_error")
ERROR_COLUMNS = tuple(
    (f"{part} error %", unit) for part in ("train", "test") for unit in ("letters", "words")
)
KNOWN_OPTIMUM = 246.17406
"""Of svm1_margin with the Hamming loss, C' = 0.1, fold 1 of the registered corpus; to 1e-5.

Certified by `--x64 --tolerance=1e-8`; a C solver of the same objective, its weights put into it in
float64, came to 246.17426.
"""

CAPITALS = "The data lack the first letter of each word, a capital."


def knows_optimum(options: Any, row: Mapping[str, Any]) -> bool:
    """Whether `KNOWN_OPTIMUM` is that of this row."""
    task = (
        options.letter_data, list(options.train_folds), options.examples, options.loss,
        row["c_over_n"], row["machine"],
    )  # fmt: skip
    return task == (None, ["1"], 0, "hamming", 0.1, "svm1_margin")


def split_table(options: Any, data: Data, split: Split, rows: Sequence[Mapping[str, Any]]) -> Table:
    """What each machine made of one split."""
    columns = [
        "machine", "C'", "status", "passes", "planes added", "support planes", "oracle calls",
        ("objective", "primal P"), ("objective", "dual D"), ("objective", "(P - D) / P"),
        *ERROR_COLUMNS, ("seconds", "first"), ("seconds", "second"),
        ("seconds", "first, compiling"),
        ("programs compiled", "first"), ("programs compiled", "second"),
    ]  # fmt: skip
    body = [
        [row["machine"], row["c_over_n"], row["status"], row["passes"], row["planes_added"],
         row["support_planes"], row["oracle_calls"], _objective(row["primal"]),
         _objective(row["dual"]), _power(row["relative_gap"]), *(row[name] for name in ERRORS),
         row["first_seconds"], row["second_seconds"], row["compile_seconds"], row["compilations"],
         row["later_compilations"]]
        for row in rows
    ]  # fmt: skip
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
    return Table("Handwritten words, letter by letter", columns, body, notes)


def _objective(value: float | None) -> str | None:
    return None if value is None else f"{value:.5f}"


def _power(value: float | None) -> str | None:
    return None if value is None else f"{value:.1e}"


def _size(data: Data, chosen: np.ndarray) -> str:
    return f"{len(chosen)} words, {data.lengths[chosen].sum()} letters"


def _settings(options: Any) -> list[str]:
    notes = [
        f"C' = C / n; loss {options.loss}; tolerance {options.tolerance:g}, "
        f"{'float64' if options.x64 else 'float32'}, variant {options.variant}; 'second' repeats "
        "the training without compiling.",
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
    values = [row[name] for row in rows]
    if any(value is None for value in values):
        return None
    mean, deviation = mean_and_deviation(values)
    return f"{mean:.{decimals}f} ± {deviation:.{decimals}f}"


def picture_of(
    options: Any, data: Data, name: str, read: Any, chosen: np.ndarray, kind: str,
    wrong: tuple[float, float],
) -> Plot:  # fmt: skip
    """`options.picture_words` random words of those `chosen`, as `read` reads them.

    Args:
      name: of who reads. kind: of words, for the title.
      wrong: letters and words of all that are chosen, in %; the few drawn say little.
    """
    order = np.random.default_rng(options.seed).permutation(chosen)
    sample = np.sort(order[: options.picture_words])
    found = read(sample)
    title = (
        f"{len(sample)} of {len(chosen)} {kind} at random, read by {name};\nof all of them "
        f"{100 - wrong[0]:.1f} % of the letters and {100 - wrong[1]:.1f} % of the words right"
    )
    remark = "" if options.letter_data else CAPITALS
    return word_picture(data, describe(data, sample, found), title, remark)


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
