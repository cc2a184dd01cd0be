"""Belief propagation: exact on forests, a fixed point elsewhere."""

from __future__ import annotations

import functools

import jax
import numpy as np
import pytest

from jaxstruct.graphs.oracles.belief_propagation import SCHEDULES, Propagated, belief_propagation
from tests.graphs.random_graphs import cases, quick_jit

pytestmark = pytest.mark.usefixtures("x64")


@functools.cache
def found(kind: str, schedule: str, dtype: str = "float64") -> Propagated:
    """What all graphs end with."""
    tolerance = 1e-11 if dtype == "float64" else 1e-5
    run = functools.partial(
        belief_propagation, kind=kind, schedule=schedule, tolerance=tolerance, damping=0.3
    )
    return jax.device_get(quick_jit(jax.vmap(run))(cases().cast(dtype)))


@pytest.mark.parametrize(("kind", "schedule"), [("sum", "serial"), ("max", "flooding")])
def test_in_float32(kind: str, schedule: str) -> None:
    given, ends = cases(), found(kind, schedule, "float32")
    forest = np.isin(given.kinds, ("tree", "apart"))
    wanted = given.log_partition if kind == "sum" else given.best
    got = ends.log_partition if kind == "sum" else ends.value
    assert got.dtype == np.float32
    np.testing.assert_allclose(got[forest], wanted[forest], rtol=3e-5, atol=1e-4)
    given.check_labels(ends.labels, ends.value, 2e-5)


def test_alone_as_in_a_batch() -> None:
    """A graph stops by itself, whatever else is in the batch, one vmap or two."""
    run = functools.partial(
        belief_propagation, kind="sum", schedule="serial", tolerance=1e-11, damping=0.3
    )
    given, ends = cases().batch, found("sum", "serial")
    which = np.array([[3, 402], [650, 1001]])
    nested = quick_jit(jax.vmap(jax.vmap(run)))(jax.tree.map(lambda leaf: leaf[which], given))
    alone = quick_jit(run)(jax.tree.map(lambda leaf: leaf[402], given))
    for one, two, all_ in zip(alone, nested, ends, strict=True):
        np.testing.assert_allclose(one, all_[402], atol=1e-12)
        np.testing.assert_allclose(two, all_[which], atol=1e-12)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_sums_are_exact_on_forests(schedule: str) -> None:
    given, ends = cases(), found("sum", schedule)
    forest = np.isin(given.kinds, ("tree", "apart"))
    assert ends.converged[forest].all() and ends.converged.mean() > 0.95
    np.testing.assert_allclose(
        ends.log_partition[forest], given.log_partition[forest], rtol=1e-9, atol=1e-8
    )
    for i in np.flatnonzero(forest):
        (V, S), E = given.cases[i].graph.nodes.shape, len(given.cases[i].graph.edges)
        nodes, pairs = given.cases[i].marginals()
        np.testing.assert_allclose(ends.nodes[i, :V, :S], nodes, atol=1e-8)
        np.testing.assert_allclose(ends.pairs[i, :E, :S, :S], pairs, atol=1e-8)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_maxima_are_exact_on_forests(schedule: str) -> None:
    given, ends = cases(), found("max", schedule)
    forest = np.isin(given.kinds, ("tree", "apart"))
    np.testing.assert_allclose(ends.value[forest], given.best[forest], rtol=1e-9, atol=1e-9)
    given.check_labels(ends.labels, ends.value, 1e-9)
    assert (ends.value <= given.best + 1e-9).all()
    assert np.mean(given.best - ends.value < 1e-6) > 0.9
    for i in np.flatnonzero(forest)[:200]:
        case = given.cases[i]
        for v in range(case.labels.shape[1]):
            for s in range(case.graph.nodes.shape[1]):
                best = case.scores[case.labels[:, v] == s].max()
                np.testing.assert_allclose(
                    ends.nodes[i, v, s], best - case.scores.max(), rtol=1e-8, atol=1e-8
                )


def test_a_converged_run_is_a_fixed_point() -> None:
    """Both schedules end in one, and marginals of edges sum up to those of their nodes."""
    given, flooding, serial = cases(), found("sum", "flooding"), found("sum", "serial")
    for ends in (flooding, serial):
        for i in np.flatnonzero(ends.converged):
            for e, (a, b) in enumerate(given.cases[i].graph.edges):
                pair = ends.pairs[i, e]
                np.testing.assert_allclose(pair.sum(axis=1), ends.nodes[i, a], atol=1e-7)
                np.testing.assert_allclose(pair.sum(axis=0), ends.nodes[i, b], atol=1e-7)
    both = flooding.converged & serial.converged
    same = np.abs(flooding.log_partition - serial.log_partition)[both] < 1e-6
    assert same.mean() > 0.98


def test_a_run_that_is_cut_short_says_so() -> None:
    slowest = found("sum", "flooding").passes.argmax()
    own = jax.tree.map(lambda leaf: leaf[slowest], cases().batch)
    ends = quick_jit(lambda graph: belief_propagation(graph, passes=1))(own)
    assert not ends.converged and ends.passes == 1 and ends.residual > 1e-5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "mean"}, r"kind is 'mean'; choose one of \('sum', 'max'\)"),
        ({"schedule": "random"}, "schedule is 'random'; choose one of"),
        ({"passes": 0}, "passes must be at least 1, got 0"),
        ({"damping": 1.0}, r"damping must be in \[0, 1\), got 1.0"),
    ],
)
def test_the_door(options: dict, message: str) -> None:
    own = jax.tree.map(lambda leaf: leaf[0], cases().batch)
    with pytest.raises(ValueError, match=message):
        belief_propagation(own, **options)


@pytest.mark.parametrize("kind", ["sum", "max"])
def test_graphs_that_share_their_edges_end_as_each_alone(kind: str) -> None:
    """Tables are shared, too, or are their own; some labels are forbidden."""
    given = cases()
    own = given.take(np.flatnonzero(given.kinds == "any")[7])
    rng = np.random.default_rng(0)
    nodes = own.nodes + rng.normal(size=(4, *own.nodes.shape))
    nodes[1, 0, 0] = -np.inf
    pairs = own.pairs + rng.normal(size=(4, *own.pairs.shape))
    run = functools.partial(belief_propagation, kind=kind, passes=20, damping=0.2)
    alone = quick_jit(run)
    for tables in (None, pairs):
        axes = own._replace(
            nodes=0, edges=None, pairs=None if tables is None else 0, number_of_nodes=None,
            number_of_edges=None,
        )  # fmt: skip
        batch = own._replace(nodes=nodes, pairs=own.pairs if tables is None else tables)
        found = quick_jit(jax.vmap(run, (axes,)))(batch)
        for i in range(4):
            one = own._replace(nodes=nodes[i], pairs=own.pairs if tables is None else tables[i])
            want = alone(one)
            np.testing.assert_array_equal(found.labels[i], want.labels)
            assert found.passes[i] == want.passes
            for leaf in ("nodes", "pairs", "value", "log_partition", "residual"):
                np.testing.assert_allclose(
                    getattr(found, leaf)[i], getattr(want, leaf), rtol=1e-9, atol=1e-9
                )
