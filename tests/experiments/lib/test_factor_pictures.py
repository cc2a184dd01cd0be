"""Pictures of factor graphs: every part is drawn, at the same place every time."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from experiments.lib.factor_pictures import factor_picture, factor_places, graph_places
from jaxstruct.graphs.factors import FactorGraph, factor_graph
from jaxstruct.graphs.potentials import grid_edges
from tests.graphs.test_evidence import alarm
from tests.lib.refusals import refused


def grid(height: int, width: int) -> FactorGraph:
    tables = [(edge, np.zeros((2, 2))) for edge in np.concatenate(grid_edges(height, width))]
    return factor_graph([2] * (height * width), tables)


def test_every_part_is_drawn() -> None:
    graph = alarm({})
    figure = factor_picture(graph, list("BEARN"))
    (axes,) = figure.axes
    lines = [line for line in axes.lines if line.get_marker() in ("None", "")]
    markers = [line.get_marker() for line in axes.lines if line not in lines]
    assert len(lines) == sum(map(len, graph.scopes)) == 9
    assert markers.count("s") == 5 and markers.count("o") == 5
    written = [text.get_text() for text in axes.texts]
    assert written[:2] == [r"$\psi_{0}$", r"$\psi_{1}$"] and written[5:] == list("BEARN")


def test_places_keep_parts_apart_and_repeat() -> None:
    for graph in (alarm({}), grid(3, 4), grid(1, 9)):
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
    assert factor_picture(factor_graph([2], []), "0").axes[0].texts[0].get_text() == "0"


def test_a_picture_is_written(tmp_path) -> None:
    path = tmp_path / "alarm.png"
    factor_picture(alarm({"N": 1}), list("BEARN")).savefig(path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_too_large_a_graph_is_refused() -> None:
    refused("graph has 400 nodes and 760 tables, at most 400", factor_places, grid(20, 20))


def test_the_output_type_is_imported_without_matplotlib() -> None:
    code = "import sys, jaxstruct.graphs; assert 'matplotlib' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_linked_nodes_lie_closer() -> None:
    links = np.array([[0, 1], [1, 2], [3, 4], [4, 5]])
    places = graph_places(6, links)
    apart = np.linalg.norm(places[:, None] - places[None], axis=2)
    assert apart[tuple(links.T)].max() < apart[:3, 3:].mean() and np.isfinite(places).all()
