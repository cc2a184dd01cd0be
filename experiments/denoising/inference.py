"""The same potentials labelled by each oracle: what it finds, what it proves, how long it takes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.lib.graph_training import MAXIMA, Model, Part
from experiments.lib.timing import compile_ahead, in_turns
from jaxstruct.core.padding import bucketed_inputs
from jaxstruct.core.types import Array, PyTree
from jaxstruct.graphs.inference import Inference, best_found
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


def integer_program(graph: GraphPotentials) -> float:
    """max F of one graph by SciPy's MILP (HiGHS); NaN where it does not end in time.

    max <nodes, mu> + <pairs, mu> over the local polytope, the mu of nodes integers.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_matrix

    V, E = int(graph.number_of_nodes), int(graph.number_of_edges)
    nodes, pairs = np.asarray(graph.nodes, float)[:V], np.asarray(graph.pairs, float)[:E]
    S, ends = nodes.shape[1], np.asarray(graph.edges)[:E]
    node = np.arange(V * S).reshape(V, S)
    pair = V * S + np.arange(E * S * S).reshape(E, S, S)
    rows, columns, values = [np.repeat(np.arange(V), S)], [node.ravel()], [np.ones(V * S)]
    for end, axis in ((0, 2), (1, 1)):  # the mu of an edge sum up to those of either end
        row = V + end * E * S + np.arange(E * S).reshape(E, S)
        rows += [np.repeat(row.ravel(), S), row.ravel()]
        columns += [np.moveaxis(pair, axis, 2).ravel(), node[ends[:, end]].ravel()]
        values += [np.ones(E * S * S), -np.ones(E * S)]
    sums = np.r_[np.ones(V), np.zeros(2 * E * S)]
    table = coo_matrix(
        (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))),
        shape=(len(sums), V * S + E * S * S),
    )
    found = milp(
        -np.r_[nodes.ravel(), pairs.ravel()], bounds=Bounds(0, 1),
        constraints=LinearConstraint(table, sums, sums),
        integrality=np.r_[np.ones(V * S), np.zeros(E * S * S)],
        options={"time_limit": SECONDS, "mip_rel_gap": 1e-7},
    )  # fmt: skip
    return -float(found.fun) if found.status == 0 else float("nan")


def _labelled(name: str, passes: int, graph: GraphPotentials) -> tuple[Array, Array]:
    """(labels, bound) of one graph."""
    best = best_found(Inference(MAXIMA[name], passes), graph, None)
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
        integer_program(jax.tree.map(lambda leaf, i=i: np.asarray(leaf)[i], graphs))
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
