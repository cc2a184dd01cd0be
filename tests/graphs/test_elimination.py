"""Orders of elimination: known widths, and plans that programs can follow."""

from __future__ import annotations

import numpy as np
import pytest

from jaxstruct.graphs.elimination import elimination, min_fill_width
from jaxstruct.graphs.potentials import complete_edges, grid_edges
from tests.graphs.random_graphs import random_edges, tree_edges
from tests.lib.refusals import refused


@pytest.mark.parametrize(
    ("nodes", "edges", "width"),
    [
        (1, [], 1),
        (4, [], 1),
        (6, tree_edges(np.array([-1, 0, 0, 1, 1, 2])), 1),
        (5, np.stack([np.arange(5), (np.arange(5) + 1) % 5], axis=1), 2),
        (9, np.concatenate(grid_edges(3, 3)), 3),
        (20, np.concatenate(grid_edges(2, 10)), 2),
        (6, complete_edges(6), 5),
    ],
)
def test_widths(nodes: int, edges: np.ndarray, width: int) -> None:
    assert min_fill_width(nodes, edges) == width
    assert elimination(nodes, edges).width == width


@pytest.mark.parametrize("kind", ["tree", "cycle", "complete", "any", "grid"])
def test_a_plan_is_an_elimination(kind: str) -> None:
    """Every node once; a message goes to a later step that holds all that it is about."""
    rng = np.random.default_rng(5)
    for _ in range(50):
        V, edges = random_edges(rng, kind)
        plan = elimination(V, edges)
        w, order = plan.width, plan.steps[:, 0]
        assert sorted(order) == list(range(V))
        axes = [{int(row[0]), *(int(a) for a in row[2 : 2 + w] if a >= 0)} for row in plan.steps]
        for k, (row, own) in enumerate(zip(plan.steps, axes, strict=True)):
            rest = own - {int(order[k])}
            assert (row[1] == V) == (not rest)
            if rest:
                assert row[1] > k and rest <= axes[row[1]]
        for (a, b), row in zip(edges, plan.edges, strict=True):
            assert {int(a), int(b)} <= axes[row[0]]


def test_refusals() -> None:
    with refused("width is 1, but the order found needs 2: raise it"):
        elimination(3, complete_edges(3), 1)
    refused(r"edges\[0\] is \[1, 1\]: expected two nodes", elimination, 3, [[1, 1]])
