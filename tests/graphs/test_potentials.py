"""The score of a labelling, and potentials that are refused."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from jaxstruct.graphs.factors import graph_potentials
from jaxstruct.graphs.oracles.conditional_modes import conditional_modes
from jaxstruct.graphs.potentials import GraphPotentials, score_labels
from tests.graphs.random_graphs import cases, every_labelling, quick_jit, scores_of
from tests.lib.refusals import refused

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
    found = jax.vmap(score_labels, (None, 0))(shared, labels)
    np.testing.assert_allclose(found, scores_of(own, labels), rtol=1e-5)
    run = quick_jit(conditional_modes)
    np.testing.assert_array_equal(run(shared).labels, run(own).labels)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nodes": np.zeros(3)}, r"nodes must be \[V, S\], got float32 of shape \(3,\); use"),
        ({"nodes": np.zeros((0, 2))}, r"nodes must be \[V, S\], none of them 0, got shape"),
        ({"edges": np.zeros((2, 3), int)}, r"edges must be \[E, 2\], got int32 of shape \(2, 3\)"),
        ({"edges": np.zeros((2, 2))}, "edges must be integers, got float32"),
        ({"pairs": np.zeros((3, 2, 2))}, r"pairs must be \[E = 2, S = 2, S = 2\], got"),
        ({"kinds": np.zeros(3, int)}, r"kinds must be \[E = 2\], got int32 of shape \(3,\)"),
        ({"number_of_nodes": np.int32(4)}, r"number_of_nodes must be in 1..3, got 4"),
        ({"number_of_edges": np.int32(-1)}, r"number_of_edges must be in 0..2, got -1"),
        ({"number_of_edges": np.zeros(2, int)}, "number_of_edges must be a scalar"),
        (
            {"nodes": np.zeros((3, 2), int), "pairs": np.zeros((2, 2, 2), int)},
            "potentials must be floating-point numbers, got int32",
        ),
    ],
)
def test_refusals(change: dict, message: str) -> None:
    refused(message, lambda: conditional_modes(GRAPH._replace(**change)))


def test_something_else_is_refused() -> None:
    refused("potentials must be GraphPotentials", conditional_modes, tuple(GRAPH))
    assert isinstance(GRAPH, GraphPotentials)
