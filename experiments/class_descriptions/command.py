"""Class descriptions and similarities of classes on CLINC150, with few examples a class or none.

    python -m experiments.class_descriptions
    python -m experiments.class_descriptions --per_class=1 --repeats=1 --methods=flat,words

Source: thesis 4.3.1, which proposes output features of taxonomies, textual descriptions and given
similarities, and reports numbers for taxonomies alone (`experiments.taxonomy`). Here a class is
described by its name (two or three words) and its domain. Each method is a matrix L(y, y') in the
joint kernel K(x, x') L(y, y') (4.12); its weight beside the identity and C' are chosen on held-out
queries. Classes without an example are known by their descriptions alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.class_descriptions.trials import (
    ALONE,
    METHODS,
    OF_EXAMPLES,
    Cell,
    Grid,
    Queries,
    Task,
    accuracy,
    few_examples,
    load_queries,
    no_examples,
    run_methods,
    zero_shot,
)
from experiments.lib import common, fields
from experiments.lib.options import flag
from experiments.lib.plots import Plot, bar_groups, curve_lines
from experiments.lib.progress import jobs_bar
from experiments.lib.report import Columns, Table, mean_text, rows_table
from jaxstruct.evaluation.metrics import mean_and_deviation

NONE = "no examples"


class Options(fields.Tolerance, fields.Common):
    """The flags of this command."""

    path: str | None = flag(None, "Folder of the corpus; default: see third_party_data.")
    per_class: Sequence[str] = flag(
        ("1", "2", "5", "10"),
        "Training examples drawn of each class, a list.",
        each=int,
        least=1,
        some=True,
    )
    unseen: int = flag(
        3,
        "Classes of each domain without any example, and as many again to choose the "
        "constants by; 0: leave this part out.",
        least=0,
    )
    unseen_per_class: int = flag(5, "Examples of each other class in that part.", least=1)
    repeats: int = flag(3, "Training sets drawn for each size.", least=1)
    methods: Sequence[str] = flag(tuple(METHODS), "Methods to compare.", METHODS, some=True)
    grid: Sequence[str] = flag(("1", "10"), "Values of C' = C / n.", each=float, above=0, some=True)
    identity: Sequence[str] = flag(
        ("0.5", "1"),
        "Weights of the class identity beside descriptions.",
        each=float,
        above=0,
        some=True,
    )
    held_out: int = flag(5, "Held-out queries of each class that choose the constants.", least=1)
    tolerance: float = flag(1e-2, "Relative duality gap to stop at.", above=0)


def run(options: Options) -> common.Outcome:
    """Train every method on every draw, print the table and write it.

    Raises:
      ValueError: an option that does not fit.
      CorpusMissing: the corpus is not on this machine; the message says how to get it.
    """
    dtype = common.prepare(options)
    queries = load_queries(Path(options.path) if options.path else None)
    _check_unseen(options, queries)
    values, identity = (tuple(map(float, each)) for each in (options.grid, options.identity))
    grid = Grid(values, identity, options.tolerance, dtype, options.held_out)
    settings = [*map(int, options.per_class), *([NONE] if options.unseen else [])]
    jobs = [(setting, repeat) for setting in settings for repeat in range(options.repeats)]
    rows: list[dict[str, Any]] = []
    with (
        common.kept_if_stopped(options, {"rows": rows}),
        jobs_bar(jobs, "class_descriptions", options.progress) as bar,
    ):
        for setting, repeat in bar:
            rows.extend(_draw(options, queries, grid, setting, repeat))
    means = _means(rows)
    table = _table(options, queries, rows, means)
    content = {"rows": rows, "means": means}
    return common.save(options, table, content, _plots(options, means))


def _check_unseen(options: Options, queries: Queries) -> None:
    parents = [queries.taxonomy.parents[node][0] for node in queries.taxonomy.classes]
    least = int(np.unique(parents, return_counts=True)[1].min())
    if 2 * options.unseen >= least:
        raise ValueError(
            f"unseen: got {options.unseen}, but a domain has {least} classes, of which some must "
            f"have examples; at most {(least - 1) // 2}"
        )


def _draw(
    options: Options, queries: Queries, grid: Grid, setting: int | str, repeat: int
) -> list[dict[str, Any]]:
    seed = options.seed + repeat
    if setting == NONE:
        tasks = no_examples(queries, options.unseen_per_class, options.unseen, seed, grid)
        cells = zero_shot(queries, tasks, options.methods, grid)
        task = tasks[1]
    else:
        assert isinstance(setting, int)
        task = few_examples(queries, setting, seed, grid)
        cells = run_methods(queries, task, options.methods, grid)
    return [
        {"setting": setting, "repeat": repeat, "method": name, "chosen": cell.chosen,
         "seconds": cell.seconds, "compile_seconds": cell.compile_seconds,
         "unsolved": cell.unsolved} | _scored(cell, task)
        for name, cell in cells.items()
    ]  # fmt: skip


def _scored(cell: Cell, task: Task) -> dict[str, float]:
    """Accuracies on test queries; of unseen classes also among all classes, and of the others."""
    truth, everything = task.test.y, np.arange(cell.plain.shape[1])
    tested = np.isin(truth, task.testing)
    values = {
        "plain": accuracy(cell.plain[tested], truth[tested], task.testing),
        "matched": accuracy(cell.matched[tested], truth[tested], task.testing),
    }
    if len(task.testing) < len(everything):
        values["among_all"] = accuracy(cell.matched[tested], truth[tested], everything)
        values["others"] = accuracy(cell.matched[~tested], truth[~tested], everything)
    return values


MEASURES = ("plain", "matched", "among_all", "others")


def _means(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Mean and deviation of each method in each setting, and of its gain over flat, by draws."""
    table = {(r["setting"], r["method"], r["repeat"]): r for r in rows}
    found = []
    for setting, method in dict.fromkeys((r["setting"], r["method"]) for r in rows):
        own = [r for r in rows if (r["setting"], r["method"]) == (setting, method)]
        row: dict[str, Any] = {"setting": setting, "method": method}
        for measure in MEASURES:
            if measure in own[0]:
                row[measure] = mean_and_deviation([r[measure] for r in own])
        flat = [table.get((setting, "flat", r["repeat"])) for r in own]
        for measure in ("plain", "matched"):
            gains = [r[measure] - f[measure] for r, f in zip(own, flat, strict=True) if f]
            row[f"{measure}_gain"] = mean_and_deviation(gains) if gains else None
        found.append(row)
    return found


def _text(stat: Any, sign: str = "") -> str | None:
    return None if stat is None else mean_text(*stat, sign=sign)


def _table(
    options: Options,
    queries: Queries,
    rows: Sequence[Mapping[str, Any]],
    means: Sequence[Mapping[str, Any]],
) -> Table:
    columns: Columns = {
        "examples": lambda row: f"{row['setting']} a class" if row["setting"] != NONE else NONE,
        "method": "method", ("accuracy %", "machine"): lambda row: _text(row["plain"]),
        ("accuracy %", "over flat"): lambda row: _text(row["plain_gain"], "+"),
        ("accuracy %", "with names"): lambda row: _text(row["matched"]),
        ("accuracy %", "over flat, too"): lambda row: _text(row["matched_gain"], "+"),
        ("among all classes %", "unseen"): lambda row: _text(row.get("among_all")),
        ("among all classes %", "others"): lambda row: _text(row.get("others")),
    }  # fmt: skip
    return rows_table(
        f"Class descriptions: CLINC150, mean ± deviation over {options.repeats} draws",
        columns, means, _notes(options, queries, rows),
    )  # fmt: skip


def _notes(options: Options, queries: Queries, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    per_domain = options.unseen
    unsolved = sum(row["unsolved"] for row in rows)
    return [
        f"{len(queries.names)} classes, {len(queries.test.y)} test queries, tf-idf of words. tree: "
        "domains; words, characters: tf-idf of the names' words and of 2 to 4 neighbouring "
        "characters; latent: the names in 100 latent semantic dimensions of the unlabelled "
        "training queries; centroids: mean vectors of the examples drawn; 'all' averages the five.",
        "with names: plus a weighted cosine of the query and the class's name, which no training "
        "changes; names alone: that cosine without a machine. over flat: differences by draws.",
        f"svm1, zero-one loss, gap {options.tolerance:g}. C' of {', '.join(options.grid)}, the "
        f"identity's weight of {', '.join(options.identity)} and that of the names are chosen by "
        f"{options.held_out} queries a class of the validation part.",
        *([f"{NONE}: {per_domain} classes of each domain have none ({NONE} of theirs are trained "
           f"against, either), the others {options.unseen_per_class} each; machine and with names "
           "distinguish the unseen classes; constants chosen by as many other classes, held out in "
           "the same way, queries of theirs alone. A tie of m classes counts 1 / m."]
          if options.unseen else []),
        f"{sum(row['seconds'] for row in rows):.0f} s in all, "
        f"{sum(row['compile_seconds'] for row in rows):.0f} s of it compiling; {unsolved} "
        "trainings without a proof of convergence.",
    ]  # fmt: skip


def _plots(options: Options, means: Sequence[Mapping[str, Any]]) -> dict[str, Plot]:
    sizes = list(map(int, options.per_class))
    found = {(row["setting"], row["method"]): row for row in means}
    methods = list(dict.fromkeys(row["method"] for row in means))
    plots, others = {}, [name for name in methods if name not in ("flat", ALONE)]
    ways = (("plain", "the machine"), ("matched", "with the match of names"))
    for measure, words in ways if "flat" in methods and others else ():
        curves = {
            name: (sizes, [round(found[size, name][f"{measure}_gain"].mean, 2) for size in sizes])
            for name in others
        }
        plots[f"class_descriptions_{measure}"] = curve_lines(
            curves, f"CLINC150, few examples a class, gain over flat: {words}",
            "training examples a class", "points of accuracy", log_x=True, log_y=False,
        )  # fmt: skip
    if options.unseen:
        shown = [
            name for name in methods if name not in OF_EXAMPLES
        ]  # these have nothing of unseen classes
        plots["class_descriptions_unseen"] = _unseen_plot([found[NONE, name] for name in shown])
    return plots


def _unseen_plot(rows: Sequence[Mapping[str, Any]]) -> Plot:
    series, errors = {}, {}
    for measure, words in (("plain", "machine"), ("matched", "with names")):
        stats = [row[measure] for row in rows]
        series[words] = [round(stat.mean, 1) for stat in stats]
        errors[words] = [0.0 if np.isnan(stat.deviation) else stat.deviation for stat in stats]
    names = [row["method"].replace(" + ", "+") for row in rows]
    title = "CLINC150, classes without examples, distinguished"
    return bar_groups(names, series, errors, title, "accuracy, %")
