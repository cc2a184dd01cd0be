"""Belief propagation: exact on forests, a fixed point elsewhere."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import numpy as np
import pytest

from jaxstruct.graphs.oracles.belief_propagation import SCHEDULES, Propagated, belief_propagation
from jaxstruct.graphs.potentials import GraphPotentials
from tests.graphs.random_graphs import cases, quick_jit
from tests.lib.refusals import refused

MOST = {"sum": 100, "max": 50}
"""Passes: forests take fewer, and some cycles never come to rest."""
pytestmark = pytest.mark.usefixtures("x64")


@functools.cache
def found(kind: str, schedule: str, dtype: str = "float64") -> Propagated:
    """What all graphs end with."""
    tolerance = 1e-11 if dtype == "float64" else 1e-5
    options = (MOST[kind], tolerance, 0.3)
    run = propagation(kind, schedule)
    together = quick_jit(jax.vmap(lambda graph: run(graph, *options)))
    return jax.device_get(together(cases().cast(dtype)))


def propagation(kind: str, schedule: str) -> Callable:
    """(graph, passes, tolerance, damping) -> what one graph ends with."""

    def run(graph: GraphPotentials, *options: jax.Array) -> Propagated:
        passes, tolerance, damping = options
        return belief_propagation(
            graph, kind=kind, schedule=schedule, passes=passes, tolerance=tolerance, damping=damping
        )

    return run


@functools.cache
def alone(kind: str, schedule: str) -> Callable:
    """The same as one program."""
    return quick_jit(propagation(kind, schedule))


@functools.cache
def marginals() -> tuple[np.ndarray, np.ndarray]:
    """The true ones."""
    return cases().marginals()


@pytest.mark.thorough
def test_alone_as_in_a_batch() -> None:
    """A graph stops by itself, whatever else is in the batch, one vmap or two."""
    options = (MOST["sum"], 1e-11, 0.3)
    given, ends, run = cases().batch, found("sum", "serial"), propagation("sum", "serial")
    which = np.array([[3, 402], [650, 1001]])
    nested = quick_jit(jax.vmap(jax.vmap(lambda graph: run(graph, *options))))(
        jax.tree.map(lambda leaf: leaf[which], given)
    )
    single = alone("sum", "serial")(jax.tree.map(lambda leaf: leaf[402], given), *options)
    for one, two, all_ in zip(single, nested, ends, strict=True):
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
    nodes, pairs = (leaf[forest] for leaf in marginals())
    np.testing.assert_allclose(ends.nodes[forest], nodes, atol=1e-8)
    np.testing.assert_allclose(ends.pairs[forest], pairs, atol=1e-8)


@pytest.mark.parametrize(("schedule", "dtype"), [("flooding", "float64"), ("serial", "float32")])
def test_maxima_are_exact_on_forests(schedule: str, dtype: str) -> None:
    given, ends = cases(), found("max", schedule, dtype)
    forest = np.isin(given.kinds, ("tree", "apart"))
    close = {"float64": 1e-9, "float32": 3e-5}[dtype]
    assert ends.value.dtype == dtype
    np.testing.assert_allclose(ends.value[forest], given.best[forest], rtol=close, atol=3 * close)
    given.check_labels(ends.labels, ends.value, close)
    room = close * np.maximum(1, np.abs(given.best))
    assert (ends.value <= given.best + room).all()
    assert np.mean(given.best - ends.value < 1e-4) > 0.9
    got, wanted = [], []
    for i in np.flatnonzero(forest)[:200]:
        case = given.cases[i]
        for v in range(case.labels.shape[1]):
            for s in range(case.graph.nodes.shape[1]):
                best = case.scores[case.labels[:, v] == s].max()
                wanted.append(best - case.scores.max())
                got.append(ends.nodes[i, v, s])
    np.testing.assert_allclose(got, wanted, rtol=10 * close, atol=10 * close)


def test_a_converged_run_is_a_fixed_point() -> None:
    """Both schedules end in one, and marginals of edges sum up to those of their nodes."""
    given, flooding, serial = cases(), found("sum", "flooding"), found("sum", "serial")
    for ends in (flooding, serial):
        given.check_sums(ends.nodes, ends.pairs, np.flatnonzero(ends.converged), 1e-7)
    both = flooding.converged & serial.converged
    same = np.abs(flooding.log_partition - serial.log_partition)[both] < 1e-6
    assert same.mean() > 0.98


def test_a_run_that_is_cut_short_says_so() -> None:
    slowest = found("sum", "flooding").passes.argmax()
    own = jax.tree.map(lambda leaf: leaf[slowest], cases().batch)
    ends = alone("sum", "flooding")(own, 1, 1e-6, 0.0)
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
def test_refusals(options: dict, message: str) -> None:
    own = jax.tree.map(lambda leaf: leaf[0], cases().batch)
    refused(message, belief_propagation, own, **options)


@pytest.mark.parametrize(("kind", "shared"), [("sum", True), ("max", False)])
def test_graphs_that_share_their_edges_end_as_each_alone(kind: str, shared: bool) -> None:
    """Tables are shared, too, or are their own; some labels are forbidden."""
    given = cases()
    own = given.take(np.flatnonzero(given.kinds == "any")[7])
    rng = np.random.default_rng(0)
    nodes = own.nodes + rng.normal(size=(4, *own.nodes.shape))
    nodes[1, 0, 0] = -np.inf
    pairs = own.pairs + rng.normal(size=(4, *own.pairs.shape))
    options = (20, 1e-6, 0.2)
    run, single = propagation(kind, "flooding"), alone(kind, "flooding")
    axes = own._replace(
        nodes=0, edges=None, pairs=None if shared else 0, number_of_nodes=None, number_of_edges=None
    )
    batch = own._replace(nodes=nodes, pairs=own.pairs if shared else pairs)
    found = quick_jit(jax.vmap(lambda graph: run(graph, *options), (axes,)))(batch)
    for i in range(4):
        tables = own.pairs if shared else pairs[i]
        want = single(own._replace(nodes=nodes[i], pairs=tables), *options)
        np.testing.assert_array_equal(found.labels[i], want.labels)
        assert found.passes[i] == want.passes
        for leaf in ("nodes", "pairs", "value", "log_partition", "residual"):
            np.testing.assert_allclose(
                getattr(found, leaf)[i], getattr(want, leaf), rtol=1e-9, atol=1e-9
            )
