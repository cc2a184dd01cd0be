"""The table of the counts, and figure 2 by each way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments.constraint_counts.cases import PAPER, PAPER_EPOCHS, PAPER_SIZES
from experiments.constraint_counts.options import Options
from experiments.lib.plots import Plot, curve_lines
from experiments.lib.report import Table

NAMES = {"full": "letter, QP over S", "subspace": "letter, QP over S_i", "fit": "fit"}


def _groups(rows: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Rows of one part, formulation, n and epsilon together, in the order in which they came."""
    found: dict[tuple, list[dict[str, Any]]] = {}
    for row in rows:
        size = row["n"] if row["part"] == "homologues" else 0  # folds differ by a sentence
        key = row["part"], row["formulation"], size, row["epsilon"]
        found.setdefault(key, []).append(row)
    return list(found.values())


def _of(group: Sequence[dict[str, Any]], way: str, name: str) -> list[float]:
    return [row[name] for row in group if row["way"] == way]


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _spread(values: Sequence[float]) -> str | None:
    if not values:
        return None
    deviation = f" ± {np.std(values, ddof=1):.0f}" if len(values) > 1 else ""
    return f"{np.mean(values):.0f}{deviation}"


def make_table(options: Options, rows: Sequence[dict[str, Any]]) -> Table:
    """A line a part, formulation, size and precision."""
    columns: list[Any] = [
        "task", "formulation", "n", "epsilon", ("constraints", "paper"),
        *(("constraints", NAMES[way]) for way in options.ways),
        *(("per example", name) for name in ("paper", *(NAMES[way] for way in options.ways))),
        ("epochs", "paper"), *(("epochs", NAMES[way]) for way in options.ways),
        "theorem 3",
    ]  # fmt: skip
    lines = [_line(options, group) for group in _groups(rows)]
    unsolved = sum(not row["status"].solved for row in rows)
    notes = [
        f"Mean ± deviation over {options.repeats} of {options.folds} folds (named entities) or "
        "samples (homologues); trees: one training.",
        "letter: algorithm 3 with the QP over all of S (step 10a) or over S_i (10b) after every "
        "constraint; fit: jaxstruct.fit with the settings of that table's own command.",
        f"paper: JMLR 6:1453-1484, tables 3 (n = {PAPER_SIZES['named entities']}, which 300 "
        f"sentences it does not say) and 5 (n = {PAPER_SIZES['trees']}, Wall Street Journal). "
        "Figure 2 (homologues) is printed without numbers.",
        f"Trees of --corpus={options.corpus}, C' = {options.c_over_n}; the others at C = 1 and, "
        "homologues, C' = 0.1.",
        "theorem 3: its bound with the largest |delta Psi| and loss of the constraints met.",
        f"{len(rows)} trainings, {unsolved} of which did not come to their regular end.",
    ]
    return Table("Constraints added by algorithm 3", columns, lines, notes)


def _line(options: Options, group: Sequence[dict[str, Any]]) -> list[Any]:
    first = group[0]
    part, formulation, n = first["part"], first["formulation"], _mean([r["n"] for r in group])
    paper = PAPER.get(part, {}).get(formulation)
    each = None if paper is None else float(paper.split()[0]) / PAPER_SIZES[part]
    counts = {way: _of(group, way, "constraints") for way in options.ways}
    bounds = [row["bound"] for row in group if row["bound"] is not None]
    return [
        part, formulation, round(n or 0), first["epsilon"], paper,
        *(_spread(counts[way]) for way in options.ways), each,
        *((_mean(counts[way]) or 0) / n if counts[way] and n else None for way in options.ways),
        PAPER_EPOCHS[formulation] if part == "trees" else None,
        *(_mean(_of(group, way, "epochs")) for way in options.ways),
        _mean(bounds),
    ]  # fmt: skip


def counts_plots(options: Options, rows: Sequence[dict[str, Any]]) -> dict[str, Plot]:
    """Figure 2, left and right, where homologues were trained at more than one n or epsilon."""
    own = [row for row in rows if row["part"] == "homologues"]
    plots: dict[str, Plot] = {}
    for name, chosen, words in (
        ("n", [row for row in own if row["epsilon"] == 0.1], "training examples n"),
        ("epsilon", [row for row in own if row["n"] == options.epsilon_size], "epsilon"),
    ):
        values = sorted({row[name] for row in chosen})
        if len(values) < 2:
            continue
        curves: dict[str, Any] = {
            NAMES[way]: (
                values,
                [
                    _mean([r["constraints"] for r in chosen if (r[name], r["way"]) == (v, way)])
                    for v in values
                ],
            )
            for way in options.ways
        }
        side = "left" if name == "n" else "right"
        plots[f"constraint_counts_{name}"] = curve_lines(
            curves, f"Figure 2, {side}: constraints added", words, "constraints", log_x=True
        )
    return plots
