"""All seven formulations on scikit-learn's digits: 1347 images to learn from, 450 to test.

    python -m experiments.digits
    python -m experiments.digits --x64 --tolerance=1e-9 --formulations=svm1_margin

The loss is zero-one, for which the three SVM1 are one problem and so are the three SVM2: equal
rows check the solver. SVM0 has no C, so its rows are equal, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from experiments.lib import common, fields
from experiments.lib.options import flag
from experiments.lib.peers import DIGITS_OPTIMA
from experiments.lib.plots import Plot, bar_groups
from experiments.lib.progress import fitted
from experiments.lib.report import Columns, Table, rows_table
from jaxstruct import Solution, predict
from jaxstruct.core.contract import Problem
from jaxstruct.data.digits import DigitsSplit, load_digits_split
from jaxstruct.evaluation.metrics import accuracy
from jaxstruct.multiclass.structure import multiclass
from jaxstruct.solvers.objective.formulations import FORMULATIONS


class Options(fields.Training):
    """The flags of this command."""

    formulations: Sequence[str] = flag(
        tuple(FORMULATIONS), "Formulations to train, of the seven.", FORMULATIONS, some=True
    )
    c_over_n: Sequence[str] = flag(
        ("0.1", "1"), "Values of C' = C / n.", each=float, above=0, some=True
    )
    examples: int = flag(0, "Learn from the first so many only; 0 for all 1347.", least=0)
    working_sets: str = "grown"


def run(options: Options) -> common.Outcome:
    """Train, test, print the table and write it.

    Raises:
      ValueError: an unknown formulation, or another option that does not fit.
    """
    dtype = common.prepare(options)
    data = load_digits_split(options.seed)
    if options.examples:
        part = slice(options.examples)
        data = data._replace(train_x=data.train_x[part], train_y=data.train_y[part])
    problem = multiclass(data.train_x.shape[1], 10, dtype=dtype)
    groups = ([row] for row in _measurements(options, problem, data))
    rows = common.finished_rows(options, groups)
    table = _table(options, data, rows)
    plots = {"digits": _plot(options, len(data.test_y), rows)}
    return common.save(options, table, {"rows": rows}, plots)


def _measurements(
    options: Options, problem: Problem, data: DigitsSplit
) -> Iterator[dict[str, Any]]:
    for name in options.formulations:
        for ratio in map(float, options.c_over_n):
            given = problem, data.train_x, data.train_y
            what, C = f"{name}, C' = {ratio:g}", ratio * len(data.train_y)
            (_, first), (solution, second) = (
                fitted(options, what, given, name, C) for _ in range(2)
            )
            yield _measure(problem, data, name, ratio, solution) | {
                "first_seconds": first["seconds"], "second_seconds": second["seconds"],
                "compile_seconds": first["compile_seconds"],
            }  # fmt: skip


def _measure(
    problem: Problem, data: DigitsSplit, name: str, ratio: float, solution: Solution
) -> dict[str, Any]:
    statistics = solution.statistics
    errors = {
        part: 100 * (1 - accuracy(y, np.asarray(predict(problem, solution.weights, x))))
        for part, x, y in (
            ("train", data.train_x, data.train_y), ("test", data.test_x, data.test_y),
        )
    }  # fmt: skip
    return {
        "formulation": name, "c_over_n": ratio, "status": solution.status,
        "passes": statistics.passes, "planes_added": statistics.planes_added,
        "support_planes": statistics.support_planes, "oracle_calls": statistics.oracle_calls,
        "compilations": statistics.compilations, "history": statistics.history,
        "primal": solution.primal, "dual": solution.dual,
        "relative_gap": solution.gap / abs(solution.primal),
        "train_error": errors["train"], "test_error": errors["test"],
    }  # fmt: skip


def _known(options: Options, data: DigitsSplit, row: dict[str, Any]) -> float | None:
    whole = options.seed == 0 and len(data.train_y) == len(load_digits_split().train_y)
    return DIGITS_OPTIMA.get(row["c_over_n"]) if whole and "svm1" in row["formulation"] else None


def _table(options: Options, data: DigitsSplit, rows: list[dict[str, Any]]) -> Table:
    columns: Columns = {
        "formulation": "formulation", "C'": "c_over_n", "status": "status", "passes": "passes",
        "planes added": "planes_added", "support planes": "support_planes",
        "oracle calls": "oracle_calls", ("objective", "primal P"): "primal:.6f",
        ("objective", "dual D"): "dual:.6f", ("objective", "(P - D) / P"): "relative_gap:.1e",
        ("error %", "train"): "train_error", ("error %", "test"): "test_error",
        ("seconds", "first"): "first_seconds", ("seconds", "second"): "second_seconds",
        ("seconds", "first, compiling"): "compile_seconds",
    }  # fmt: skip
    notes = [
        f"C' = C / n, n = {len(data.train_y)}, {len(data.test_y)} test images, zero-one loss; "
        f"tolerance {options.tolerance:g}, {'float64' if options.x64 else 'float32'}, variant "
        f"{options.variant}, working sets {options.working_sets}.",
        "Re-scaling by a loss of 0 or 1 changes nothing: svm1, svm1_slack and svm1_margin are one "
        "problem with the same numbers, and so are the three svm2. svm0 has no C.",
        "Each machine is trained twice: 'first' may compile programs, which all later rows share; "
        "'second' is the training alone.",
    ]
    distances = [
        f"{row['formulation']}, C' = {row['c_over_n']:g}: {row['primal'] - optimum:+.6f}"
        for row in rows
        if (optimum := _known(options, data, row)) is not None
    ]
    if distances:
        known = ", ".join(f"{value:.7f} for C' = {c:g}" for c, value in DIGITS_OPTIMA.items())
        notes.append(f"Known optima of svm1: {known}. P less these: {'; '.join(distances)}.")
    return rows_table("Seven formulations on scikit-learn's digits", columns, rows, notes)


def _plot(options: Options, tested: int, rows: list[dict[str, Any]]) -> Plot:
    series = {
        f"C' = {ratio}": [round(r["test_error"], 2) for r in rows if r["c_over_n"] == float(ratio)]
        for ratio in options.c_over_n
    }
    names = options.formulations
    short = [name.replace("_slack", " Δs").replace("_margin", " Δm") for name in names]
    errors = {
        name: [100 * standard_error(height / 100, tested) for height in heights]
        for name, heights in series.items()
    }
    title = (
        f"Digits: error on {tested} test images, ± one standard error "
        "(Δs slack, Δm margin re-scaling)"
    )
    return bar_groups(short, series, errors, title=title, ylabel="test error, %")


def standard_error(part: float, n: int) -> float:
    """sqrt(p (1 - p) / n), of a part p of n examples."""
    return math.sqrt(part * (1 - part) / n)
