"""Graphs of the commands: training and reading, the linear program, places of pictures."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from experiments.denoising import Drawing, drawn_grids
from experiments.lib import graph_training
from experiments.lib.factor_pictures import factor_picture, factor_places, graph_places
from experiments.lib.graph_training import EDGELESS, TRAINING, Model, Stop, error_of, read_by
from experiments.lib.local_polytope import METHODS, best_value, local_polytope, relaxed_optimum
from jaxstruct import Status
from jaxstruct.graphs.factors import FactorGraph, factor_graph, graph_potentials
from jaxstruct.graphs.inference import graph_potentials_of
from jaxstruct.graphs.oracles.enumeration import all_scores, labelling
from jaxstruct.graphs.potentials import grid_edges
from tests.graphs.random_graphs import cases
from tests.graphs.test_evidence import alarm

MODEL, STOP = Model(3, 2, True, 20, "float32"), Stop(1e-2, 100, False)
PART = drawn_grids(np.random.default_rng(0), 6, Drawing(3, 2, 1.5, 20, 0.8)).part("float32")


@pytest.mark.parametrize("name", [name for name in TRAINING if name not in ("bethe", "bound")])
def test_every_way_trains_and_is_read(name: str) -> None:
    weights, row = graph_training.trained(MODEL, PART, name, 0.5, STOP)
    assert row["training"] == name and row["status"] is Status.CONVERGED
    assert row["primal"] > 0 and (row["dual"] is None) == (name not in ("independent", "svm"))
    assert ("pairs" in weights) == (name not in EDGELESS)
    read = read_by(MODEL, PART, name, weights, graph_training.PREDICTION)
    assert list(read) == list(graph_training.PREDICTION)
    for labelled in read.values():
        assert error_of(PART.y, labelled) < 40
        np.testing.assert_array_equal(labelled.offsets, PART.y.offsets)
    if name == "independent":  # a multiclass machine of all nodes
        w, y = np.asarray(weights["nodes"]), PART.y.rows
        scores = PART.alone.nodes.rows @ w
        own = scores[np.arange(len(y)), y]
        slack = np.max(scores + (np.arange(2) != y[:, None]) - own[:, None], axis=1)
        objective = np.sum(w**2) / 2 + 0.5 * slack.sum()
        assert row["dual"] <= row["primal"] == pytest.approx(objective, rel=1e-5)
    if name in EDGELESS:
        assert len({error_of(PART.y, labelled) for labelled in read.values()}) == 1


def test_marginals_are_those_of_enumeration() -> None:
    """Loopy belief propagation on 3 x 3 cells that attract a little has the likeliest labels."""
    nodes = np.array([[1, -1], [-1, 1], [0, 0]], np.float32)
    weights = {"nodes": nodes, "pairs": np.float32(0.2) * np.eye(2, dtype=np.float32)[None]}
    read = read_by(MODEL, PART, "svm", weights, ("marginals",))["marginals"]
    problem = MODEL.problem()
    scores_of = jax.jit(
        lambda weights, x: all_scores(graph_potentials_of(problem.model.potentials(weights, x)))
    )
    labels = np.asarray(labelling(np.arange(512), 9, 2))
    for i, own in enumerate(read):
        x = PART.x._replace(
            nodes=PART.x.nodes[i], edges=PART.x.edges[i], number_of_nodes=np.int32(9),
            number_of_edges=np.int32(12),
        )  # fmt: skip
        scores = np.asarray(scores_of(weights, x))
        p = np.exp(scores - scores.max()) @ labels / np.exp(scores - scores.max()).sum()
        clear = np.abs(p - 0.5) > 0.02
        np.testing.assert_array_equal(own[clear], (p > 0.5)[clear])


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


def grid(height: int, width: int) -> FactorGraph:
    tables = [(edge, np.zeros((2, 2))) for edge in np.concatenate(grid_edges(height, width))]
    return factor_graph([2] * (height * width), tables)


def test_every_part_is_drawn() -> None:
    graph = alarm({})
    (axes,) = factor_picture(graph, list("BEARN")).axes
    markers = [line.get_marker() for line in axes.lines]
    assert markers.count("s") == 5 and markers.count("o") == 5
    assert len(markers) - 10 == sum(map(len, graph.scopes)) == 9
    written = [text.get_text() for text in axes.texts]
    assert written[:2] == [r"$\psi_{0}$", r"$\psi_{1}$"] and written[5:] == list("BEARN")


def test_places_keep_parts_apart_and_repeat() -> None:
    for graph in (alarm({}), grid(3, 4), grid(1, 9)):
        nodes, tables = factor_places(graph)
        np.testing.assert_array_equal(nodes, factor_places(graph)[0])
        every = np.concatenate([nodes, tables])
        gaps = np.linalg.norm(every[:, None] - every[None], axis=2) + 9 * np.eye(len(every))
        assert gaps.min() > 0.5
        for scope, at in zip(graph.scopes, tables, strict=True):
            lengths = np.linalg.norm(nodes[list(scope)] - at, axis=1)
            assert (0.5 < lengths).all() and (lengths < 1.6).all()
    long, thin = np.linalg.svd(every - every.mean(axis=0))[1]
    assert thin < 0.02 * long  # a chain is all but straight


def test_linked_nodes_lie_closer() -> None:
    links = np.array([[0, 1], [1, 2], [3, 4], [4, 5]])
    places = graph_places(6, links)
    apart = np.linalg.norm(places[:, None] - places[None], axis=2)
    assert apart[tuple(links.T)].max() < apart[:3, 3:].mean() and np.isfinite(places).all()
