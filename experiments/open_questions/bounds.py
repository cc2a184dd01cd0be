"""First question: which upper bound of the task loss is best.

Each data set is split several times; C is the one of four with the smallest loss on a validation
part, and the machine that it was chosen for is tested. Formulations are compared over data sets by
Friedman's test and Nemenyi's critical difference (J. Demsar, JMLR 7, 1-30, 2006).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy import stats

from experiments.lib.common import Row
from experiments.lib.options import AnyOptions
from experiments.lib.plots import Plot
from experiments.lib.record import Stopwatch
from experiments.lib.report import Table
from experiments.open_questions.data_sets import DATA_SETS, Sizes, Split, mean_loss
from jaxstruct import fit_path
from jaxstruct.core.buckets import rows_of
from jaxstruct.solvers.objective.formulations import FORMULATIONS

SOFT = tuple(name for name in FORMULATIONS if name != "svm0")
LEVEL = 0.05
"""Of the tests."""


class Ranking(NamedTuple):
    """k formulations over N data sets.

    Fields:
      ranks: [k] means; 1 is the smallest loss, ties share. statistic, p: of Friedman's test.
      difference: of two mean ranks, from which they differ at `LEVEL` (Nemenyi).
    """

    ranks: np.ndarray
    statistic: float
    p: float
    difference: float


def ranking_of(losses: np.ndarray) -> Ranking:
    """Friedman's test, corrected for ties, and Nemenyi's critical difference of losses [N, k].

    CD = q sqrt(k (k + 1) / (6 N)), q the upper quantile of the range of k normals over sqrt 2.
    """
    n, k = losses.shape
    statistic, p = stats.friedmanchisquare(*losses.T)
    quantile = stats.studentized_range.ppf(1 - LEVEL, k, np.inf) / np.sqrt(2)
    ranks = stats.rankdata(losses, axis=1).mean(axis=0)
    return Ranking(ranks, statistic, p, quantile * np.sqrt(k * (k + 1) / (6 * n)))


def jobs(options: AnyOptions, dtype: str) -> dict[str, Callable[[], list[Row]]]:
    """What is measured, by the names of its files: first one split of every data set."""
    return {
        f"bounds_{name}_{number}": partial(_split, options, name, number, dtype)
        for number in range(options.splits) for name in options.data
    }  # fmt: skip


def _split(options: AnyOptions, name: str, number: int, dtype: str) -> list[Row]:
    split = DATA_SETS[name].draw(options.seed + number, _sizes(options, name), dtype)
    ratios = [DATA_SETS[name].least * 10**power for power in range(4)]
    return [
        {"data": name, "split": number, "formulation": formulation}
        | _trained(options, split, ratios, formulation)
        for formulation in FORMULATIONS
    ]


def _sizes(options: AnyOptions, name: str) -> Sizes:
    """A share of those of the data set."""
    train, validation, test = (
        max(8, round(options.share * size)) for size in DATA_SETS[name].sizes
    )
    return train, validation, test


def _trained(options: AnyOptions, split: Split, ratios: list[float], formulation: str) -> Row:
    """The best C of the grid on the validation part, and its machine's loss on the test part."""
    watch, n = Stopwatch(), rows_of(split.train.outputs)
    Cs = [1.0] if formulation == "svm0" else [n * ratio for ratio in ratios]
    machines = list(fit_path(
        split.problem, *split.train, formulation, Cs,
        tolerance=options.tolerance, max_passes=options.most_passes,
    ))  # fmt: skip
    losses = [mean_loss(split.problem, each.weights, split.validation) for each in machines]
    best = int(np.argmin(losses))
    return {
        "status": machines[best].status.name, "validation": losses,
        "c_over_n": None if formulation == "svm0" else ratios[best],
        "test": mean_loss(split.problem, machines[best].weights, split.test),
        **watch.numbers(),
    }  # fmt: skip


def by_data(rows: Sequence[Row]) -> dict[str, dict[str, np.ndarray]]:
    """Data set -> formulation -> [splits] test losses; svm0 where it was solved on all splits."""
    found: dict[str, dict[str, np.ndarray]] = {}
    for name in dict.fromkeys(row["data"] for row in rows):
        of = {
            each: [row for row in rows if (row["data"], row["formulation"]) == (name, each)]
            for each in FORMULATIONS
        }
        if any(row["status"] != "CONVERGED" for row in of["svm0"]):
            del of["svm0"]
        found[name] = {each: np.array([row["test"] for row in own]) for each, own in of.items()}
    return found


def mean_losses(rows: Sequence[Row]) -> np.ndarray:
    """[N, 6] mean test losses of the formulations with slacks."""
    return np.array([[own[each].mean() for each in SOFT] for own in by_data(rows).values()])


def table_of(options: AnyOptions, rows: Sequence[Row]) -> Table:
    """A line a data set, and one of mean ranks where there are several."""
    lines = [
        [
            name, DATA_SETS[name].loss, _sizes(options, name)[0],
            *(own[each].mean() if each in own else None for each in FORMULATIONS),
            *(_change(own[f"{svm}_slack"], own[f"{svm}_margin"]) for svm in ("svm1", "svm2")),
        ]
        for name, own in by_data(rows).items()
    ]  # fmt: skip
    columns = [
        "data", "loss", "n", *(("test loss", each) for each in FORMULATIONS),
        *(("slack less margin re-scaling, %", svm) for svm in ("svm1", "svm2")),
    ]  # fmt: skip
    soft = [row["status"] for row in rows if row["formulation"] != "svm0"]
    notes = [
        f"Means of {options.splits} splits; C / n is the one of four with the smallest loss on a "
        f"validation part; tolerance {options.tolerance:g}, at most {options.most_passes} passes.",
        "After ±: the standard error of the mean over splits, whose parts are of one pool.",
        "svm0: - where a split is not separable or was not solved.",
        f"{sum(each != 'CONVERGED' for each in soft)} of {len(soft)} machines with slacks, C "
        "chosen, did not come to their regular end.",
    ]
    if len(lines) > 1:
        ranking = ranking_of(mean_losses(rows))
        notes.append(
            f"Friedman's test over {len(lines)} data sets: {ranking.statistic:.2f}, p = "
            f"{ranking.p:.2g}; critical difference of two mean ranks at {LEVEL:g} (Nemenyi): "
            f"{ranking.difference:.2f}."
        )
        lines.append(["mean rank", None, None, None, *ranking.ranks, None, None])
    return Table("Upper bounds of the task loss", columns, lines, notes)


def _change(slack: np.ndarray, margin: np.ndarray) -> str:
    """Of the losses of both re-scalings, split by split."""
    each = 100 * (slack - margin) / margin.mean()
    error = each.std(ddof=1) / np.sqrt(len(each)) if len(each) > 1 else np.nan
    return f"{each.mean():+.1f} ± {error:.1f}"


def picture_of(rows: Sequence[Row]) -> Plot:
    """Mean ranks on a line; bars join those that do not differ by the critical difference.

    Raises:
      ImportError: matplotlib is missing.
    """
    from matplotlib.figure import Figure

    losses = mean_losses(rows)
    ranking, title = ranking_of(losses), f"Mean ranks of test losses over {len(losses)} data sets"
    order = np.argsort(ranking.ranks)
    ranks = ranking.ranks[order]
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    axes = figure.subplots()
    axes.set(xlim=(0.7, len(SOFT) + 0.3), ylim=(-4.2, 1.6), title=title, yticks=[])
    axes.spines[["left", "right", "bottom"]].set_visible(False)
    axes.xaxis.tick_top()
    axes.plot([1, 1 + ranking.difference], [1, 1], color="black", linewidth=2)
    axes.text(1.05 + ranking.difference, 1, f"critical difference {ranking.difference:.2f}",
              va="center")  # fmt: skip
    for place, (rank, at) in enumerate(zip(ranks, order, strict=True)):
        left = place < len(order) / 2
        depth = -1.6 - 0.9 * (place if left else len(order) - 1 - place)
        end = 0.9 if left else len(SOFT) + 0.1
        axes.plot([rank, rank, end], [1.6, depth, depth], color="#555555", linewidth=1)
        axes.text(
            end, depth, f"{SOFT[at]}  {rank:.2f}", va="bottom", ha="left" if left else "right"
        )
    for bar, (first, last) in enumerate(groups_of(ranks, ranking.difference)):
        axes.plot([ranks[first] - 0.04, ranks[last] + 0.04], [0.3 - 0.35 * bar] * 2,
                  color="#c43c00", linewidth=4)  # fmt: skip
    body = [[SOFT[at], ranking.ranks[at]] for at in order]
    return Plot(figure, Table(title, ["formulation", "mean rank"], body))


def groups_of(ranks: np.ndarray, difference: float) -> list[tuple[int, int]]:
    """(first, last) of the longest runs of sorted ranks that differ by less than `difference`."""
    ends = [int(np.flatnonzero(ranks < rank + difference)[-1]) for rank in ranks]
    return [
        (first, last)
        for first, last in enumerate(ends)
        if last > first and (first == 0 or ends[first - 1] < last)
    ]
