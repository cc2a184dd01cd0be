"""Digits: processor seconds to a primal suboptimality, beside liblinear, in one run.

    python -m experiments.digits_speed

SVM1 with the zero-one loss, no bias; suboptimality is J / J* - 1, J* the certified optimum.
jaxstruct is timed after compiling; the first run, with compiling, has a row of its own. For one
core, pin the process (on Linux: taskset -c 0).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from experiments.lib import common, fields
from experiments.lib.options import flag
from experiments.lib.peers import DIGITS_OPTIMA, objective
from experiments.lib.report import rows_table
from jaxstruct import fit
from jaxstruct.data.digits import DigitsSplit, load_digits_split
from jaxstruct.multiclass.structure import multiclass
from jaxstruct.solvers.loop.host_loop import Progress

LEVELS = (1e-2, 1e-3)
COLUMNS = {
    "machine": "machine", "C'": "c_over_n",
    ("processor seconds to", "1e-2"): lambda row: row["seconds"][LEVELS[0]],
    ("processor seconds to", "1e-3"): lambda row: row["seconds"][LEVELS[1]],
    ("whole run", "processor s"): "cpu", ("whole run", "wall s"): "wall",
}  # fmt: skip
SVC_TOLERANCES = (1.0, 0.5, 0.3, 0.2, 0.1, 0.05, 0.03, 0.02, 0.01, 0.005)


class Options(fields.Solver):
    """The flags of this command."""

    c_over_n: Sequence[str] = flag(
        ("0.1", "1"), "Values of C' = C / n: 0.1, 1 or both.", ["0.1", "1"], some=True
    )
    repeats: int = flag(5, "Timed runs of each machine; median shown.", least=1)
    compilation_cache: bool = False


def run(options: Options) -> common.Outcome:
    """Time both machines, print the table and write it."""
    dtype = common.prepare(options)
    data = load_digits_split(0)
    rows = common.finished_rows(options, _measure(options, data, dtype))
    notes = [
        f"Median of {options.repeats} runs; the row with compiling is a single run. jaxstruct: "
        f"processor seconds until the first pass whose primal is that close, {dtype}; liblinear: "
        "its quickest tolerance whose result is that close (scikit-learn's Crammer-Singer)."
    ]
    table = rows_table("Digits: time to primal suboptimality", COLUMNS, rows, notes)
    return common.save(options, table, {"rows": rows})


def _measure(options: Options, data: DigitsSplit, dtype: str) -> Iterator[list[common.Row]]:
    for ratio in map(float, options.c_over_n):
        yield _jaxstruct(options, data, ratio, dtype)
        yield [_liblinear(options, data, ratio)]


def _one_fit(options: Options, data: DigitsSplit, ratio: float, dtype: str) -> dict[str, Any]:
    optimum, seconds = DIGITS_OPTIMA[ratio], dict.fromkeys(LEVELS, float("nan"))
    problem = multiclass(data.train_x.shape[1], 10, dtype=dtype)

    def reached(progress: Progress) -> None:
        for level in LEVELS:
            if np.isnan(seconds[level]) and progress.primal <= optimum * (1 + level):
                seconds[level] = time.process_time() - start

    start, wall = time.process_time(), time.perf_counter()
    fit(
        problem, data.train_x, data.train_y, "svm1", ratio * len(data.train_y), tolerance=1e-3,
        settings=options.settings(), callback=reached,
    )  # fmt: skip
    cpu, wall = time.process_time() - start, time.perf_counter() - wall
    return {"c_over_n": ratio, "seconds": seconds, "cpu": cpu, "wall": wall}


def _jaxstruct(
    options: Options, data: DigitsSplit, ratio: float, dtype: str
) -> list[dict[str, Any]]:
    first = _one_fit(options, data, ratio, dtype) | {"machine": "jaxstruct, with compiling"}
    runs = [_one_fit(options, data, ratio, dtype) for _ in range(options.repeats)]
    return [first, _median(runs) | {"machine": "jaxstruct", "c_over_n": ratio}]


def _median(runs: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "seconds": {x: float(np.median([run["seconds"][x] for run in runs])) for x in LEVELS},
        "cpu": float(np.median([run["cpu"] for run in runs])),
        "wall": float(np.median([run["wall"] for run in runs])),
    }


def _liblinear(options: Options, data: DigitsSplit, ratio: float) -> dict[str, Any]:
    from sklearn.svm import LinearSVC

    x, best = data.train_x.astype(np.float64), []
    for tolerance in SVC_TOLERANCES:
        runs = []
        for _ in range(options.repeats):
            machine = LinearSVC(
                multi_class="crammer_singer", fit_intercept=False, C=ratio, tol=tolerance,
                max_iter=100_000, random_state=options.seed,
            )  # fmt: skip
            start, wall = time.process_time(), time.perf_counter()
            machine.fit(x, data.train_y)
            runs.append((time.process_time() - start, time.perf_counter() - wall))
        value = objective(machine.coef_.T.astype(np.float64), x, data.train_y, ratio)
        best.append((value / DIGITS_OPTIMA[ratio] - 1, *np.median(runs, axis=0)))
    quickest = {
        level: min((cpu for gap, cpu, _ in best if gap <= level), default=float("nan"))
        for level in LEVELS
    }
    last = next((row for row in best if row[0] <= LEVELS[-1]), best[-1])
    return {"machine": "liblinear", "c_over_n": ratio, "seconds": quickest, "cpu": last[1],
            "wall": last[2]}  # fmt: skip
