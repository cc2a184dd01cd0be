"""The same potentials labelled by each oracle: what it finds, what it proves, how long it takes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.lib.graph_training import MAXIMA, Model, Part
from experiments.lib.local_polytope import best_value, local_polytope
from experiments.lib.timing import compile_ahead, in_turns
from jaxstruct.core.padding import bucketed_inputs
from jaxstruct.core.types import Array, PyTree
from jaxstruct.graphs.decoding import Decoding, best_found
from jaxstruct.graphs.potentials import GraphPotentials, score_labels
from jaxstruct.graphs.theta import graph_potentials_of

TRUTH, ALONE = "true labels", "best label of each node"
PROVEN = 1e-4
"""A gap to the bound below it, relative, is rounding of float32."""
SECONDS = 30.0
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
            local_polytope(jax.tree.map(lambda leaf, i=i: np.asarray(leaf)[i], graphs)), SECONDS
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
