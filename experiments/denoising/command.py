"""Labels of a grid seen through noise: pixels alone against labelled graphs, and their oracles.

    python -m experiments.denoising
    python -m experiments.denoising --labels=5 --noise=0.8 --grids=50
    python -m experiments.denoising --training=independent,pseudo --prediction=reweighted

The grids are drawn: Potts labels, a noisy channel a label. The first table has the test pixels that
every way of training gets wrong under every oracle, the second one what each oracle makes of the
same potentials: the score that it finds, the bound that it proves, its time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from experiments.denoising.data import Drawing, Grids, drawn_grids
from experiments.denoising.inference import compared
from experiments.denoising.pictures import grid_picture
from experiments.lib import common, fields
from experiments.lib.graph_training import (
    EDGELESS,
    PREDICTION,
    TRAINING,
    Model,
    Prediction,
    Stop,
    Training,
    error_of,
    in_pictures,
    notes_of,
    of_pictures,
    read_by,
    trained,
)
from experiments.lib.options import flag
from experiments.lib.plots import Plot
from experiments.lib.record import SECONDS
from experiments.lib.report import Table
from jaxstruct.core.types import PyTree


class Options(NamedTuple):
    """The flags of this command."""

    labels: Annotated[
        Sequence[str], flag("How many labels; a run each.", each=int, least=2, some=True)
    ] = ("2", "5")
    size: Annotated[int, flag("Cells along a side of a grid.", least=2)] = 12
    grids: Annotated[int, flag("Grids to learn from, and as many to test.", least=1)] = 20
    noise: Annotated[float, flag("Standard deviation of a channel.", above=0)] = 0.7
    coupling: Annotated[
        float, flag("Of neighbours; at 1 an infinite grid begins to order.", above=0)
    ] = 1.0
    sweeps: Annotated[int, flag("Of Gibbs sampling, for the labels.", least=0)] = 60
    training: Training = TRAINING
    prediction: Prediction = PREDICTION
    c_over_n: Annotated[float, flag("C' = C / n.", above=0)] = 0.1
    passes: Annotated[int, flag("Of message passing, at most.", least=1)] = 20
    tolerance: fields.Tolerance = 1e-2
    most_passes: Annotated[int, flag("Of training, at most.", least=1)] = 200
    exact_grids: Annotated[
        int, flag("Test grids whose optimum SciPy's MILP finds, too; 0: none.", least=0)
    ] = 5
    repeats: Annotated[int, flag("Timed calls of an oracle; the median counts.", least=1)] = 3
    picture_grids: Annotated[int, flag("Grids in a picture; 0: none.", least=0)] = 3
    output: fields.Output = "results"
    seed: fields.Seed = 0
    x64: fields.X64 = False
    compilation_cache: fields.CompilationCache = True
    progress: fields.ShowProgress = None


class _Run(NamedTuple):
    """What was measured with one number of labels."""

    rows: list[dict[str, Any]]
    oracles: list[dict[str, Any]]
    picture: Plot | None


def run(options: Options) -> common.Outcome:
    """Draw, train, test, compare oracles, print both tables and write them.

    Raises:
      ValueError: an option that does not fit.
    """
    dtype = common.prepare(options)
    rows: list[dict[str, Any]] = []
    oracles: list[dict[str, Any]] = []
    plots: dict[str, Plot] = {}
    numbers = {"rows": rows, "oracles": oracles}
    with common.kept_if_stopped("denoising", options, "denoising", numbers):
        for labels in map(int, options.labels):
            for row in _measured(options, labels, dtype, plots):
                (oracles if "inference" in row else rows).append(row)
    outcome = common.save(
        "denoising", options, "denoising", _error_table(options, rows), numbers, plots
    )
    if not oracles:
        return outcome
    second = common.save(
        "denoising", options, "denoising_oracles", _oracle_table(options, oracles),
        {"oracles": oracles},
    )  # fmt: skip
    return outcome._replace(files=outcome.files + second.files)


def _measured(
    options: Options, labels: int, dtype: str, plots: dict[str, Plot]
) -> Iterator[dict[str, Any]]:
    """A row a way of training, then a row an oracle; pictures go into `plots`."""
    rng = np.random.default_rng([options.seed, labels])
    drawing = Drawing(options.size, labels, options.coupling, options.sweeps, options.noise)
    grids = [drawn_grids(rng, options.grids, drawing) for _ in range(2)]
    train, test = (part.part(dtype) for part in grids)
    model = Model(labels + 1, labels, True, options.passes, dtype)
    stop = Stop(options.tolerance, options.most_passes, options.progress)
    found: dict[str, PyTree] = {}
    shown: dict[str, np.ndarray] = {}
    for name in options.training:
        weights, row = trained(model, train, name, options.c_over_n, stop)
        read = read_by(model, test, name, weights, options.prediction)
        found[name] = weights
        shown[_spoken(name)] = read[of_pictures(options.prediction)].rows.reshape(grids[1].y.shape)
        errors = {oracle: error_of(test.y, labelled) for oracle, labelled in read.items()}
        yield {"labels": labels, **row, "test_errors": errors}
    if options.picture_grids:
        plots[f"denoising_{labels}"] = _picture(options, grids[1], shown)
    joined = [name for name in options.training if name not in EDGELESS]
    if joined:
        name = "svm" if "svm" in joined else joined[0]
        for row in compared(model, test, found[name], options.exact_grids, options.repeats):
            yield {"labels": labels, "training": name, **row}


def _spoken(name: str) -> str:
    return {"independent": "pixels alone", "svm": "SVM with edges"}.get(name, name)


def _picture(options: Options, grids: Grids, shown: dict[str, np.ndarray]) -> Plot:
    """The first two labellers that differ in kind: alone, and the first with edges."""
    chosen = {name: shown[name] for name in map(_spoken, in_pictures(options.training))}
    title = (
        f"Test grids of {grids.channels.shape[-1]} labels, noise {options.noise:g}, predicted by "
        f"{of_pictures(options.prediction)}"
    )
    return grid_picture(grids, chosen, options.picture_grids, title)


def _error_table(options: Options, rows: Sequence[dict[str, Any]]) -> Table:
    columns = [
        "labels", "trained by", "status", ("objective", "P, by the bound"), ("objective", "D"),
        *(("test pixels wrong %, predicted by", name) for name in options.prediction),
        "evaluations", *SECONDS,
    ]  # fmt: skip
    body = [
        [row["labels"], row["training"], row["status"].name, f"{row['primal']:.2f}",
         None if row["dual"] is None else f"{row['dual']:.2f}",
         *(row["test_errors"][name] for name in options.prediction), row["passes"],
         row["seconds"], row["compile_seconds"]]
        for row in rows
    ]  # fmt: skip
    notes = [
        f"{options.grids} grids of {options.size} x {options.size} cells train, as many test; "
        f"C' = {options.c_over_n:g}, tolerance {options.tolerance:g}.",
        *notes_of(options.passes, "pixel"),
    ]
    return Table("Noisy grids: pixels labelled wrong", columns, body, notes)


def _oracle_table(options: Options, rows: Sequence[dict[str, Any]]) -> Table:
    columns = [
        "labels", "oracle", "F, mean", "bound of F, mean", "proven best, % of grids",
        f"below the optimum, first {options.exact_grids} grids", "wrong %", "ms a grid",
    ]  # fmt: skip
    body = [
        [row["labels"], row["inference"], row["value"], row["bound"], row["proven"],
         None if row["below"] is None else f"{row['below']:z.3f}", row["wrong"],
         row["milliseconds"]]
        for row in rows
    ]  # fmt: skip
    trained_by = ", ".join(dict.fromkeys(row["training"] for row in rows))
    notes = [
        f"All test grids under the potentials of the same weights, trained by {trained_by}; "
        f"{options.passes} passes at most. Time of one call for all grids, compiled before.",
        "The optimum is that of SciPy's MILP (HiGHS).",
    ]
    return Table("Noisy grids: what oracles find of the same potentials", columns, body, notes)
