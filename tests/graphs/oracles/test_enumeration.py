"""Enumeration in a program against enumeration in numpy."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct.graphs.factors import graph_potentials
from jaxstruct.graphs.oracles.enumeration import (
    all_scores,
    best_of_all,
    enumerated_log_partition,
    labelling,
)
from tests.graphs.random_graphs import Cases, cases, padded, quick_jit
from tests.lib.enumeration import check_alone
from tests.lib.refusals import refused

best = quick_jit(jax.vmap(best_of_all))
partitions = quick_jit(jax.vmap(enumerated_log_partition))
pytestmark = pytest.mark.usefixtures("x64")


def small(dtype: str) -> Cases:
    """Without the 3 x 3 grids, cut to six nodes."""
    given = cases()
    which = np.flatnonzero(given.kinds != "grid")
    batch = jax.tree.map(lambda leaf: leaf[which], given.cast(dtype))
    batch = batch._replace(nodes=batch.nodes[:, :6])
    return Cases(
        tuple(given.cases[i] for i in which), batch, given.best[which], given.log_partition[which]
    )


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-12), ("float32", 1e-5)])
def test_the_best_of_thousands_of_graphs(dtype: str, tolerance: float) -> None:
    given = small(dtype)
    found = best(given.batch)
    np.testing.assert_allclose(found.score, given.best, rtol=tolerance, atol=tolerance)
    given.check_labels(found.labels, found.score, 2 * tolerance)
    if dtype == "float64":
        for case, own in zip(given.cases, np.asarray(found.labels), strict=True):
            if case.scores.max() > -np.inf:  # ties: the lexicographically lowest
                first = case.labels[np.argmax(case.scores >= case.scores.max() - 1e-9)]
                np.testing.assert_array_equal(own[: len(first)], first)
        np.testing.assert_allclose(partitions(given.batch), given.log_partition, atol=1e-11)


def test_all_scores_of_one_graph() -> None:
    given = small("float64")
    case = given.cases[350]
    V, S = case.graph.nodes.shape
    np.testing.assert_allclose(quick_jit(all_scores)(case.graph), case.scores, atol=1e-12)
    labels = labelling(jnp.arange(S**V), V, S)
    np.testing.assert_array_equal(labels, case.labels)


def test_alone_as_in_a_batch() -> None:
    given = small("float32")
    check_alone(quick_jit(best_of_all), (given.batch,), best(given.batch), (0, 350, 801), 1e-6)


def test_too_many_are_refused() -> None:
    graph = graph_potentials(np.zeros((3, 2)), [], np.zeros((0, 2, 2)))
    with refused(r"18 nodes \(with padding\) of 2 labels have 262144"):
        best_of_all(padded(graph, 18, 8, 2))
