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
from tests.graphs.random_graphs import listed, quick_jit
from tests.lib.enumeration import check_k_best
from tests.lib.refusals import refused

K = 4
best = quick_jit(jax.vmap(best_labelling))
pytestmark = pytest.mark.usefixtures("x64")


@functools.cache
def ranked(k):
    return quick_jit(jax.vmap(functools.partial(k_best_labellings, k=k)))


def test_the_best_of_thousands_of_graphs() -> None:
    """The first is that of one best. Integers and zeros among the potentials make many ties."""
    given, plans = planned()
    batch = given.batch
    found = jax.tree.map(np.asarray, ranked(K)(batch, plans))
    assert found.score.dtype == np.float64 and len(given.cases) > 1000
    check_k_best(listed(given), found.labels, found.score, 1e-9)
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
    grids = given._replace(batch=small)
    check_k_best(listed(grids, tree), found.labels, found.score, 1e-9)
    np.testing.assert_array_equal(found.labels[:, 0], first.labels)
    tied = jax.tree.map(lambda leaf: leaf[0], small)
    tied = tied._replace(nodes=0 * tied.nodes[:2], edges=tied.edges[:0], pairs=tied.pairs[:0])
    tied = tied._replace(number_of_nodes=np.int32(2), number_of_edges=np.int32(0))
    labels, scores = quick_jit(functools.partial(k_best_of_all, k=K))(tied)
    np.testing.assert_array_equal(labels[:4], [[0, 0], [0, 1], [1, 0], [1, 1]])
    assert (np.asarray(labels)[4:] == -1).all() and (np.asarray(scores)[4:] == -np.inf).all()


def test_k_below_one_is_refused() -> None:
    given, plans = planned()
    graph, plan = jax.tree.map(lambda leaf: leaf[0], (given.batch, plans))
    refused("k must be at least 1, got 0", k_best_labellings, graph, plan, 0)
