"""Square grids of labels that cling together, seen through noise: own generator."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from experiments.lib.graph_training import Part
from jaxstruct import Ragged
from jaxstruct.graphs.edge_lists import grid_edges
from jaxstruct.graphs.inputs import graph_inputs


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
