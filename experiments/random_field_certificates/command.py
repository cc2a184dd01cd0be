"""Random fields with certificates: dual ascent, L-BFGS, stochastic gradients and CRFsuite.

    taskset -c 0 python -m experiments.random_field_certificates
    python -m experiments.random_field_certificates --data=words --examples=100 --methods=dual

All minimise P = 1/2 |w|^2 + C/n sum_i -log P(y_i | x_i; w) over the same weights; D is a lower
bound of the optimum that each proves of its own end point, CRFsuite's weights included. Beside them
the structural SVM of the same chains (svm1_margin), by working sets and by stochastic subgradients.
The first run of each compiles, the second one is timed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from experiments.lib import common
from experiments.lib.plots import Plot, curve_lines
from experiments.lib.report import rows_table
from experiments.machines.stochastic_gradients import FIELD
from experiments.random_field_certificates.methods import (
    OBJECTIVES,
    TITLES,
    installed,
    measurements,
)
from experiments.random_field_certificates.tasks import TASKS, Options

NAME = "random_field_certificates"
COLUMNS: dict[str | tuple[str, str], Any] = {
    "data": "title", "C'": "c_over_n", "objective": "objective",
    "method": lambda row: TITLES[row["method"]],
    "status": "status", "passes": "passes", "P": "primal:.3f",
    "D": "dual:.3f", "(P - D) / P": "relative_gap",
    "P above the best D": "excess", ("seconds", "with compiling"): "first_seconds",
    ("seconds", "compiling"): "compile_seconds",
    ("seconds", "again"): "wall", ("seconds", "processor"): "process",
    ("seconds", "to the gap"): "reached", "test error %": "test_error",
}  # fmt: skip


def run(options: Options) -> common.Outcome:
    """Train with each method, print the table, draw the gaps and write all.

    Raises:
      CorpusMissing: a corpus is not on this machine; the message says how to get it.
      ValueError: an option that does not fit.
    """
    dtype = common.prepare(options)
    groups = (measurements(options, TASKS[name](options, dtype)) for name in options.data)
    rows = common.finished_rows(options, groups)
    for row in rows:
        best = max(
            other["dual"] for other in rows
            if (other["task"], other["objective"]) == (row["task"], row["objective"])
        )  # fmt: skip
        row["best_dual"] = best
        row["excess"] = (row["primal"] - best) / abs(best)
    table = rows_table("Random fields with certificates", COLUMNS, rows, list(_notes(options)))
    return common.save(options, table, {"rows": rows}, _pictures(options, rows))


def _notes(options: Options) -> Iterator[str]:
    yield (
        "D of dual ascent and of working sets is that of their dual "
        "variables, of the others P - 1/2 |gradient|^2, the dual value at the marginals of w (for "
        "a hinge loss a loose bound)."
    )
    yield (
        "P above the best D: relative to the largest D of any method for this objective; P is no "
        "more than that above the optimum. seconds to the gap: until (P - D) / P <= "
        f"{options.tolerance:g} by the method's own bound; stochastic gradients without the time "
        "of evaluating P, which the other columns have."
    )
    yield (
        f"passes: evaluations of P for L-BFGS, iterations for CRFsuite. Groups of {options.group} "
        f"in dual ascent; batches of {options.batch} and a first rate of {options.rate:g} in "
        "stochastic gradients. CRFsuite has only the labels that occur in training. Test errors "
        "are of letters (words) and of tokens (sentences, testb)."
    )
    if not all(map(installed, options.methods)):
        yield "python-crfsuite is not installed."


def _pictures(options: Options, rows: Sequence[dict[str, Any]]) -> dict[str, Plot]:
    """A picture for each task: P above the best D, for the trainers of the random field."""
    plots = {}
    for task in options.data:
        own = [row for row in rows if row["task"] == task and OBJECTIVES[row["method"]] == FIELD]
        curves = {}
        for row in own:
            seconds, primal, dual = np.asarray(row["curve"]).T
            curves[TITLES[row["method"]].split(",")[0]] = (seconds, (primal - dual) / primal)
            if row["method"] == "stochastic":
                best = row["best_dual"]
                curves["the same, best D"] = (seconds, (primal - best) / best)
        if curves:
            plots[f"{NAME}_{task}"] = curve_lines(
                curves, f"Random field, {own[0]['title']}: proven gap", "seconds, compiled before",
                "(P - D) / P", options.tolerance, log_x=True,
            )  # fmt: skip
    return plots
