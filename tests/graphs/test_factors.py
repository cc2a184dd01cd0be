"""Factor graphs of tables over any nodes, and what is refused."""

from __future__ import annotations

import itertools

import jax
import numpy as np
import pytest

from jaxstruct.graphs.factors import factor_graph, graph_potentials
from tests.graphs.random_graphs import every_labelling, padded, scores_of, stacked
from tests.lib.refusals import refused

NODES, PAIRS, EDGES = np.zeros((3, 2)), np.zeros((2, 2, 2)), [[0, 1], [1, 2]]
DEAD = np.full((2, 2), -np.inf)


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros((0, 2)), [], np.zeros((0, 2, 2))), "a graph without nodes has no output"),
        ((np.zeros(3), EDGES, PAIRS), r"nodes must be \[V, S\] numbers"),
        ((NODES + np.nan, EDGES, PAIRS), r"nodes\[0, 0\] is nan: expected potentials that are"),
        ((NODES, [[0, 3]], PAIRS[:1]), r"edges\[0, 1\] is 3"),
        ((NODES, EDGES, np.zeros((2, 2, 3))), r"pairs must be \[E = 2, S = 2, S = 2\] numbers"),
        ((NODES, EDGES, PAIRS[:1]), r"pairs must be \[E = 2, S = 2, S = 2\]"),
        ((NODES, EDGES, PAIRS + np.inf), r"pairs\[0, 0, 0\] is inf"),
        ((NODES, EDGES, np.stack([DEAD, DEAD])), "the potentials leave no output: every label of"),
        ((NODES - np.inf, [], np.zeros((0, 2, 2))), "leave no output: every label of node 0"),
    ],
)
def test_refusals_of_potentials(arguments: tuple, message: str) -> None:
    refused(message, graph_potentials, *arguments)


def test_minus_infinity_that_leaves_no_output_is_traced_along_edges() -> None:
    """0 must equal 1, 1 must equal 2, and 0 must differ from 2, each with one label at the ends."""
    equal = np.where(np.eye(2) > 0, 0, -np.inf)
    nodes = np.array([[0, -np.inf], [0, 0], [-np.inf, 0]])
    refused("leave no output", graph_potentials, nodes, EDGES, np.stack([equal, equal]))
    graph_potentials(nodes, EDGES, np.stack([equal, equal[::-1]]))


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        ([0], r"kinds must be \[E = 2\] integers"),
        ([0, 2], r"kinds\[1\] is 2: expected 0..1, a row of pairs"),
        ([0.0, 1.0], r"kinds must be \[E = 2\] integers, got float64"),
    ],
)
def test_refusals_of_kinds(kinds: list, message: str) -> None:
    refused(message, graph_potentials, NODES, EDGES, PAIRS, kinds=np.array(kinds))


@pytest.mark.parametrize(
    ("sizes", "factors", "message"),
    [
        ([], [], "a graph without nodes has no output"),
        ([2, 0], [], r"number_of_labels\[1\] must be at least 1, got 0"),
        (
            [2, 2],
            [([0, 2], np.zeros((2, 2)))],
            r"factors\[0\]\[0\]\[1\] is 2: expected 0..1, nodes",
        ),
        ([2, 2], [([0, 0], np.zeros((2, 2)))], r"\[0\]\[0\] is \[0, 0\]: expected different"),
        ([2, 3], [([0, 1], np.zeros((3, 2)))], r"factors\[0\]\[1\] must be \[2, 3\] numbers"),
        ([2], [([0], [np.nan, 0])], r"factors\[0\]\[1\]\[0\] is nan"),
        ([2], [np.zeros(2)], r"factors\[0\] must be a \(nodes, table\) pair"),
        ([17] * 3, [([0, 1, 2], np.zeros((17,) * 3))], "has 4913 joint labels, at most 4096 fit"),
        ([2], [([0], [-np.inf, -np.inf])], "leave no output: every label of node 0"),
    ],
)
def test_refusals_of_factors(sizes: list, factors: list, message: str) -> None:
    refused(message, factor_graph, sizes, factors)
