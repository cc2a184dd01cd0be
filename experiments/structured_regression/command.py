"""Numbers along a sequence: support vector regression, and the chain that it is a case of.

    python -m experiments.structured_regression
    python -m experiments.structured_regression --noise=1 --stay=0.8 --train=50
    python -m experiments.structured_regression --methods=tokens,structured --repeats=1

Series are drawn: numbers like their neighbours, seen through noise, are to be predicted. In "jumps"
a number stays until another is drawn, in "smooth" it drifts, with the same correlations. The
structured machine (`experiments.structured_regression.machines`) sees each token's own number and
learns how much neighbours count; its peers are scikit-learn's. A second table has the machine
without neighbours beside two programs for support vector regression.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from experiments.lib import common, fields
from experiments.lib.options import flag
from experiments.lib.plots import COLOURS, Plot
from experiments.lib.progress import jobs_bar
from experiments.lib.report import Columns, Table, rows_table
from experiments.structured_regression.machines import (
    AGREEMENT_TOLERANCE,
    KINDS,
    METHODS,
    TITLES,
    Choices,
    Series,
    agreement,
    chosen_trial,
    drawn_series,
)


class Options(fields.Tolerance, fields.Common):
    """The flags of this command."""

    methods: Sequence[str] = flag(METHODS, "Rows of the table.", METHODS, some=True)
    series: Sequence[str] = flag(KINDS, "How numbers change.", KINDS, some=True)
    repeats: int = flag(5, "Draws of all series.", least=1)
    train: int = flag(10, "Series to learn from.", least=1)
    choose: int = flag(10, "Series that choose C and the like.", least=1)
    test: int = flag(40, "Series to test.", least=1)
    length: int = flag(60, "Tokens of a series.", least=2)
    stay: float = flag(0.95, "Correlation of neighbours.", least=0, most=1)
    noise: float = flag(0.5, "Standard deviation of the noise.", least=0)
    epsilon: float = flag(0.1, "Errors up to it cost nothing in training.", least=0)
    c: Sequence[str] = flag(
        ("1", "10", "100"), "C of the structured machine, to choose from; it is divided by n.",
        each=float, above=0, some=True,
    )  # fmt: skip
    steps: Sequence[str] = flag(
        ("0.5", "1", "2"), "How far rivals are from the truth, to choose from.",
        each=float, above=0, some=True,
    )  # fmt: skip
    levels: int = flag(61, "Numbers that the structured machine can predict.", least=2)
    x64: bool = True


def run(options: Options) -> common.Outcome:
    """Draw, train, test, print both tables and write them.

    Raises:
      ValueError: an option that does not fit.
    """
    dtype = common.prepare(options)
    rows = common.finished_rows(options, _measured(options, dtype))
    plots = {
        f"structured_regression_{kind}": _picture(options, kind, rows) for kind in options.series
    }
    outcome = common.save(options, _table(options, rows), {"rows": rows}, plots)
    if not options.x64:
        return outcome
    name, train = "structured_regression_agreement", _parts(options, options.series[0], 0)[0]
    agreed = [row for C in (0.1, 1.0) for row in agreement(train, options.epsilon, C, dtype)]
    second = common.save(options, _agreement_table(agreed), {"rows": agreed}, name=name)
    return outcome._replace(files=(*outcome.files, *second.files))


def _parts(options: Options, kind: str, draw: int) -> list[Series]:
    """Series that train, that choose and that test."""
    rng = np.random.default_rng([options.seed, KINDS.index(kind), draw])
    sizes = options.train, options.choose, options.test
    return [drawn_series(rng, kind, n, options.length, options.stay, options.noise) for n in sizes]


def _measured(options: Options, dtype: str) -> Iterator[list[dict[str, Any]]]:
    """A row a method of each draw."""
    choices = Choices(
        options.epsilon, [float(step) for step in options.steps], [float(C) for C in options.c],
        options.levels, options.tolerance, dtype,
    )  # fmt: skip
    jobs = list(itertools.product(options.series, range(options.repeats)))
    for kind, draw in jobs_bar(jobs, "draws", options.progress):
        train, choose, test = _parts(options, kind, draw)
        yield [
            {"series": kind, "draw": draw} | _row(method, train, choose, test, choices)
            for method in options.methods
        ]


def _row(
    method: str, train: Series, choose: Series, test: Series, choices: Choices
) -> dict[str, Any]:
    trial = chosen_trial(method, train, choose, choices)
    values, solution = trial.predict(test.x), trial.solution
    row = {
        "method": method, "error": float(np.abs(values - test.y).mean()),
        "chosen": trial.setting, "shown": values[_busiest(test)].tolist(),
    }  # fmt: skip
    if solution is not None:
        row |= {
            "status": solution.status, "primal": solution.primal, "dual": solution.dual,
            "gap": solution.gap,
            "weights": {name: np.asarray(leaf).tolist() for name, leaf in solution.weights.items()},
        }  # fmt: skip
    return row


def _busiest(test: Series) -> int:
    """The series of a picture: its numbers differ most."""
    return int(np.argmax(test.y.std(axis=1)))


def _lines(options: Options, rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for kind, method in itertools.product(options.series, options.methods):
        own = [row for row in rows if (row["series"], row["method"]) == (kind, method)]
        last = [row for row in rows if (row["series"], row["method"]) == (kind, METHODS[-1])]
        errors = np.array([row["error"] for row in own])
        yield {
            "series": kind, "method": TITLES[method], "error": float(errors.mean()),
            "sd": float(errors.std(ddof=1)) if len(errors) > 1 else None,
            **_against(errors, np.array([row["error"] for row in last])),
            "gap": max((row["gap"] / row["primal"] for row in own if "gap" in row), default=None),
            "status": ", ".join({row["status"].name for row in own if "status" in row}) or None,
        }  # fmt: skip


def _table(options: Options, rows: Sequence[dict[str, Any]]) -> Table:
    columns: Columns = {
        "series": "series", "machine": "method", ("mean absolute error", "mean"): "error:.3f",
        ("mean absolute error", "sd"): "sd:.3f", ("more than structured", "mean"): "more:.3f",
        ("more than structured", "p"): "p:.1g", "largest relative gap": "gap:.0e",
        "status": "status",
    }  # fmt: skip
    notes = [
        f"{options.repeats} draws of {options.train} series to learn from, {options.choose} that "
        f"choose C, the window, the kernel's gamma, the coupling and the rivals' step, "
        f"{options.test} to test; {options.length} tokens each, correlation of neighbours "
        f"{options.stay:g}, noise {options.noise:g}, epsilon {options.epsilon:g}.",
        "p: of a paired t test over the draws, two-sided. Only the structured machine has a "
        "certificate here.",
    ]
    return rows_table("Numbers along a sequence", columns, list(_lines(options, rows)), notes)


def _against(errors: np.ndarray, others: np.ndarray) -> dict[str, float | None]:
    """The mean difference to the structured machine's errors of the same draws, and its p."""
    from scipy.stats import ttest_rel

    if len(errors) != len(others) or not (errors - others).any():
        return {"more": None, "p": None}
    p = float(ttest_rel(errors, others).pvalue) if len(errors) > 1 else None
    return {"more": float((errors - others).mean()), "p": p}


def _agreement_table(rows: Sequence[dict[str, Any]]) -> Table:
    columns: Columns = {
        "C of a token": "C:g", "machine": "machine", "objective": "objective:.9f",
        "gap": "gap:.0e", "predictions differ by at most": "apart:.0e",
    }  # fmt: skip
    notes = [
        "The tokens of the first draw, each an example of its own, its number and a 1 as features; "
        f"trained to a relative gap of {AGREEMENT_TOLERANCE:g}. Both others are scikit-learn's, at "
        "tol 1e-10: liblinear's LinearSVR without a bias, and libsvm's SVR with a linear kernel "
        "on the tokens and their negatives, for which its bias is 0."
    ]
    return rows_table("Without neighbours: support vector regression", columns, rows, notes)


def _picture(options: Options, kind: str, rows: Sequence[dict[str, Any]]) -> Plot:
    """A test series of the first draw."""
    from matplotlib.figure import Figure

    test = _parts(options, kind, 0)[2]
    i = _busiest(test)
    lines = {"observed": test.x[i], "true": test.y[i]}
    shown = {
        row["method"]: row["shown"] for row in rows if (row["series"], row["draw"]) == (kind, 0)
    }
    names = [name for name in ("windows", "structured", "tokens") if name in shown][:2]
    lines |= {TITLES[name]: np.array(shown[name]) for name in names}
    figure = Figure(figsize=(9, 4), layout="constrained")
    axes = figure.subplots()
    places = np.arange(1, options.length + 1)
    axes.plot(places, lines["observed"], ".", color=COLOURS[0], label="observed")
    axes.step(places, lines["true"], where="mid", color="black", label="true", linewidth=1)
    for name, colour in zip(list(lines)[2:], COLOURS[1:], strict=False):
        axes.plot(places, lines[name], color=colour, label=name)
    axes.set_xlabel("token")
    axes.legend(frameon=False)
    body = [[int(t), *(float(line[t - 1]) for line in lines.values())] for t in places]
    return Plot(figure, Table("A test series", ["token", *lines], body, []))
