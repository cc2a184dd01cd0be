"""The k best labellings against the enumeration of all of them."""

from __future__ import annotations

import functools

import jax
import numpy as np
import pytest

from jaxstruct.graphs.oracles.enumeration import best_of_all
from jaxstruct.graphs.oracles.k_best import k_best_labellings, k_best_of_all
from jaxstruct.graphs.oracles.variable_elimination import best_labelling
from tests.graphs.oracles.test_variable_elimination import planned
from tests.graphs.random_graphs import quick_jit
from tests.lib.refusals import refused

K = 4
best = quick_jit(jax.vmap(best_labelling))
pytestmark = pytest.mark.usefixtures("x64")


@functools.cache
def ranked(k):
    return quick_jit(jax.vmap(functools.partial(k_best_labellings, k=k)))


def check(case, labels, scores, tolerance) -> None:
    """The k largest scores, of labellings that are all distinct and have them."""
    V = len(case.graph.nodes)
    order = -np.sort(-case.scores[case.scores > -np.inf])[:K]
    np.testing.assert_allclose(scores[: len(order)], order, rtol=tolerance, atol=tolerance)
    assert (scores[len(order) :] == -np.inf).all() and (labels[len(order) :] == -1).all()
    assert (labels[:, V:] == -1).all() and (labels[: len(order), :V] >= 0).all()
    found = [
        int(np.flatnonzero((case.labels == y[:V]).all(axis=1))[0]) for y in labels[: len(order)]
    ]
    assert len(set(found)) == len(found)
    np.testing.assert_allclose(case.scores[found], order, rtol=tolerance, atol=tolerance)


def test_the_best_of_thousands_of_graphs() -> None:
    """The first is that of one best. Integers and zeros among the potentials make many ties."""
    given, plans = planned()
    batch, tolerance = given.batch, 1e-9
    found = jax.tree.map(np.asarray, ranked(K)(batch, plans))
    assert found.score.dtype == np.float64 and len(given.cases) > 1000
    for case, labels, scores in zip(given.cases, *found, strict=True):
        check(case, labels, scores, tolerance)
    one = best(batch, plans)
    some = np.asarray(one.score) > -np.inf
    np.testing.assert_array_equal(found.labels[some, 0], np.asarray(one.labels)[some])


def test_by_enumeration() -> None:
    """Ties go to the lowest labelling; there may be fewer labellings than asked for."""
    given, _ = planned()
    tree = np.flatnonzero(given.kinds == "grid")
    small = jax.tree.map(lambda leaf: leaf[tree, :9] if leaf.ndim > 1 and leaf.shape[1] == 12
                         else leaf[tree], given.batch)  # fmt: skip
    small = small._replace(nodes=small.nodes[..., :2], pairs=small.pairs[..., :2, :2])
    found = quick_jit(jax.vmap(functools.partial(k_best_of_all, k=K)))(small)
    first = quick_jit(jax.vmap(best_of_all))(small)
    for i, labels, scores in zip(tree, *map(np.asarray, found), strict=True):
        check(given.cases[i], labels, scores, 1e-9)
    np.testing.assert_array_equal(found.labels[:, 0], first.labels)
    tied = jax.tree.map(lambda leaf: leaf[0], small)
    tied = tied._replace(nodes=0 * tied.nodes[:2], edges=tied.edges[:0], pairs=tied.pairs[:0])
    tied = tied._replace(number_of_nodes=np.int32(2), number_of_edges=np.int32(0))
    labels, scores = k_best_of_all(tied, K)
    np.testing.assert_array_equal(labels[:4], [[0, 0], [0, 1], [1, 0], [1, 1]])
    assert (np.asarray(labels)[4:] == -1).all() and (np.asarray(scores)[4:] == -np.inf).all()


def test_k_below_one_is_refused() -> None:
    given, plans = planned()
    graph, plan = jax.tree.map(lambda leaf: leaf[0], (given.batch, plans))
    refused("k must be at least 1, got 0", k_best_labellings, graph, plan, 0)
