"""Second question: how many constraints algorithm 3 adds, beside the bounds of the thesis (3.7.4).

Algorithm 3 as printed, with the QP over all of S; one factor changes at a time. Its exponent is
d log(constraints) / d log(factor), by least squares with a level of its own a sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from experiments.lib.common import Row
from experiments.lib.options import AnyOptions
from experiments.lib.plots import Plot, curve_lines
from experiments.lib.report import Table, mean_text
from experiments.machines.reference.reference_algorithm import fit_reference, most_constraints
from experiments.open_questions.data_sets import DATA_SETS, Examples
from jaxstruct import Problem
from jaxstruct.multiclass import multiclass
from jaxstruct.multiclass.losses import zero_one_loss
from jaxstruct.solvers.objective.formulations import FORMULATIONS

DATA = {"digits": (1, 0.03), "words": (1, 0.002), "trees": (4, 0.03), "strings": (1, 0.5)}
"""Data set -> units of n and of C / n. The latter is about 1 / R^2, where some multipliers are at
their bound and some are not; few short trees violate anything."""
MARGINS = ("svm1_margin", "svm2_margin")
"""The formulations of propositions 17 and 15."""
BASE = {"n": 16.0, "epsilon": 0.1, "C": 1.0, "R": 1.0, "Delta": 1.0}
"""Of every factor while another one changes; all but epsilon in units of the data."""
VALUES = {
    "n": (4.0, 8.0, 16.0, 32.0), "epsilon": (0.3, 0.1, 0.03, 0.01), "C": (0.1, 1.0, 10.0),
    "R": (0.3, 1.0, 3.0), "Delta": (0.3, 1.0, 3.0),
}  # fmt: skip
OF_CLASSES = ("R", "Delta")
"""Changed for digits alone: H depends on w Psi and on Delta, so that a problem of r R is one of C
r^2, and one of d Delta, margins re-scaled, is one of C and epsilon through a power of d."""


class Exponent(NamedTuple):
    """A slope of logarithms, and half of its 95 % interval."""

    slope: float
    half: float

    def __str__(self) -> str:
        """As tables have it; two points of one sample have no interval."""
        return mean_text(self.slope, self.half)


def exponent_of(values: ArrayLike, counts: ArrayLike, samples: ArrayLike) -> Exponent:
    """d log(counts) / d log(values), each sample with a level of its own; t interval, or nan."""
    x, y, which = np.log(values), np.log(counts), np.asarray(samples)
    for one in np.unique(which):
        x[which == one] -= x[which == one].mean()
        y[which == one] -= y[which == one].mean()
    slope = float(x @ y / (x @ x))
    free = len(x) - len(np.unique(which)) - 1
    if free < 1:
        return Exponent(slope, np.nan)
    error = np.sqrt(np.sum((y - slope * x) ** 2) / free / (x @ x))
    return Exponent(slope, float(stats.t.ppf(0.975, free) * error))


def jobs(options: AnyOptions, dtype: str) -> dict[str, Callable[[], list[Row]]]:
    """What is measured, by the names of its files."""
    return {
        f"sparseness_{name}_{formulation}_{sample}": partial(
            _sample, options, name, formulation, sample, dtype
        )
        for sample in range(options.samples) for name in DATA if name in options.data
        for formulation in MARGINS
    }  # fmt: skip


def _sample(options: AnyOptions, name: str, formulation: str, sample: int, dtype: str) -> list[Row]:
    """A row a factor and value, the base once for all factors."""
    found: dict[tuple[float, ...], Row] = {}
    rows = []
    for factor, value in _grid(options, name):
        setting = BASE | {factor: value}
        key = tuple(setting.values())
        if key not in found:
            found[key] = _counted(options, name, formulation, sample, setting, dtype)
        rows.append({"data": name, "formulation": formulation, "sample": sample,
                     "factor": factor, "value": value} | found[key])  # fmt: skip
    return rows


def _grid(options: AnyOptions, name: str) -> Iterator[tuple[str, float]]:
    for factor, values in VALUES.items():
        if name == "digits" or factor not in OF_CLASSES:
            yield from ((factor, value) for value in values[: options.points])


def _counted(
    options: AnyOptions, name: str, formulation: str, sample: int, setting: Mapping[str, float],
    dtype: str,
) -> Row:  # fmt: skip
    (unit, base), (count, epsilon, ratio, R, delta) = DATA[name], setting.values()
    n = int(unit * count)
    split = DATA_SETS[name].draw(options.seed + sample, (n, 0, 0), dtype)
    problem, train = split.problem, split.train
    if (R, delta) != (1, 1):
        problem, train = scaled(problem, train, R, delta, dtype)
    C = ratio * base * n
    found = fit_reference(
        problem, *train, formulation, C, epsilon=epsilon, exactness=0.1, look_ahead=32
    )
    course, dual = found.details, float(found.dual)
    most = float(np.max(course.loss, initial=0.0))
    radius = float(np.max(course.length, initial=0.0))
    count = found.statistics.planes_kept
    if not count:
        raise ValueError(f"{name}: n = {n} examples violate no constraint, take more")
    bound = most_constraints(formulation, C, n, epsilon, radius, most)
    worth = C * most / FORMULATIONS[formulation].penalty
    return {
        "constraints": count, "status": found.status.name, "bound": bound, "radius": radius,
        "loss": most, "worth": worth / dual, "rise": dual / count / (worth / bound),
        "support": found.statistics.support_planes,
    }  # fmt: skip


def scaled(
    problem: Problem, train: Examples, R: float, delta: float, dtype: str
) -> tuple[Problem, Examples]:
    """Classes under the zero-one loss, their features R and their loss delta times as large."""
    d, k = problem.initial_weights["weights"].shape
    problem = multiclass(d, k, loss=delta * zero_one_loss(k), dtype=dtype)
    return problem, Examples(R * train.inputs, train.outputs)


def table_of(options: AnyOptions, rows: Sequence[Row]) -> Table:
    """A line a data set and formulation: the base beside the bounds, and the exponents."""
    lines = []
    for key in dict.fromkeys((row["data"], row["formulation"]) for row in rows):
        own = [row for row in rows if (row["data"], row["formulation"]) == key]
        base = [row for row in own if row["value"] == BASE[row["factor"]]]
        lines.append([
            *key, *(np.mean([row[name] for row in base]) for name in SHOWN),
            *(_slope([row for row in own if row["factor"] == factor]) for factor in VALUES),
        ])  # fmt: skip
    columns = [
        "data", "formulation", "constraints", "with a multiplier", ("theorem 3", "bound"),
        ("theorem 3", "C Delta / D"), ("theorem 3", "rise / least"),
        *(("exponent of", factor) for factor in VALUES),
    ]  # fmt: skip
    unsolved = sum(row["status"] != "EPSILON" for row in rows)
    units = ", ".join(f"{BASE['n'] * n:g} and {c:g} ({name})" for name, (n, c) in DATA.items())
    notes = [
        f"Algorithm 3 as printed, step 10a; epsilon = {BASE['epsilon']:g}, n and C / n of "
        f"{units}, "
        "but for the factor that changes, n at one C / n; means of "
        f"{options.samples} samples.",
        "bound = constraints x (C Delta / D) x (rise / least): the largest dual of theorem 3 "
        "(C Delta, squared slacks half of it) over the dual at the end, and the mean rise of the "
        "dual a constraint over the least one of proposition 17 (svm1) or 15 (svm2).",
        "Exponents: d log(constraints) / d log(factor), 95 % intervals. Theorem 3 has 1 in n at "
        "one C / n, -2 in epsilon, at most 1 in C, 2 in R and 1 in Delta, with linear slacks.",
        f"{unsolved} of {len(rows)} runs did not come to their regular end.",
    ]
    return Table("Constraints of algorithm 3 by n, epsilon, C, R and Delta", columns, lines, notes)


SHOWN = ("constraints", "support", "bound", "worth", "rise")


def _slope(rows: Sequence[Row]) -> str | None:
    if len({row["value"] for row in rows}) < 2:
        return None
    columns = ([row[name] for row in rows] for name in ("value", "constraints", "sample"))
    return str(exponent_of(*columns))


def picture_of(rows: Sequence[Row]) -> Plot:
    """Constraints by epsilon, margins re-scaled with linear slacks, one line a data set.

    Raises:
      ImportError: matplotlib is missing.
    """
    own = [row for row in rows if row["factor"] == "epsilon" and row["formulation"] == MARGINS[0]]
    curves: dict[str, Any] = {}
    for name in dict.fromkeys(row["data"] for row in own):
        of = [row for row in own if row["data"] == name]
        points = sorted({row["value"] for row in of})
        counts = [
            np.mean([row["constraints"] for row in of if row["value"] == at]) for at in points
        ]
        curves[name] = (points, counts)
    return curve_lines(
        curves, "Constraints of algorithm 3, svm1_margin", "epsilon", "constraints",
        log_x=True,
    )  # fmt: skip
