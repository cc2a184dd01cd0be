"""A path of C: warm starts beside cold ones, as a grid search would call them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import jax

from experiments.lib.plots import Plot, curve_lines
from experiments.lib.report import Columns, Table, rows_table
from experiments.tasks.benchmarks import TASKS, Training
from jaxstruct import Solution, fit


def path_rows(name: str, size: int, values: Sequence[float], tolerance: float) -> Iterator[dict]:
    """One row a value of C / n: rounds and processor seconds, cold and started from the one before.

    Programs are compiled before the clock starts.

    Args:
      name: of a task. size: how many examples, 0 as the task is. values: C / n, rising.
    """
    training = TASKS[name].prepare(size or TASKS[name].size, "float32")
    _solve(training, values[0], tolerance, None)
    before = None
    for value in values:
        cold, cold_seconds = _solve(training, value, tolerance, None)
        warm, warm_seconds = _solve(training, value, tolerance, before)
        before = warm
        yield {
            "task": name, "n": training.n, "tolerance": tolerance, "C_over_n": value,
            "cold_rounds": cold.statistics.passes, "cold_seconds": cold_seconds,
            "warm_rounds": warm.statistics.passes, "warm_seconds": warm_seconds,
            "cold_primal": cold.primal, "warm_primal": warm.primal, "dual": warm.dual,
            "solved": cold.status.solved and warm.status.solved,
        }  # fmt: skip


def _solve(
    training: Training, value: float, tolerance: float, start: Solution | None
) -> tuple[Solution, float]:
    clock = time.process_time()
    solution = fit(
        training.problem, training.inputs, training.outputs, "svm1_margin", value * training.n,
        tolerance=tolerance, start=start,
    )  # fmt: skip
    jax.block_until_ready(solution.weights)
    return solution, time.process_time() - clock


_COUNTED = ("cold_rounds", "cold_seconds", "warm_rounds", "warm_seconds")


def path_table(rows: Sequence[dict[str, Any]]) -> Table:
    """A row a value of C, and the sums of every task."""
    columns: Columns = {
        "task": "task", "n": "n", "gap": "tolerance:g", "C/n": "C_over_n",
        ("cold", "rounds"): "cold_rounds",
        ("cold", "s"): "cold_seconds", ("from the one before", "rounds"): "warm_rounds",
        ("from the one before", "s"): "warm_seconds", "solved": "solved",
    }  # fmt: skip
    shown = list(rows)
    for name in dict.fromkeys(row["task"] for row in rows):
        own = [row for row in rows if row["task"] == name]
        sums = {key: sum(row[key] for row in own) for key in _COUNTED}
        solved = all(row["solved"] for row in own)
        shown.append(own[0] | sums | {"C_over_n": "all", "solved": solved})
    notes = [
        "svm1_margin to this relative gap, default settings, processor seconds without compiling."
    ]
    return rows_table("A path of C", columns, shown, notes)


def path_plot(rows: Sequence[dict[str, Any]]) -> Plot:
    """Rounds along the path, cold and warm."""
    curves = {}
    for name in dict.fromkeys(row["task"] for row in rows):
        own = [row for row in rows if row["task"] == name]
        for way in ("cold", "warm"):
            values = [row["C_over_n"] for row in own], [row[f"{way}_rounds"] for row in own]
            curves[f"{name}, {way}"] = values
    return curve_lines(
        curves, title="Rounds along a path of C", xlabel="C / n", ylabel="rounds", log_x=True
    )
