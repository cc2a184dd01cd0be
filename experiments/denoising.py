"""Labels of a grid seen through noise: pixels alone against labelled graphs, and their oracles.

    python -m experiments.denoising
    python -m experiments.denoising --labels=5 --noise=0.8 --grids=50
    python -m experiments.denoising --training=independent,pseudo --prediction=reweighted

The grids are drawn: Potts labels, a noisy channel a label. The first table has the test pixels that
every way of training gets wrong under every oracle, the second one what each oracle makes of the
same potentials: the score that it finds, the bound that it proves, its time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments.lib import common, graph_training
from experiments.lib.graph_training import (
    EDGELESS,
    MAXIMA,
    Model,
    Part,
    Stop,
    error_of,
    in_pictures,
    notes_of,
    of_pictures,
    read_by,
    trained,
)
from experiments.lib.local_polytope import best_value, local_polytope
from experiments.lib.options import flag
from experiments.lib.plots import COLOURS, Plot
from experiments.lib.record import SECONDS, compile_ahead, in_turns
from experiments.lib.report import Columns, Table, rows_table
from jaxstruct import Ragged
from jaxstruct.core.padding import bucketed_inputs
from jaxstruct.core.types import Array, PyTree
from jaxstruct.graphs.decoding import Decoding, best_found
from jaxstruct.graphs.inference import graph_potentials_of
from jaxstruct.graphs.inputs import graph_inputs
from jaxstruct.graphs.potentials import GraphPotentials, grid_edges, score_labels

# Square grids of labels that cling together, seen through noise: own generator.


class Drawing(NamedTuple):
    """How grids are drawn.

    Fields:
      size: cells along a side. labels: S. coupling: of the Potts model, 1 where it would order.
      sweeps: of Gibbs sampling from labels at random. noise: standard deviation of each channel.
    """

    size: int
    labels: int
    coupling: float
    sweeps: int
    noise: float


class Grids(NamedTuple):
    """n grids of h x h cells.

    Fields:
      y: [n, h, h] labels. channels: [n, h, h, S], 1 for the label and 0 for the others, and noise.
    """

    y: np.ndarray
    channels: np.ndarray

    def part(self, dtype: str) -> Part:
        """As labelled graphs: a node a cell, its channels and a 1 as features."""
        n, h, _, S = self.channels.shape
        rows = self.channels.reshape(n, h * h, S)
        nodes = list(np.concatenate([rows, np.ones((n, h * h, 1))], axis=2).astype(dtype))
        edges = np.concatenate(grid_edges(h, h))
        offsets = h * h * np.arange(n + 1)
        return Part(
            graph_inputs(nodes, [edges] * n),
            graph_inputs(nodes, [[]] * n),
            Ragged(self.y.reshape(-1).astype(np.int32), offsets, -1),
        )


def drawn_grids(rng: np.random.Generator, n: int, drawing: Drawing) -> Grids:
    """n grids: labels of a Potts model on the grid, then noise on one channel a label.

    P(y) is proportional to exp(beta [equal neighbours]), beta = coupling log(1 + sqrt S), at which
    an infinite grid begins to order where the coupling is 1. The black cells are drawn given the
    white ones and the other way round, so many times; that need not be equilibrium.
    """
    S, size = drawing.labels, drawing.size
    beta = drawing.coupling * math.log(1 + math.sqrt(S))
    y = rng.integers(0, S, (n, size, size))
    rows, columns = np.indices((size, size))
    for colour in [0, 1] * drawing.sweeps:
        cells = np.pad(np.eye(S)[y], [(0, 0), (1, 1), (1, 1), (0, 0)])
        near = cells[:, :-2, 1:-1] + cells[:, 2:, 1:-1] + cells[:, 1:-1, :-2] + cells[:, 1:-1, 2:]
        new = np.argmax(beta * near + rng.gumbel(size=near.shape), axis=3)
        y = np.where((rows + columns) % 2 == colour, new, y)
    return Grids(y, np.eye(S)[y] + drawing.noise * rng.normal(size=(*y.shape, S)))


# The same potentials labelled by each oracle: what it finds, what it proves, how long it takes.

TRUTH, ALONE = "true labels", "best label of each node"
PROVEN = 1e-4
"""A gap to the bound below it, relative, is rounding of float32."""
MOST_SECONDS = 30.0
"""For one grid of the integer program, at most."""


def potentials_of(model: Model, part: Part, weights: PyTree) -> GraphPotentials:
    """The potentials of all graphs of a part, which are of one size."""
    problem = model.problem()
    (x,) = bucketed_inputs(problem.padding, part.x).parts
    theta = jax.jit(jax.vmap(problem.model.potentials, (None, 0)))(weights, x)
    return graph_potentials_of(theta)


def _labelled(name: str, passes: int, graph: GraphPotentials) -> tuple[Array, Array]:
    """(labels, bound) of one graph."""
    best = best_found(Decoding(MAXIMA[name], passes), graph, None)
    assert best.bound is not None, "no oracle here is exact"
    return best.labels, best.bound


def compared(
    model: Model, part: Part, weights: PyTree, exact_grids: int, repeats: int
) -> list[dict[str, Any]]:
    """A row an oracle, over all graphs of a part, which are of one size.

    Args:
      exact_grids: of how many graphs, the first ones, the optimum is found by SciPy as well.
      repeats: timed calls, of which the median counts.
    """
    graphs, y = potentials_of(model, part, weights), np.stack(list(part.y))
    V, n = y.shape[1], len(y)
    programs: dict[str, Callable] = {
        name: compile_ahead(jax.vmap(partial(_labelled, name, model.passes)), graphs).call
        for name in MAXIMA
    }
    times = in_turns([partial(call, graphs) for call in programs.values()], repeats)
    seconds = np.median(times[:, :, 0], axis=0)
    optimum = np.array([
        best_value(
            local_polytope(jax.tree.map(lambda leaf, i=i: np.asarray(leaf)[i], graphs)),
            MOST_SECONDS,
        )
        for i in range(min(exact_grids, n))
    ])  # fmt: skip
    score = jax.jit(jax.vmap(score_labels))
    alone = jnp.argmax(graphs.nodes, axis=2)
    given = {TRUTH: jnp.pad(y, [(0, 0), (0, graphs.nodes.shape[1] - V)]), ALONE: alone}
    none = np.full(n, np.inf)
    found = [(name, labels, none, None) for name, labels in given.items()]
    for (name, call), time in zip(programs.items(), seconds, strict=True):
        found.append((name, *call(graphs), 1000 * time / n))
    rows = []
    for name, labels, bound, milliseconds in found:
        value, bound = np.asarray(score(graphs, labels), float), np.asarray(bound, float)
        rows.append(_row(name, value, bound, optimum) | {
            "wrong": 100 * float(np.mean(np.asarray(labels)[:, :V] != y)),
            "milliseconds": milliseconds,
        })  # fmt: skip
    return rows


def _row(name: str, value: np.ndarray, bound: np.ndarray, optimum: np.ndarray) -> dict[str, Any]:
    """Means over graphs; `below` those to the optimum over the graphs where it is known."""
    known, k = np.isfinite(bound).all(), len(optimum)
    gap = bound - value
    return {
        "inference": name, "value": float(value.mean()),
        "bound": float(bound.mean()) if known else None,
        "proven": 100 * float(np.mean(gap <= PROVEN * np.abs(bound))) if known else None,
        "below": float(np.mean(optimum - value[:k])) if k else None,
    }  # fmt: skip


# Pictures of denoised grids: the labels, what is seen of them, and what two labellers read.

WRONG = "#c43c00"


def _palette(labels: int) -> np.ndarray:
    """[S, 3] a light colour a label; two labels are light and dark grey."""
    if labels == 2:
        return np.array([[0.93, 0.93, 0.93], [0.35, 0.35, 0.35]])
    chosen = [COLOURS[1 + k % (len(COLOURS) - 2)] for k in range(labels)]
    inks = np.array([[int(text[i : i + 2], 16) for i in (1, 3, 5)] for text in chosen]) / 255
    return 0.35 + 0.65 * inks


def _mixed(channels: np.ndarray, palette: np.ndarray) -> np.ndarray:
    """[h, w, 3] the colours of all labels, each as strong as its channel."""
    weights = np.exp(2 * (channels - channels.max(axis=-1, keepdims=True)))
    return weights / weights.sum(axis=-1, keepdims=True) @ palette


def grid_picture(grids: Grids, read: Mapping[str, np.ndarray], count: int, title: str) -> Plot:
    """The first grids, one a row: truth, channels, then every labeller, its wrong cells dotted.

    Args:
      grids: what is shown. read: name -> [n, h, h] labels. count: of grids, at least one.
      title: over all of them.

    Raises:
      ImportError: matplotlib is missing.
    """
    from matplotlib.figure import Figure

    count, palette = min(count, len(grids.y)), _palette(grids.channels.shape[-1])
    figure = Figure(figsize=(2.3 * (2 + len(read)), 2.4 * count + 0.5), layout="constrained")
    figure.suptitle(title)
    axes = figure.subplots(count, 2 + len(read), squeeze=False)
    body: list[list[Any]] = []
    for i, row in enumerate(axes):
        true = grids.y[i]
        panels = {"true labels": palette[true], "as seen": _mixed(grids.channels[i], palette)}
        panels |= {name: palette[labels[i]] for name, labels in read.items()}
        for axis, (name, colours) in zip(row, panels.items(), strict=True):
            axis.imshow(colours)
            axis.set_xticks([])
            axis.set_yticks([])
            wrong = read[name][i] != true if name in read else np.zeros_like(true, bool)
            rows, columns = np.nonzero(wrong)
            axis.plot(columns, rows, ".", color=WRONG, markersize=5)
            share = f": {100 * wrong.mean():.0f} % wrong" if name in read else ""
            axis.set_title(f"{name}{share}", fontsize=9)
        body += [[i, name, " ".join(map(str, labels[i].ravel()))]
                 for name, labels in ({"true labels": grids.y} | dict(read)).items()]  # fmt: skip
    return Plot(figure, Table(title, ["grid", "labels", "row after row"], body, []))


class Options(graph_training.Options):
    """The flags of this command."""

    labels: Sequence[str] = flag(
        ("2", "5"), "Numbers of labels, one run for each.", each=int, least=2, some=True
    )
    size: int = flag(12, "Cells along a side of a grid.", least=2)
    grids: int = flag(20, "Grids to learn from, and as many to test.", least=1)
    noise: float = flag(0.7, "Standard deviation of a channel.", above=0)
    coupling: float = flag(
        1.0, "Coupling of neighbours; at 1 an infinite grid begins to order.", above=0
    )
    sweeps: int = flag(60, "Sweeps of Gibbs sampling that draw the labels.", least=0)
    exact_grids: int = flag(
        5, "Test grids whose optimum SciPy's MILP finds, too; 0: none.", least=0
    )
    repeats: int = flag(3, "Timed calls of an oracle; the median counts.", least=1)
    picture_grids: int = flag(3, "Grids in a picture; 0: none.", least=0)


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
    with common.kept_if_stopped(options, numbers):
        for labels in map(int, options.labels):
            for row in _measured(options, labels, dtype, plots):
                (oracles if "inference" in row else rows).append(row)
    outcome = common.save(options, _error_table(options, rows), numbers, plots)
    if not oracles:
        return outcome
    second = common.save(
        options, _oracle_table(options, oracles), {"oracles": oracles}, name="denoising_oracles"
    )
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
    columns: Columns = {
        "labels": "labels", "trained by": "training", "status": "status",
        ("objective", "P, by the bound"): "primal:.2f", ("objective", "D"): "dual:.2f",
        **{
            ("test pixels wrong %, predicted by", name): f"test_errors.{name}"
            for name in options.prediction
        },
        "evaluations": "passes", **SECONDS,
    }  # fmt: skip
    notes = [
        f"{options.grids} grids of {options.size} x {options.size} cells train, as many test; "
        f"C' = {options.c_over_n:g}, tolerance {options.tolerance:g}.",
        *notes_of(options.passes, "pixel"),
    ]
    return rows_table("Noisy grids: pixels labelled wrong", columns, rows, notes)


def _oracle_table(options: Options, rows: Sequence[dict[str, Any]]) -> Table:
    columns: Columns = {
        "labels": "labels", "oracle": "inference", "F, mean": "value", "bound of F, mean": "bound",
        "proven best, % of grids": "proven",
        f"below the optimum, first {options.exact_grids} grids": "below:z.3f", "wrong %": "wrong",
        "ms a grid": "milliseconds",
    }  # fmt: skip
    trained_by = ", ".join(dict.fromkeys(row["training"] for row in rows))
    notes = [
        f"All test grids under the potentials of the same weights, trained by {trained_by}; "
        f"{options.passes} passes at most. Time of one call for all grids, compiled before.",
        "The optimum is that of SciPy's MILP (HiGHS).",
    ]
    return rows_table("Noisy grids: what oracles find of the same potentials", columns, rows, notes)
