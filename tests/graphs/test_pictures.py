"""Pictures of factor graphs: every part is drawn, at the same place every time."""

from __future__ import annotations

import builtins
import subprocess
import sys

import numpy as np
import pytest

from jaxstruct.graphs.bayesian_networks import network_factors
from jaxstruct.graphs.edge_lists import grid_edges
from jaxstruct.graphs.factors import FactorGraph, factor_graph
from jaxstruct.graphs.pictures import factor_picture, factor_places, graph_places
from tests.graphs.test_bayesian_networks import alarm
from tests.lib.refusals import refused


def grid(height: int, width: int) -> FactorGraph:
    tables = [(edge, np.zeros((2, 2))) for edge in np.concatenate(grid_edges(height, width))]
    return factor_graph([2] * (height * width), tables)


def test_every_part_is_drawn() -> None:
    graph = network_factors(alarm())
    figure = factor_picture(graph, list("BEARN"))
    (axes,) = figure.axes
    lines = [line for line in axes.lines if line.get_marker() in ("None", "")]
    markers = [line.get_marker() for line in axes.lines if line not in lines]
    assert len(lines) == sum(map(len, graph.scopes)) == 9
    assert markers.count("s") == 5 and markers.count("o") == 5
    written = [text.get_text() for text in axes.texts]
    assert written[:2] == [r"$\psi_{0}$", r"$\psi_{1}$"] and written[5:] == list("BEARN")
    assert [text.get_text() for text in factor_picture(graph).axes[0].texts][5:] == list("01234")


def test_places_keep_parts_apart_and_repeat() -> None:
    for graph in (network_factors(alarm()), grid(3, 4), grid(1, 9)):
        nodes, tables = factor_places(graph)
        again = factor_places(graph)
        np.testing.assert_array_equal(nodes, again[0])
        every = np.concatenate([nodes, tables])
        gaps = np.linalg.norm(every[:, None] - every[None], axis=2) + 9 * np.eye(len(every))
        assert gaps.min() > 0.5
        for scope, at in zip(graph.scopes, tables, strict=True):
            lengths = np.linalg.norm(nodes[list(scope)] - at, axis=1)
            assert (0.5 < lengths).all() and (lengths < 1.6).all()
    line = np.concatenate(factor_places(grid(1, 9)))
    long, thin = np.linalg.svd(line - line.mean(axis=0))[1]
    assert thin < 0.02 * long  # a chain is all but straight


def test_parts_that_nothing_joins_and_one_node() -> None:
    nodes, tables = factor_places(factor_graph([2, 2, 3], []))
    assert nodes.shape == (3, 2) and tables.shape == (0, 2)
    assert np.linalg.norm(nodes[0] - nodes[1]) > 0.5
    assert factor_picture(factor_graph([2], [])).axes[0].texts[0].get_text() == "0"


def test_a_picture_is_written(tmp_path) -> None:
    path = tmp_path / "alarm.png"
    factor_picture(network_factors(alarm(), {"N": "yes"}), list("BEARN")).savefig(path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_own_places_are_taken() -> None:
    graph = factor_graph([2, 2], [([0, 1], np.zeros((2, 2)))])
    figure = factor_picture(graph, places=(np.array([[0, 0], [4, 0]]), np.array([[2, 1]])))
    assert figure.axes[0].get_xlim() == (-0.75, 4.75)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros(3),), "graph must be a FactorGraph"),
        ((grid(20, 20),), "graph has 400 nodes and 760 tables, at most 400 in all are drawn"),
        ((grid(1, 2), ["a"]), r"names must be \[n\] = \[2\] names, got 1"),
        ((grid(1, 2), None, (np.zeros((2, 2)), np.zeros((2, 2)))),
         r"places\[1\] must be \[1, 2\] finite numbers, got shape \(2, 2\)"),
    ],
)  # fmt: skip
def test_refusals(arguments: tuple, message: str) -> None:
    refused(message, factor_picture, *arguments)


def test_matplotlib_is_asked_for_in_words(monkeypatch) -> None:
    given = builtins.__import__

    def without(name: str, *rest: object):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return given(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    refused("pictures need matplotlib", lambda: factor_picture(grid(1, 2)), error=ImportError)


def test_the_output_type_is_imported_without_matplotlib() -> None:
    code = "import sys, jaxstruct.graphs; assert 'matplotlib' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_linked_nodes_lie_closer() -> None:
    links = np.array([[0, 1], [1, 2], [3, 4], [4, 5]])
    places = graph_places(6, links)
    apart = np.linalg.norm(places[:, None] - places[None], axis=2)
    assert apart[tuple(links.T)].max() < apart[:3, 3:].mean() and np.isfinite(places).all()
