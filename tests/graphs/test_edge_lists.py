"""Edge lists of common graphs, and what is no edge list."""

from __future__ import annotations

import numpy as np
import pytest

from jaxstruct.graphs.potentials import checked_edges, complete_edges, grid_edges
from tests.lib.refusals import refused


def test_a_grid() -> None:
    right, down = grid_edges(2, 3)
    assert right.tolist() == [[0, 1], [1, 2], [3, 4], [4, 5]]
    assert down.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert right.dtype == np.int32
    assert [len(each) for each in grid_edges(1, 1)] == [0, 0]


def test_a_complete_graph() -> None:
    assert complete_edges(3).tolist() == [[0, 1], [0, 2], [1, 2]]
    assert complete_edges(1).shape == (0, 2)


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([[0, 3]], r"edges\[0, 1\] is 3: expected 0..2, the nodes, counted from 0"),
        ([[0, 1], [-1, 2]], r"edges\[1, 0\] is -1"),
        ([[0, 1], [2, 2]], r"edges\[1\] is \[2, 2\]: expected two nodes"),
        ([[0, 1], [1, 2], [1, 0]], r"edges\[0\] and edges\[2\] both join 0 and 1"),
        ([[0.0, 1.0]], r"edges must be \[E, 2\] integers, got float64"),
        ([[0, 1, 2]], r"edges must be \[E, 2\] integers"),
    ],
)
def test_what_is_no_edge_list(edges: list, message: str) -> None:
    refused(message, checked_edges, "edges", edges, 3)


def test_no_edges_are_an_edge_list() -> None:
    assert checked_edges("edges", [], 3).shape == (0, 2)
