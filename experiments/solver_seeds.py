"""How much the figures of the tables move with the order in which the solver visits examples.

    python -m experiments.solver_seeds
    python -m experiments.solver_seeds --tables=snakes --seeds=5 --tolerance=1e-3

Every solution within the asked gap or epsilon is as good as another by the objective; what it
predicts may differ. A table is made once for each seed of the solver, on the same data; beside the
deviation over these seeds stands the one over splits, samples or folds that the table itself has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from experiments.lib import common, fields
from experiments.lib.options import AnyOptions, flag
from experiments.lib.report import Columns, Table, measured_number, rows_table
from experiments.reproduce.command import EXPERIMENTS, Experiment

SEEDED = {each.name: each for each in EXPERIMENTS if "solver_seed" in each.options.values()}
CHANGES: Mapping[str, Mapping[str, Any]] = MappingProxyType({
    "string_mapping": {
        "readings": (), "repeats": 5, "methods": ("SVM2", "SVM2 Δs", "SVM2 Δm"),
    },
    "snakes": {"picture_grids": 0},
    "parsing": {"pictures": 0},
    "named_entities": {"methods": ("svm", "svm_slack", "svm_margin"), "tables": ("3",)},
    "alignment": {"epsilons": (), "sizes": ("4", "20", "80"), "gap_costs": ()},
})  # fmt: skip
"""What is left out of a table, since it is not read here."""


class Options(fields.Common):
    """The flags of this command."""

    tables: Sequence[str] = flag(
        (
            "taxonomy_wipo_alpha_d",
            "named_entities",
            "alignment",
            "parsing",
            "string_mapping",
            "snakes",
        ),
        "Tables by their names in experiments.reproduce.",
        SEEDED,
        some=True,
    )
    seeds: int = flag(5, "Seeds of the solver: 0, 1, ..", least=2)
    columns: str = flag(
        "flt|tax|acc|error|constraints|F1|Prec|Rec|loss|cells|SVM|1 - L|zero-one|distance",
        "Regular expression, in letters of either case: the columns whose numbers are compared.",
    )
    stop_at: float = flag(
        0.0,
        "Relative gap, or epsilon where a table has one, in place of its own; 0: its own.",
        least=0,
    )


def run(options: Options) -> common.Outcome:
    """Make each table for each seed, print how its figures move, and write that.

    Raises:
      ValueError: an option that does not fit.
      CorpusMissing: a corpus is not on this machine; the message says how to get it.
    """
    common.prepare(options)
    try:
        wanted = re.compile(options.columns, re.IGNORECASE)
    except re.error as error:
        raise ValueError(
            f"columns: got {options.columns!r}, no regular expression: {error}"
        ) from None
    groups = (_moves(options, SEEDED[name], wanted) for name in options.tables)
    rows = common.finished_rows(options, groups)
    return common.save(options, _table(options, rows), {"rows": rows})


def _moves(options: Options, experiment: Experiment, wanted: re.Pattern) -> Iterator[common.Row]:
    """A row a figure."""
    tables = [
        experiment.run(_options_of(options, experiment, seed)).table
        for seed in range(options.seeds)
    ]
    for row in moving_figures(tables, wanted):
        yield {"table": experiment.name} | row


def _options_of(options: Options, experiment: Experiment, solver_seed: int) -> AnyOptions:
    shared = {name: getattr(options, name) for name in ("seed", "x64", "progress")}
    own = experiment.options.replace(
        **shared, **CHANGES.get(experiment.name, {}), solver_seed=solver_seed,
        compilation_cache=options.compilation_cache,
        output=str(Path(options.output) / f"solver_seed_{solver_seed}"),
    )  # fmt: skip
    if options.stop_at:
        own = own.replace(**{
            name: options.stop_at for name in ("epsilon", "tolerance") if name in own.values()
        })  # fmt: skip
    return own


def moving_figures(tables: Sequence[Table], wanted: re.Pattern) -> Iterator[common.Row]:
    """The figures of tables that are alike but for their numbers.

    Args:
      tables: of the same columns and rows. wanted: finds the columns that are read.

    Yields:
      row (its first cells, at most three, before such a column), column, mean, deviation and range
      over the tables, and spread: what stands after ± in them, None where nothing does.
    """
    heads = [head if isinstance(head, str) else ": ".join(filter(None, head))
             for head in tables[0].columns]  # fmt: skip
    places = [j for j, head in enumerate(heads) if wanted.search(head)]
    for i, first in enumerate(tables[0].rows):
        names = [str(cell) for cell in first[: min(places, default=0)][:3] if cell is not None]
        for j in places:
            found = [measured_number(table.rows[i][j]) for table in tables]
            numbers = [each for each in found if each is not None]
            if len(numbers) < len(tables):
                continue
            values = np.array([each[0] for each in numbers])
            spreads = [each[1] for each in numbers if each[1] is not None]
            yield {
                "row": ", ".join(names), "column": heads[j], "mean": float(values.mean()),
                "deviation": float(values.std(ddof=1)), "least": float(values.min()),
                "most": float(values.max()),
                "spread": float(np.mean(spreads)) if spreads else None,
            }  # fmt: skip


def _table(options: Options, rows: Sequence[common.Row]) -> Table:
    columns: Columns = {
        "table": "table", "row": "row", "column": "column", "mean": "mean:.4g",
        ("over solver seeds", "deviation"): "deviation:.2g",
        ("over solver seeds", "least"): "least:.4g", ("over solver seeds", "most"): "most:.4g",
        "deviation over splits": "spread:.2g",
    }  # fmt: skip
    stop = f"{options.stop_at:g}" if options.stop_at else "each table's own"
    still = [row for row in rows if row["least"] == row["most"]]
    notes = [
        f"{options.seeds} seeds of the solver, the same data; relative gap or epsilon: {stop}. "
        "Deviation over splits: what the table itself has after ± (folds, samples or splits).",
        f"{len(still)} figures that are the same for every seed, papers' among them, are left out.",
    ]
    moving = [row for row in rows if row not in still]
    return rows_table("Figures and the seed of the solver", columns, moving, notes)
