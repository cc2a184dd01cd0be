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
from jaxstruct.graphs.edge_lists import complete_edges, grid_edges
from jaxstruct.graphs.elimination import elimination
from jaxstruct.graphs.factors import graph_potentials
from jaxstruct.graphs.oracles.belief_propagation import belief_propagation
from jaxstruct.graphs.oracles.conditional_modes import conditional_modes
from jaxstruct.graphs.oracles.reweighted import reweighted
from jaxstruct.graphs.oracles.variable_elimination import best_labelling
from jaxstruct.graphs.potentials import GraphPotentials, score_labels
from tests.graphs.random_graphs import quick_jit

pytestmark = pytest.mark.usefixtures("x64")
KINDS = ("grid", "sparse")
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
def solved(kind: str) -> tuple[Solved, ...]:
    """Some graphs of a kind."""
    found = []
    for seed in range(6):
        graph = _drawn(kind, seed)
        program = local_polytope(graph)
        found.append(Solved(graph, best_value(program), relaxed_optimum(program)))
    return tuple(found)


def _batch(kind: str) -> GraphPotentials:
    graphs = [each.graph._replace(kinds=None) for each in solved(kind)]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *graphs)


@pytest.mark.parametrize("kind", KINDS)
def test_exact_values_are_those_of_milp(kind: str) -> None:
    run = quick_jit(best_labelling)
    for each in solved(kind):
        plan = elimination(len(each.graph.nodes), each.graph.edges)
        found = run(each.graph, plan)
        assert float(found.score) == pytest.approx(each.best, abs=1e-6)
        own = score_labels(each.graph, found.labels)
        assert float(own) == pytest.approx(each.best, abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_bounds_lie_above_both_programs_and_close_to_the_relaxation(kind: str) -> None:
    best, relaxed = np.array([each[1:] for each in solved(kind)]).T
    assert (relaxed >= best - 1e-6).all() and (relaxed > best + 1e-3).any(), relaxed - best
    found = quick_jit(jax.vmap(lambda graph: reweighted(graph, 1000, 1e-9)))(_batch(kind))
    assert (found.bound >= relaxed - 1e-6).all() and (found.value <= best + 1e-6).all()
    above = (found.bound - relaxed) / np.abs(relaxed)
    print(f"{kind}: bounds end above the relaxation by {np.sort(above)}")
    assert (above < CLOSE).all() and np.median(above) < 1e-6
    tight = relaxed < best + 1e-6
    assert tight.any()
    assert ((found.bound - found.value)[tight] < CLOSE * np.abs(best[tight])).all()


@pytest.mark.parametrize("kind", KINDS)
def test_cheap_values_lie_below(kind: str) -> None:
    best, batch = np.array([each.best for each in solved(kind)]), _batch(kind)
    modes = quick_jit(jax.vmap(conditional_modes))(batch)
    assert (modes.score <= best + 1e-6).all() and (modes.score > 0.7 * best).all()
    for schedule in ("flooding", "serial"):
        run = functools.partial(belief_propagation, kind="max", schedule=schedule, damping=0.3)
        found = quick_jit(jax.vmap(run))(batch)
        assert (found.value <= best + 1e-6).all() and (found.value > 0.7 * best).all()
        np.testing.assert_allclose(
            jax.vmap(score_labels)(batch, found.labels), found.value, rtol=1e-9
        )
