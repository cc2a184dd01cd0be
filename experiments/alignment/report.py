"""The tables and pictures of the alignment experiment, beside the paper's figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from experiments.alignment.options import PAPER_GAP_COST, Options
from experiments.lib.plots import Plot, bar_groups, curve_lines
from experiments.lib.report import Table

PAPER_TABLE_4 = {
    1: ((20.0, 13.3), (0.0, 0.0), (74.3, 2.7), (47.0, 4.6)),
    2: ((20.0, 8.2), (0.0, 0.0), (54.5, 3.3), (34.3, 4.3)),
    4: ((10.0, 5.5), (2.0, 2.0), (28.0, 2.3), (14.4, 1.4)),
    10: ((2.0, 1.3), (0.0, 0.0), (10.2, 0.7), (7.1, 1.6)),
    20: ((2.5, 0.8), (1.0, 0.7), (3.4, 0.7), (5.2, 0.5)),
    40: ((2.0, 1.0), (1.0, 0.4), (2.3, 0.5), (3.0, 0.3)),
    80: ((2.8, 0.5), (2.0, 0.5), (1.9, 0.4), (2.8, 0.6)),
}
"""n: (mean, standard error) of train error GenMod, SVM2, test error GenMod, SVM2 (JMLR table 4)."""
UNKNOWN = (math.nan, math.nan)
BOUND = "bound of theorem 18"
"""Thousands of times as large as what is counted: it has a panel of its own."""


class Mean(NamedTuple):
    """Mean and standard error of a few samples."""

    mean: float
    error: float

    def __str__(self) -> str:
        """As in the paper."""
        return f"{self.mean:.1f} ± {self.error:.1f}"


def mean_of(values: Sequence[float]) -> Mean:
    """The mean and its standard error."""
    found = np.asarray(values, float)
    return Mean(float(found.mean()), float(found.std(ddof=1) / math.sqrt(len(found))))


def _of_part(rows: Sequence[dict[str, Any]], part: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["part"] == part]


def _sizes(rows: Sequence[dict[str, Any]]) -> list[int]:
    return sorted({row["n"] for row in rows})


def _mean(rows: Sequence[dict[str, Any]], n: int, name: str) -> Mean:
    return mean_of([row[name] for row in rows if row["n"] == n])


def _generative(rows: Sequence[dict[str, Any]], n: int, name: str, cost: float) -> Mean:
    """At one gap cost."""
    return mean_of([row[name][row["gap_costs"].index(cost)] for row in rows if row["n"] == n])


def best_gap_cost(rows: Sequence[dict[str, Any]]) -> float:
    """The one of least test error over all sizes; chosen on the test sets, as the paper did."""
    total = sum(np.asarray(row["test_errors"]) for row in rows)
    return rows[0]["gap_costs"][int(np.argmin(total))]


def distance(measured: Mean, paper: tuple[float, float]) -> float:
    """How many standard errors of the difference lie between two means."""
    error = math.hypot(measured.error, paper[1])
    return abs(measured.mean - paper[0]) / error if error else math.nan


def make_tables(options: Options, rows: Sequence[dict[str, Any]]) -> tuple[Table, list[Table]]:
    """(table 4, the tables beside it)."""
    others = [_cost_table(_of_part(rows, "generative")), _planes_table(_of_part(rows, "table"))]
    if _of_part(rows, "epsilon"):
        others.append(_epsilon_table(options, _of_part(rows, "epsilon")))
    if _of_part(rows, "reading"):
        others.append(_readings_table(options, rows))
    return _table_4(options, rows), others


def _text(figure: tuple[float, float]) -> str:
    return "-" if math.isnan(figure[0]) else f"{figure[0]:.1f} ± {figure[1]:.1f}"


def _table_4(options: Options, rows: Sequence[dict[str, Any]]) -> Table:
    svm, generative = _of_part(rows, "table"), _of_part(rows, "generative")
    best = best_gap_cost(generative)
    columns: list[Any] = ["n"]
    for part in ("train", "test"):
        columns += [(f"{part} error, paper", "GenMod"), (f"{part} error, paper", "SVM2")]
        columns += [
            (f"{part} error, measured", f"GenMod δ = {PAPER_GAP_COST:g}"),
            (f"{part} error, measured", f"GenMod δ = {best:g}"),
            (f"{part} error, measured", "SVM2"),
        ]  # fmt: skip
    columns += [("apart", "GenMod"), ("apart", "SVM2")]
    lines = []
    for n in _sizes(svm):
        paper = PAPER_TABLE_4.get(n, (UNKNOWN,) * 4)
        line: list[Any] = [n]
        for half, part in enumerate(("train", "test")):
            line += map(_text, paper[2 * half : 2 * half + 2])
            costs = PAPER_GAP_COST, best
            line += [str(_generative(generative, n, f"{part}_errors", cost)) for cost in costs]
            line.append(str(_mean(svm, n, f"{part}_error")))
        apart = (
            distance(_generative(generative, n, "test_errors", best), paper[2]),
            distance(_mean(svm, n, "test_error"), paper[3]),
        )
        lines.append([*line, *apart])
    notes = [
        f"Per cent of the examples in which a decoy is taken for the homologue, mean ± standard "
        f"error of {options.samples} samples, {options.test_examples} test examples each.",
        f"SVM2 with C' = C / n = {options.c_over_n:g}, epsilon = {options.epsilon:g}; padding "
        f"{options.padding}. GenMod: P(a) of the {options.background}; δ = {best:g} has the least "
        "test error of the gap costs tried, which the paper says of its 0.2.",
        "apart: difference of the test errors (GenMod at its best δ) in standard errors of the "
        "difference.",
        "Source: JMLR 6:1453-1484, table 4.",
    ]
    title = "Table 4: learning to align, error in finding the homologue"
    return Table(title, columns, lines, notes)


def _cost_table(rows: Sequence[dict[str, Any]]) -> Table:
    costs = rows[0]["gap_costs"]
    lines = [
        [n, *(str(_generative(rows, n, "test_errors", cost)) for cost in costs)]
        for n in _sizes(rows)
    ]
    columns = ["n", *(("test error at gap cost δ", f"{cost:g}") for cost in costs)]
    return Table("The generative model and its gap cost", columns, lines)


def _planes_table(rows: Sequence[dict[str, Any]]) -> Table:
    lines = []
    for n in _sizes(rows):
        chosen = [row for row in rows if row["n"] == n]
        planes = _mean(rows, n, "planes")
        seconds = sorted(row["seconds"] - row["compile_seconds"] for row in chosen)
        lines.append([
            n, planes.mean, planes.mean / n, _mean(rows, n, "support_planes").mean,
            _mean(rows, n, "plane_bound").mean, _mean(rows, n, "passes").mean,
            _mean(rows, n, "oracle_calls").mean, _mean(rows, n, "gap_cost").mean,
            max(row["gap"] / row["primal"] for row in chosen),
            seconds[len(seconds) // 2], seconds[-1],
            max(row["compile_seconds"] for row in chosen),
        ])  # fmt: skip
    columns = [
        "n", ("planes", "added"), ("planes", "per example"), ("planes", "support"),
        ("planes", "bound"), "passes", "oracle calls", "gap cost", "largest relative gap",
        ("seconds", "median"), ("seconds", "longest"), ("seconds", "compiling, longest"),
    ]  # fmt: skip
    notes = [
        "bound: theorem 18, (C R^2 + n) / epsilon^2 with the largest |delta Psi| met.",
        "Means of the samples. Median and longest seconds are without compiling.",
    ]
    return Table("Figure 2, left: cutting planes and training sets", columns, lines, notes)


def _epsilons(rows: Sequence[dict[str, Any]]) -> list[float]:
    return sorted({row["epsilon"] for row in rows}, reverse=True)


def _at_epsilon(rows: Sequence[dict[str, Any]], epsilon: float, name: str) -> Mean:
    return mean_of([row[name] for row in rows if row["epsilon"] == epsilon])


def _epsilon_table(options: Options, rows: Sequence[dict[str, Any]]) -> Table:
    names = ("planes", "support_planes", "plane_bound", "passes", "test_error")
    lines = [
        [
            epsilon, *(_at_epsilon(rows, epsilon, name).mean for name in names[:-1]),
            str(_at_epsilon(rows, epsilon, names[-1])),
        ]
        for epsilon in _epsilons(rows)
    ]  # fmt: skip
    columns = [
        "epsilon", ("planes", "added"), ("planes", "support"), ("planes", "bound"), "passes",
        "test error",
    ]  # fmt: skip
    title = f"Figure 2, right: cutting planes and epsilon, n = {options.epsilon_size}"
    return Table(title, columns, lines)


def _readings_table(options: Options, rows: Sequence[dict[str, Any]]) -> Table:
    chosen = _of_part(rows, "table") + _of_part(rows, "reading")
    sizes = _sizes(chosen)
    readings = sorted({(row["padding"], row["c_over_n"]) for row in chosen})
    lines: list[list[Any]] = [
        ["paper", "", *(_text(PAPER_TABLE_4.get(n, (UNKNOWN,) * 4)[3]) for n in sizes)]
    ]
    for padding, c_over_n in readings:
        own = [r for r in chosen if (r["padding"], r["c_over_n"]) == (padding, c_over_n)]
        lines.append([padding, f"{c_over_n:g}", *(str(_mean(own, n, "test_error")) for n in sizes)])
    columns = ["padding", "C'", *(("test error of SVM2 at n", str(n)) for n in sizes)]
    return Table(f"Readings of the text, epsilon = {options.epsilon:g}", columns, lines)


def make_plots(options: Options, rows: Sequence[dict[str, Any]]) -> dict[str, Plot]:
    """File name -> plot: table 4 as bars, figure 2 left and right."""
    plots = {"alignment": _errors_plot(rows), "alignment_planes": _planes_plot(options, rows)}
    if _of_part(rows, "epsilon"):
        plots["alignment_epsilon"] = _epsilon_plot(options, _of_part(rows, "epsilon"))
    return plots


def _errors_plot(rows: Sequence[dict[str, Any]]) -> Plot:
    svm, generative = _of_part(rows, "table"), _of_part(rows, "generative")
    best, sizes = best_gap_cost(generative), _sizes(svm)
    papers = [PAPER_TABLE_4.get(n, (UNKNOWN,) * 4) for n in sizes]
    series = {
        "GenMod, paper": [paper[2] for paper in papers],
        f"GenMod, δ = {best:g}": [_generative(generative, n, "test_errors", best) for n in sizes],
        "SVM2, paper": [paper[3] for paper in papers],
        "SVM2": [_mean(svm, n, "test_error") for n in sizes],
    }
    return bar_groups(
        [f"n = {n}" for n in sizes],
        {name: [round(figure[0], 1) for figure in figures] for name, figures in series.items()},
        {name: [figure[1] for figure in figures] for name, figures in series.items()},
        title="Table 4: decoys taken for the homologue", ylabel="test error, per cent",
    )  # fmt: skip


def _planes_plot(options: Options, rows: Sequence[dict[str, Any]]) -> Plot:
    svm = _of_part(rows, "table")
    sizes = _sizes(svm)
    names = {"planes added": "planes", "support planes": "support_planes",
             BOUND: "plane_bound"}  # fmt: skip
    curves = {
        label: (sizes, [_mean(svm, n, name).mean for n in sizes]) for label, name in names.items()
    }
    first = curves["planes added"][1][0]
    curves["in proportion to n"] = (sizes, [first * n / sizes[0] for n in sizes])
    title = f"Figure 2, left: cutting planes, epsilon = {options.epsilon:g}"
    return curve_lines(
        curves, title, "training examples n", "cutting planes", log_x=True, ticks=sizes,
        apart=[BOUND],
    )  # fmt: skip


def _epsilon_plot(options: Options, rows: Sequence[dict[str, Any]]) -> Plot:
    epsilons = _epsilons(rows)
    names = {"planes added": "planes", "support planes": "support_planes",
             BOUND: "plane_bound"}  # fmt: skip
    curves = {
        label: (epsilons, [_at_epsilon(rows, epsilon, name).mean for epsilon in epsilons])
        for label, name in names.items()
    }
    title = f"Figure 2, right: cutting planes, n = {options.epsilon_size}"
    return curve_lines(
        curves, title, "epsilon", "cutting planes", log_x=True, ticks=epsilons, apart=[BOUND]
    )  # fmt: skip
