"""The linear program of a graph: its integral optimum is the best of all labellings."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.graph_speed.local_polytope import (
    METHODS,
    best_value,
    local_polytope,
    relaxed_optimum,
)
from jaxstruct.graphs.factors import graph_potentials
from tests.graphs.random_graphs import cases


def test_small_graphs_against_enumeration() -> None:
    for case in cases().cases[::40]:
        if not (np.isfinite(case.graph.nodes).all() and np.isfinite(case.graph.pairs).all()):
            continue
        program = local_polytope(case.graph)
        best = case.scores.max()
        assert best_value(program) == pytest.approx(best, abs=1e-6)
        found = [relaxed_optimum(program, method) for method in METHODS]
        assert found[0] == pytest.approx(found[1], abs=1e-6) and found[0] >= best - 1e-6
        if case.kind in ("tree", "apart"):
            assert found[0] == pytest.approx(best, abs=1e-6)


def test_shared_tables_and_forbidden_labels() -> None:
    kinds, pairs = np.array([0, 0]), np.eye(2)[None]
    graph = graph_potentials(np.eye(3)[:, :2], [[0, 1], [2, 1]], pairs, kinds=kinds)
    assert best_value(local_polytope(graph)) == pytest.approx(3)
    nodes = np.array([[0, -np.inf], [0, 0]])
    with pytest.raises(ValueError, match="potentials must be finite"):
        local_polytope(graph_potentials(nodes, [], np.zeros((0, 2, 2))))
