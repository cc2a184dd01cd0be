"""Variable elimination against enumeration: the best labelling, log Z, marginals, derivatives."""

from __future__ import annotations

import functools

import jax
import numpy as np
import pytest

from jaxstruct.graphs.elimination import Elimination, elimination, min_fill_width
from jaxstruct.graphs.oracles.variable_elimination import (
    best_labelling,
    best_other,
    log_partition,
    marginals,
)
from tests.graphs.random_graphs import Cases, cases, quick_jit, stacked_plans
from tests.lib.refusals import refused

WIDTH = 3
best = quick_jit(jax.vmap(best_labelling))
other = quick_jit(jax.vmap(best_other))
values = quick_jit(jax.vmap(jax.value_and_grad(log_partition, allow_int=True)))
probabilities = quick_jit(jax.vmap(marginals))
pytestmark = pytest.mark.usefixtures("x64")


@functools.cache
def planned() -> tuple[Cases, Elimination]:
    """The graphs of a width up to `WIDTH`, with plans of that width."""
    given = cases()
    plain = [(len(c.graph.nodes), c.graph.edges) for c in given.cases]
    which = np.flatnonzero([min_fill_width(*each) <= WIDTH for each in plain])
    plans = [elimination(*plain[i], WIDTH) for i in which]
    kept = Cases(
        tuple(given.cases[i] for i in which),
        given.take(which),
        given.best[which],
        given.log_partition[which],
    )
    return kept, stacked_plans(plans, 12, 16)


def _preferred(case, plan: np.ndarray) -> np.ndarray:
    """Of the best labellings the one that the order decides for: last eliminated node first."""
    tied = case.labels[case.scores >= case.scores.max() - 1e-9]
    return tied[np.lexsort(tied[:, plan[: case.labels.shape[1], 0]].T)[0]]


def test_the_best_labelling_of_thousands_of_graphs() -> None:
    given, plans = planned()
    assert set(given.kinds) == {"tree", "cycle", "complete", "any", "apart", "grid"}
    found = best(given.batch, plans)
    np.testing.assert_allclose(found.score, given.best, atol=1e-10)
    given.check_labels(found.labels, found.score, 1e-10)
    for case, plan, own in zip(given.cases, plans.steps, np.asarray(found.labels), strict=True):
        if case.scores.max() > -np.inf:
            wanted = _preferred(case, plan)
            assert (own[: len(wanted)] == wanted).all(), (own, wanted)


@pytest.mark.thorough
def test_in_float32() -> None:
    given, plans = planned()
    found = best(given.cast("float32"), plans)
    np.testing.assert_allclose(found.score, given.best, rtol=1e-5, atol=1e-5)
    given.check_labels(found.labels, found.score, 2e-5)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_best_other_labelling_of_thousands_of_graphs(dtype: str) -> None:
    """Than the best one, which makes the two best, and than one at random."""
    given, plans = planned()
    batch, rng = given.cast(dtype), np.random.default_rng(0)
    close = 1e-9 if dtype == "float64" else 3e-5
    drawn = rng.integers(0, batch.nodes.shape[2], batch.nodes.shape[:2]).astype(np.int32)
    for labels in (np.asarray(best(batch, plans).labels), drawn):
        found = other(batch, plans, labels)
        for case, given_y, y, score in zip(given.cases, labels, *map(np.asarray, found),
                                           strict=True):  # fmt: skip
            V = len(case.graph.nodes)
            rest = case.scores[(case.labels != given_y[:V]).any(axis=1)]
            wanted = rest.max(initial=-np.inf)
            assert np.isclose(score, wanted, rtol=close, atol=close)
            if wanted > -np.inf:
                assert (y[:V] != given_y[:V]).any() and (y[V:] == -1).all()
                assert case.scores[(case.labels == y[:V]).all(axis=1)] >= wanted - 10 * close
            else:
                assert (y[:V] == given_y[:V]).all()


@pytest.mark.thorough
def test_the_best_other_alone_and_its_derivative() -> None:
    given, plans = planned()
    labels = np.asarray(best(given.batch, plans).labels)
    batch = other(given.batch, plans, labels)
    i = int(np.argmax((given.kinds == "cycle") & (np.asarray(batch.score) > -np.inf)))
    graph, plan = jax.tree.map(lambda leaf: leaf[i], (given.batch, plans))

    def score(nodes: jax.Array) -> tuple[jax.Array, jax.Array]:
        found = best_other(graph._replace(nodes=nodes), plan, labels[i])
        return found.score, found.labels

    (value, own), slope = quick_jit(jax.value_and_grad(score, has_aux=True))(graph.nodes)
    assert value == pytest.approx(float(batch.score[i]))
    np.testing.assert_array_equal(own, batch.labels[i])
    np.testing.assert_array_equal(slope, np.asarray(own)[:, None] == np.arange(slope.shape[1]))
    with refused(r"labels must be integers \[V\] = \[12\], got float64"):
        best_other(graph, plan, np.zeros(12))


def test_log_partition_and_its_gradient() -> None:
    given, plans = planned()
    found, gradient = values(given.batch, plans)
    np.testing.assert_allclose(found, given.log_partition, atol=1e-9)
    own = probabilities(given.batch, plans)
    np.testing.assert_allclose(own.log_partition, given.log_partition, atol=1e-9)
    np.testing.assert_allclose(gradient.nodes, own.nodes, atol=1e-12)
    np.testing.assert_allclose(gradient.pairs, own.pairs, atol=1e-12)
    impossible = given.best == -np.inf
    for found, wanted, real in zip(
        (own.nodes, own.pairs), given.marginals(), (given.batch.number_of_nodes,
        given.batch.number_of_edges), strict=True,
    ):  # fmt: skip
        found = np.asarray(found)
        np.testing.assert_allclose(found, wanted, atol=1e-9)
        padding = np.arange(found.shape[1]) >= real[:, None]
        assert not found[padding].any() and not found[impossible].any()


def test_alone_as_in_a_batch_and_its_derivative() -> None:
    given, plans = planned()
    together = best(given.batch, plans)
    alone = quick_jit(jax.value_and_grad(lambda g, p: best_labelling(g, p).score, allow_int=True))
    for i in (3, 300, 900):
        own = jax.tree.map(lambda leaf, i=i: leaf[i], (given.batch, plans))
        score, counts = alone(*own)
        np.testing.assert_array_equal(score, together.score[i])
        V = int(own[0].number_of_nodes)
        labels = np.asarray(together.labels[i])[:V]
        np.testing.assert_array_equal(counts.nodes[:V], np.eye(3)[labels])
        assert not np.asarray(counts.nodes[V:]).any()


def test_refusals() -> None:
    given, plans = planned()
    own, plan = jax.tree.map(lambda leaf: leaf[0], (given.batch, plans))
    refused("plan must be an Elimination", best_labelling, own, plan.steps)
    with refused("plan must be of this graph, of shapes"):
        best_labelling(own, plan._replace(steps=plan.steps[:3]))
    wide = elimination(12, own.edges[:0], 10)._replace(edges=np.zeros((16, 12), np.int32))
    refused("width 10 over 3 labels has tables of 177147 entries", best_labelling, own, wide)
