"""Graphs too large to enumerate, against SciPy's HiGHS: best values and the local polytope.

The relaxation is tight on some of these graphs and loose on others. Sequential tree-reweighted
updates end in a weak tree agreement, which may lie above the optimum of the linear program: by how
much is measured here.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import numpy as np
import pytest

from experiments.lib.local_polytope import best_value, local_polytope, relaxed_optimum
from jaxstruct.graphs.elimination import elimination, min_fill_width
from jaxstruct.graphs.factors import graph_potentials
from jaxstruct.graphs.oracles.reweighted import reweighted
from jaxstruct.graphs.oracles.variable_elimination import best_labelling
from jaxstruct.graphs.potentials import GraphPotentials, complete_edges, grid_edges
from tests.graphs.random_graphs import padded, quick_jit, scores_of, stacked_plans

pytestmark = pytest.mark.usefixtures("x64")
KINDS, EACH = ("grid", "sparse"), 6
CLOSE = 1e-2
"""How far a bound ends above the linear program, at most, relative to it."""


class Solved(NamedTuple):
    """A graph, max F by MILP and the optimum over the local polytope."""

    graph: GraphPotentials
    best: float
    relaxed: float


def _drawn(kind: str, seed: int) -> GraphPotentials:
    """A grid of 6 x 6 with 4 labels, or 30 nodes and 45 edges with 3."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    V, S, edges = 36, 4, np.concatenate(grid_edges(6, 6))
    if kind == "sparse":
        V, S, edges = 30, 3, complete_edges(30)
        edges = edges[np.sort(rng.choice(len(edges), 45, replace=False))]
    nodes, pairs = rng.normal(size=(V, S)), rng.normal(size=(len(edges), S, S))
    own, shared = ((1, 0.3), (1, 0.6), (0.1, 1))[seed % 3]
    return graph_potentials(own * nodes, edges, shared * pairs, dtype="float64")


@functools.cache
def solved() -> tuple[Solved, ...]:
    """Some graphs of each kind, the smaller ones padded: one program of an oracle serves all."""
    found = []
    for kind in KINDS:
        for seed in range(EACH):
            graph = _drawn(kind, seed)
            program = local_polytope(graph)
            room = padded(graph, 36, 60, 4)
            found.append(Solved(room, best_value(program), relaxed_optimum(program)))
    return tuple(found)


def _batch() -> GraphPotentials:
    graphs = [each.graph for each in solved()]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *graphs)


def _scores(labels: np.ndarray) -> np.ndarray:
    """[n] F of labels [n, V], by numpy."""
    found = []
    for each, own in zip(solved(), np.asarray(labels), strict=True):
        graph, V, E = each.graph, int(each.graph.number_of_nodes), int(each.graph.number_of_edges)
        real = graph._replace(nodes=graph.nodes[:V], edges=graph.edges[:E], pairs=graph.pairs[:E])
        found.append(scores_of(real, own[None, :V])[0])
    return np.array(found)


def test_exact_values_are_those_of_milp() -> None:
    """With plans of one width, as a batch has them."""
    sizes = [(int(g.number_of_nodes), g.edges[: g.number_of_edges]) for g, *_ in solved()]
    width = max(min_fill_width(*size) for size in sizes)
    plans = stacked_plans([elimination(*size, width) for size in sizes], 36, 60)
    found = quick_jit(jax.vmap(best_labelling))(_batch(), plans)
    best = [each.best for each in solved()]
    np.testing.assert_allclose(found.score, best, atol=1e-6)
    np.testing.assert_allclose(_scores(found.labels), best, atol=1e-6)


@pytest.mark.thorough
def test_bounds_lie_above_both_programs_and_close_to_the_relaxation() -> None:
    every = quick_jit(jax.vmap(lambda graph: reweighted(graph, 1000, 1e-9)))(_batch())
    for number, kind in enumerate(KINDS):
        own = slice(number * EACH, (number + 1) * EACH)
        best, relaxed = np.array([each[1:] for each in solved()[own]]).T
        assert (relaxed >= best - 1e-6).all() and (relaxed > best + 1e-3).any(), relaxed - best
        bound, value = np.asarray(every.bound[own]), np.asarray(every.value[own])
        assert (bound >= relaxed - 1e-6).all() and (value <= best + 1e-6).all()
        above = (bound - relaxed) / np.abs(relaxed)
        print(f"{kind}: bounds end above the relaxation by {np.sort(above)}")
        assert (above < CLOSE).all() and np.median(above) < 1e-6
        tight = relaxed < best + 1e-6
        assert tight.any()
        assert ((bound - value)[tight] < CLOSE * np.abs(best[tight])).all()
