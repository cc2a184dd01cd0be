"""Factor graphs of tables over any nodes, and what is refused."""

from __future__ import annotations

import itertools

import jax
import numpy as np
import pytest

from jaxstruct.graphs.factors import factor_graph, graph_potentials
from jaxstruct.graphs.oracles.conditional_modes import conditional_modes
from jaxstruct.graphs.potentials import checked_edges, complete_edges, grid_edges, score_labels
from tests.graphs.random_graphs import cases, every_labelling, padded, quick_jit, scores_of, stacked
from tests.lib.refusals import refused

NODES, PAIRS, EDGES = np.zeros((3, 2)), np.zeros((2, 2, 2)), [[0, 1], [1, 2]]


def test_tables_of_any_size_are_summed() -> None:
    """Random tables over up to three of four nodes, of different numbers of labels."""
    rng, joined = np.random.default_rng(0), 0
    for _ in range(200):
        sizes = rng.integers(1, 4, 4)
        scopes = [rng.permutation(4)[: rng.integers(1, 4)].tolist() for _ in range(4)]
        tables = [rng.normal(size=sizes[scope]) for scope in scopes]
        built = factor_graph(sizes, list(zip(scopes, tables, strict=True)), dtype="float64")
        assert built.scopes == tuple(map(tuple, scopes))
        every = np.array(list(itertools.product(*map(range, sizes))))
        wanted = sum(
            table[tuple(every[:, scope].T)] for scope, table in zip(scopes, tables, strict=True)
        )
        large = [scope for scope in scopes if len(scope) == 3]
        joint = [np.ravel_multi_index(every[:, s].T, sizes[s]) for s in large]
        labels = np.column_stack([every, *joint])
        np.testing.assert_allclose(scores_of(built.potentials, labels), wanted, atol=1e-12)
        for v, scope in enumerate(large, 4):  # another joint label than that of its nodes
            most = int(np.prod(sizes[scope]))
            other = labels.copy()
            other[:, v] = (other[:, v] + 1) % most
            assert most == 1 or (scores_of(built.potentials, other) == -np.inf).all()
            joined += 1
    assert joined > 100


def test_padding_changes_nothing() -> None:
    rng = np.random.default_rng(3)
    graph = graph_potentials(rng.normal(size=(3, 2)), EDGES, rng.normal(size=(2, 2, 2)))
    batch = stacked([graph, padded(graph, 8, 8, 3)])
    assert batch.nodes.shape == (2, 8, 3) and batch.pairs.shape == (2, 8, 3, 3)
    assert (batch.nodes[:, :3, 2] == -np.inf).all() and (batch.edges[:, 2:] == -1).all()
    np.testing.assert_array_equal(batch.pairs[0], batch.pairs[1])
    labels = every_labelling(3, 2)
    again = jax.tree.map(lambda leaf: leaf[0], batch)
    cut = again._replace(edges=again.edges[:2], pairs=again.pairs[:2])
    np.testing.assert_allclose(scores_of(cut, labels), scores_of(graph, labels))


def test_minus_infinity_that_leaves_no_output_is_traced_along_edges() -> None:
    """0 must equal 1, 1 must equal 2, and 0 must differ from 2, each with one label at the ends."""
    equal = np.where(np.eye(2) > 0, 0, -np.inf)
    nodes = np.array([[0, -np.inf], [0, 0], [-np.inf, 0]])
    refused("leave no output", graph_potentials, nodes, EDGES, np.stack([equal, equal]))
    graph_potentials(nodes, EDGES, np.stack([equal, equal[::-1]]))


def test_grids_and_complete_graphs() -> None:
    right, down = grid_edges(2, 3)
    assert right.tolist() == [[0, 1], [1, 2], [3, 4], [4, 5]]
    assert down.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert right.dtype == np.int32
    assert [len(each) for each in grid_edges(1, 1)] == [0, 0]
    assert complete_edges(3).tolist() == [[0, 1], [0, 2], [1, 2]]
    assert complete_edges(1).shape == (0, 2)


GRAPH = graph_potentials(np.zeros((3, 2)), [[0, 1], [2, 1]], np.zeros((2, 2, 2)))


@pytest.mark.usefixtures("x64")
def test_scores_of_thousands_of_labellings() -> None:
    given, rng = cases(), np.random.default_rng(1)
    which = [int(rng.integers(len(case.labels))) for case in given.cases]
    labels = np.full((len(which), 12), -1, np.int32)
    for row, case, k in zip(labels, given.cases, which, strict=True):
        row[: case.labels.shape[1]] = case.labels[k]
    found = quick_jit(jax.vmap(score_labels))(given.batch, labels)
    wanted = [case.scores[k] for case, k in zip(given.cases, which, strict=True)]
    np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_shared_tables_are_those_of_their_edges() -> None:
    rng = np.random.default_rng(0)
    nodes, tables, kinds = rng.normal(size=(3, 2)), rng.normal(size=(2, 2, 2)), [1, 1]
    shared = graph_potentials(nodes, [[0, 1], [2, 1]], tables, kinds=kinds)
    own = graph_potentials(nodes, [[0, 1], [2, 1]], tables[kinds])
    labels = every_labelling(3, 2)
    found = quick_jit(jax.vmap(score_labels, (None, 0)))(shared, labels)
    np.testing.assert_allclose(found, scores_of(own, labels), rtol=1e-5)
    run = quick_jit(conditional_modes)
    np.testing.assert_array_equal(run(shared).labels, run(own).labels)


def test_edges_and_potentials_that_do_not_fit_are_refused() -> None:
    for edges, message in (
        ([[0, 3]], r"edges\[0, 1\] is 3: expected 0..2, the nodes, counted from 0"),
        ([[0, 1], [2, 2]], r"edges\[1\] is \[2, 2\]: expected two nodes"),
        ([[0, 1], [1, 2], [1, 0]], r"edges\[0\] and edges\[2\] both join 0 and 1"),
        ([[0.0, 1.0]], r"edges must be \[E, 2\] integers, got float64"),
    ):
        refused(message, checked_edges, "edges", edges, 3)
    assert checked_edges("edges", [], 3).shape == (0, 2)
    for change, message in (
        ({"nodes": np.zeros(3)}, r"nodes must be \[V, S\], got float32 of shape \(3,\); use"),
        ({"nodes": np.zeros((0, 2))}, r"nodes must be \[V, S\], none of them 0, got shape"),
        ({"edges": np.zeros((2, 3), int)}, r"edges must be \[E, 2\], got int32 of shape \(2, 3\)"),
        ({"pairs": np.zeros((3, 2, 2))}, r"pairs must be \[E = 2, S = 2, S = 2\], got"),
        ({"kinds": np.zeros(3, int)}, r"kinds must be \[E = 2\], got int32 of shape \(3,\)"),
        ({"number_of_nodes": np.int32(4)}, r"number_of_nodes must be in 1..3, got 4"),
        ({"number_of_edges": np.int32(-1)}, r"number_of_edges must be in 0..2, got -1"),
        ({"nodes": np.zeros((3, 2), int), "pairs": np.zeros((2, 2, 2), int)},
         "potentials must be floating-point numbers, got int32"),
    ):  # fmt: skip
        refused(message, conditional_modes, GRAPH._replace(**change))
    refused("potentials must be GraphPotentials", conditional_modes, tuple(GRAPH))


def test_tables_that_do_not_fit_are_refused() -> None:
    dead, kinds = np.full((2, 2), -np.inf), np.array([0, 2])
    for arguments, message in (
        ((np.zeros((0, 2)), [], np.zeros((0, 2, 2))), "a graph without nodes has no output"),
        ((NODES + np.nan, EDGES, PAIRS), r"nodes\[0, 0\] is nan: expected potentials that are"),
        ((NODES, [[0, 3]], PAIRS[:1]), r"edges\[0, 1\] is 3"),
        ((NODES, EDGES, PAIRS[:1]), r"pairs must be \[E = 2, S = 2, S = 2\]"),
        ((NODES, EDGES, PAIRS + np.inf), r"pairs\[0, 0, 0\] is inf"),
        ((NODES, EDGES, np.stack([dead, dead])), "the potentials leave no output: every label of"),
        ((NODES - np.inf, [], np.zeros((0, 2, 2))), "leave no output: every label of node 0"),
    ):
        refused(message, graph_potentials, *arguments)
    words = r"kinds\[1\] is 2: expected 0..1, a row of pairs"
    refused(words, graph_potentials, NODES, EDGES, PAIRS, kinds=kinds)
    for sizes, factors, message in (
        ([], [], "a graph without nodes has no output"),
        ([2, 0], [], r"number_of_labels\[1\] must be at least 1, got 0"),
        ([2, 2], [([0, 2], PAIRS[0])], r"factors\[0\]\[0\]\[1\] is 2: expected 0..1, nodes"),
        ([2, 2], [([0, 0], PAIRS[0])], r"\[0\]\[0\] is \[0, 0\]: expected different"),
        ([2, 3], [([0, 1], np.zeros((3, 2)))], r"factors\[0\]\[1\] must be \[2, 3\] numbers"),
        ([2], [([0], [np.nan, 0])], r"factors\[0\]\[1\]\[0\] is nan"),
        ([2], [np.zeros(2)], r"factors\[0\] must be a \(nodes, table\) pair"),
        ([17] * 3, [([0, 1, 2], np.zeros((17,) * 3))], "has 4913 joint labels, at most 4096 fit"),
        ([2], [([0], [-np.inf, -np.inf])], "leave no output: every label of node 0"),
    ):
        refused(message, factor_graph, sizes, factors)
