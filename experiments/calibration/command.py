"""How often machines are right where they say how sure they are: before and after a temperature.

    python -m experiments.calibration
    python -m experiments.calibration --data=digits,digit_words --held_out=0.3

A structural SVM and a random field train on the same examples, with the same C. A temperature is
fitted to each on held-out examples. The table has, of the test examples, what is right, what was
stated, the expected calibration error and the log loss; the pictures are reliability diagrams. The
probability of a class is stated of each class, the marginal of the label read of each letter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from experiments.calibration.data import SETS, Data, Examples, load
from experiments.calibration.pictures import reliability_diagram
from experiments.lib import common, fields
from experiments.lib.options import flag
from experiments.lib.progress import training_progress
from experiments.lib.record import Stopwatch
from experiments.lib.report import Table, rows_table
from jaxstruct import Ragged, confidence, fit, predict
from jaxstruct.baselines.conditional_random_field import fit_random_field
from jaxstruct.core.types import PyTree
from jaxstruct.evaluation import expected_calibration_error, reliability

MACHINES = ("svm", "random_field")
NAMES = {"svm": "SVM", "random_field": "random field"}


class Options(NamedTuple):
    """The flags of this command."""

    data: Annotated[Sequence[str], flag("Data sets.", tuple(SETS))] = (
        "digits",
        "ocr_letters",
        "clinc150",
    )
    machines: Annotated[Sequence[str], flag("What is trained.", MACHINES)] = MACHINES
    c_over_n: Annotated[float, flag("C' = C / n.", above=0)] = 0.1
    held_out: Annotated[
        float, flag("Part of the known examples to fit the temperature on.", above=0, most=0.9)
    ] = 0.2
    examples: Annotated[int, flag("Known examples to use; 0 for all.", least=0)] = 0
    bins: Annotated[int, flag("Bins of the calibration error.", least=1)] = 15
    fewest: Annotated[int, flag("Predictions that a bin needs to be drawn.", least=1)] = 20
    tolerance: fields.Tolerance = 1e-3
    most_iterations: Annotated[int, flag("Of the random field, at most.", least=1)] = 200
    output: fields.Output = "results"
    seed: fields.Seed = 0
    x64: fields.X64 = False
    compilation_cache: fields.CompilationCache = True
    progress: fields.ShowProgress = None


def run(options: Options) -> common.Outcome:
    """Train, fit temperatures, print the table and write it with a picture for each data set.

    Raises:
      CorpusMissing: a corpus is not on this machine; the message says how to get it.
    """
    dtype = common.prepare(options)
    groups = (
        rows
        for name in options.data
        for rows in _of_data(
            options, name, load(name, options.held_out, options.examples, options.seed, dtype)
        )
    )
    rows = common.finished_rows("calibration", options, "calibration", groups)
    plots = {
        f"calibration_{name}": reliability_diagram(
            name, [row for row in rows if row["data"] == name], options.fewest
        )
        for name in options.data
    }
    table = _table(options, rows)
    return common.save("calibration", options, "calibration", table, {"rows": rows}, plots)


def _trained(options: Options, machine: str, data: Data) -> tuple[Any, float]:
    """(the solution, seconds)."""
    inputs, outputs = data.train
    C, watch = options.c_over_n * len(outputs), Stopwatch()
    if machine == "random_field":
        found = fit_random_field(
            data.problem, inputs, outputs, C,
            max_iterations=options.most_iterations,
        )  # fmt: skip
        return found, watch.elapsed(found.weights).wall
    with training_progress(500, NAMES[machine], options.progress, options.tolerance) as update:
        found = fit(
            data.problem, inputs, outputs, "svm1_margin", C,
            tolerance=options.tolerance, callback=update,
        )  # fmt: skip
    return found, watch.elapsed(found.weights).wall


def _of_data(options: Options, name: str, data: Data) -> Iterator[list[dict[str, Any]]]:
    for machine in options.machines:
        solution, seconds = _trained(options, machine, data)
        fitted = confidence.fit_temperature(data.problem, solution, *data.held_out)
        shared = {
            "data": name, "machine": NAMES[machine], "unit": data.unit, "seconds": seconds,
            "train": len(data.train.outputs), "held_out": len(data.held_out.outputs),
            "test": len(data.test.outputs), "held_out_before": fitted.log_loss_before,
            "held_out_after": fitted.log_loss, "evaluations": fitted.evaluations,
        }  # fmt: skip
        read = predict(data.problem, solution, data.test.inputs)
        yield [
            shared | {"temperature": T} | _measured(options, data, solution, read, T)
            for T in (1.0, fitted.value)
        ]


def stated(probabilities: PyTree, read: PyTree) -> np.ndarray:
    """[N] the probability of each label read: of every example, or of every position."""
    rows, labels = (
        leaf.rows if isinstance(leaf, Ragged) else leaf for leaf in (probabilities, read)
    )
    return np.asarray(rows)[np.arange(len(labels)), labels]


def _measured(
    options: Options, data: Data, solution: Any, read: PyTree, T: float
) -> dict[str, Any]:
    test: Examples = data.test
    found = confidence.marginals(data.problem, solution, test.inputs, temperature=T)
    losses = confidence.log_losses(data.problem, solution, *test, temperature=T)
    sure = stated(found.probabilities, read).astype(np.float64)
    true, own = (leaf.rows if isinstance(leaf, Ragged) else leaf for leaf in (test.outputs, read))
    right = np.asarray(own) == np.asarray(true)
    table = reliability(sure, right, options.bins)
    return {
        "accuracy": 100 * float(right.mean()), "stated": 100 * float(sure.mean()),
        "error": 100 * expected_calibration_error(sure, right, options.bins),
        "log_loss": float(np.sum(losses, dtype=np.float64)) / len(right),
        "reliability": table._asdict(),
    }  # fmt: skip


def _table(options: Options, rows: Sequence[dict[str, Any]]) -> Table:
    columns: dict[Any, Any] = {
        "data": "data", "machine": "machine", "T": lambda row: f"{row['temperature']:.3f}",
        "right %": lambda row: f"{row['accuracy']:.2f}",
        "stated %": lambda row: f"{row['stated']:.2f}",
        "ECE %": lambda row: f"{row['error']:.2f}",
        "log loss": lambda row: f"{row['log_loss']:.4f}",
    }  # fmt: skip
    counts = {row["data"]: row for row in rows}
    notes = [
        f"{name}: {row['train']} examples train, {row['held_out']} fit T, {row['test']} test; "
        f"predictions: {row['unit']}."
        for name, row in counts.items()
    ]
    notes += [
        f"C' = {options.c_over_n:g}, svm1_margin and random field alike. T = 1 takes F as it is; "
        "the other row of a machine has the T that its held-out log loss is least at.",
        f"stated: mean probability of what was read. ECE: {options.bins} bins of equal width. Log "
        "loss: -log p(y | x) of the whole output, in nats a prediction.",
    ]
    return rows_table("Calibration, before and after a temperature", columns, rows, notes)


def main(options: Options) -> None:
    """Run all."""
    run(options)
