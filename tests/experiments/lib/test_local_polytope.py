"""The linear program of a graph: its integral optimum is the best of all labellings."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.lib.local_polytope import METHODS, best_value, local_polytope, relaxed_optimum
from jaxstruct.graphs.factors import graph_potentials
from jaxstruct.graphs.potentials import complete_edges
from tests.graphs.random_graphs import cases, padded


def test_small_graphs_against_enumeration() -> None:
    seen = 0
    for case in cases().cases[::40]:
        program, seen = local_polytope(case.graph), seen + np.isinf(case.graph.nodes).any()
        best = case.scores.max()
        assert best_value(program) == pytest.approx(best, abs=1e-6)
        found = [relaxed_optimum(program, method) for method in METHODS]
        if best == -np.inf and case.kind not in ("tree", "apart"):
            continue  # what is forbidden to labellings may be allowed to fractions
        assert found[0] == pytest.approx(found[1], abs=1e-6) and found[0] >= best - 1e-6
        if case.kind in ("tree", "apart"):
            assert found[0] == pytest.approx(best, abs=1e-6)
    assert seen  # some labels were forbidden


def test_shared_tables_and_forbidden_labels() -> None:
    kinds, pairs = np.array([0, 0]), np.eye(2)[None]
    graph = graph_potentials(np.eye(3)[:, :2], [[0, 1], [2, 1]], pairs, kinds=kinds)
    assert best_value(local_polytope(graph)) == pytest.approx(3)
    barred = np.array([[[-np.inf, 0], [0, -np.inf]]])
    odd = graph_potentials(np.zeros((3, 2)), [[0, 1], [1, 2], [0, 2]], barred, kinds=[0] * 3)
    assert best_value(local_polytope(odd)) == -np.inf  # three nodes, two labels, none alike
    assert relaxed_optimum(local_polytope(odd)) == pytest.approx(0)


def test_padding_does_not_count() -> None:
    graph = graph_potentials(np.eye(3)[:, :2], [[0, 1], [2, 1]], np.ones((2, 2, 2)))
    wide = padded(graph, 5, 4, 3)
    assert wide.nodes.shape[0] == 5 and wide.edges.shape[0] == 4
    assert best_value(local_polytope(wide)) == pytest.approx(best_value(local_polytope(graph)))


def test_too_little_time_is_told() -> None:
    rng = np.random.default_rng(0)
    edges = complete_edges(40)
    graph = graph_potentials(rng.normal(size=(40, 4)), edges, rng.normal(size=(len(edges), 4, 4)))
    assert np.isnan(best_value(local_polytope(graph), 0.01))
