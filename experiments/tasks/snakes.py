"""Grids of coloured cells, some of them a snake, as graphs to label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from experiments.corpora.snakes import LABELS, Snakes, load_snakes
from experiments.tasks.work import Tool, Work
from jaxstruct import Problem, Ragged, Settings, Solution, fit, predict
from jaxstruct.graphs.inputs import GraphInput, graph_inputs
from jaxstruct.graphs.potentials import grid_edges
from jaxstruct.graphs.structure import graph_labelling

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


def problem_of(grids: Grids, features: str, inference: str, passes: int, dtype: str) -> Problem:
    """The structure with one kind of edge features."""
    d = grids.number_of_features
    return graph_labelling(
        d, LABELS, number_of_edge_features=4 * d if features == "windows" else 0, edge_kinds=2,
        inference=inference, passes=passes, dtype=dtype,
    )  # fmt: skip


def snakes(n: int, tolerance: float) -> Work:
    """Both trainings of `experiments.snakes` with its settings, one after the other, and all that
    it reads; the cells right where the windows of both ends are known.

    Args:
      n: grids to learn from, 0 for all.
    """
    parts = load_snakes()
    palette = palette_of(parts[0].pixels)
    train, test = grids_of(parts[0], palette, n), grids_of(parts[1], palette)

    def trained(features: str) -> tuple[str, Problem, Solution]:
        problem = problem_of(train, features, "reweighted", 20, "float32")
        x, C = train.inputs(features, "float32"), 0.1 * len(train.shapes)
        settings = Settings(variant="subspace", working_sets="grown")
        solution = fit(
            problem, x, train.y, "svm1_margin", C, tolerance=tolerance, max_passes=60,
            settings=settings,
        )  # fmt: skip
        return features, problem, solution

    def score(model: list[tuple[str, Problem, Solution]]) -> float:
        wrong = 0.0
        for features, problem, solution in model:
            for part in (train, test):
                read = predict(problem, solution, part.inputs(features, "float32"))
                wrong, _ = errors(part.y, read)
        return 1 - wrong / 100

    ours = Tool(lambda: [trained(features) for features in FEATURES], score)
    return Work(len(train.shapes), ours, lambda model: [solution for _, _, solution in model])
