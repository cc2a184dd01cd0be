"""Grids of labels that cling together, seen through noise, half of the cells not labelled."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from experiments.incomplete_labels.options import Job, Options, incomplete, trainer
from jaxstruct import Problem, Ragged, predict
from jaxstruct.graphs.inputs import GraphInput, graph_inputs
from jaxstruct.graphs.potentials import grid_edges
from jaxstruct.graphs.structure import graph_labelling

SIZE, LABELS, NOISE, SWEEPS = 5, 3, 1.2, 20
COUPLING = 1.0
"""Of equal neighbours: an infinite grid of three labels begins to order at log(1 + sqrt 3)."""
GRIDS = 40, 200
SHARE = 0.5
RATIO = 0.1
"""C' = C / n, as in `experiments.denoising`."""


class Grids(NamedTuple):
    """n grids: labels y [n, V] and channels [n, V, LABELS], 1 for the label, and noise."""

    y: np.ndarray
    channels: np.ndarray


def drawn(rng: np.random.Generator, n: int) -> Grids:
    """Labels by Gibbs sampling of a Potts model, cell by cell, then noise."""
    edges = np.concatenate(grid_edges(SIZE, SIZE))
    near = np.zeros((SIZE**2, SIZE**2))
    near[edges[:, 0], edges[:, 1]] = near[edges[:, 1], edges[:, 0]] = COUPLING
    y = rng.integers(0, LABELS, (n, SIZE**2))
    for cell in list(range(SIZE**2)) * SWEEPS:
        scores = np.einsum("v,nvs->ns", near[cell], np.eye(LABELS)[y])
        y[:, cell] = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
    return Grids(y, np.eye(LABELS)[y] + NOISE * rng.normal(size=(*y.shape, LABELS)))


def graphs(grids: Grids, kept: np.ndarray, dtype: str) -> tuple[GraphInput, Ragged]:
    """The cells that are kept, bool [n, V], and the edges between them: (inputs, labels)."""
    edges, nodes, own = np.concatenate(grid_edges(SIZE, SIZE)), [], []
    for channels, some in zip(grids.channels, kept, strict=True):
        number = np.cumsum(some) - 1
        nodes.append(np.hstack([channels, np.ones((SIZE**2, 1))])[some].astype(dtype))
        own.append(number[edges[some[edges].all(axis=1)]])
    offsets = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    y = Ragged(grids.y[kept].astype(np.int32), offsets, -1)
    return graph_inputs(nodes, own, plans=True), y


def jobs(options: Options, dtype: str, seed: int) -> Iterator[Job]:
    """All trainings on the grids of one seed."""
    rng = np.random.default_rng([options.seed, seed])
    train, test = (drawn(rng, n) for n in (options.examples or GRIDS[0], GRIDS[1]))
    every = [np.ones(own.y.shape, bool) for own in (train, test)]
    (x, y), (x_test, y_test) = (
        graphs(own, kept, dtype) for own, kept in zip((train, test), every, strict=True)
    )
    blank = np.random.default_rng(options.seed).random(train.y.shape) < SHARE
    blank[blank.all(axis=1), 0] = False
    part, C = incomplete(y, blank.ravel(), LABELS), RATIO * len(train.y)
    problem = graph_labelling(
        LABELS + 1, LABELS, symmetric=True, inference="elimination", dtype=dtype
    )  # fmt: skip
    error = partial(_error, problem, x_test, y_test)
    examples: dict[str, tuple[GraphInput, Any]] = {
        "known": (x, y),
        "latent": (x, part),
        "field": (x, part),
    }
    examples["rest"] = graphs(train, ~blank, dtype)
    for method, (own, labels) in examples.items():
        train_by = trainer(options, method, problem, own, labels, C)
        yield Job("half of the cells blank", method, train_by, error)


def _error(problem: Problem, x: GraphInput, y: Ragged, found: Any) -> float:
    """Cells read wrong, in %."""
    return 100 * float(np.mean(predict(problem, found.weights, x).rows != y.rows))
