"""Relaxed labelling: points of the local polytope, against its linear program by HiGHS."""

from __future__ import annotations

import functools

import jax
import numpy as np
import pytest

from experiments.lib.local_polytope import local_polytope, relaxed_optimum
from jaxstruct.graphs.oracles.relaxation import UNITS, Relaxed, relaxed
from jaxstruct.graphs.oracles.reweighted import reweighted
from jaxstruct.graphs.potentials import GraphPotentials
from tests.graphs.random_graphs import Cases, cases, quick_jit
from tests.lib.enumeration import check_alone
from tests.lib.refusals import refused

together = quick_jit(jax.vmap(relaxed, (0, 0, None)))
PASSES, MORE = 40, 45
EVERY = 9
"""Every so manieth graph is given to the general solver."""
pytestmark = pytest.mark.usefixtures("x64")


def value_of(graph: GraphPotentials, nodes: np.ndarray, pairs: np.ndarray) -> float:
    """<theta, p>; forbidden where p is not 0 means -inf."""
    total = 0.0
    for theta, counts in ((graph.nodes, nodes), (graph.pairs, pairs)):
        total += np.sum(np.where(counts > 0, counts / UNITS * np.where(counts > 0, theta, 0), 0))
    return float(total)


def _check_points(given: Cases, found: Relaxed, tolerance: float) -> None:
    """Sums are right to the last unit, padding is marked, values are those of the points."""
    for case, nodes, pairs, value in zip(
        given.cases, *(np.asarray(leaf) for leaf in found[:3]), strict=True
    ):
        (V, S), E = case.graph.nodes.shape, len(case.graph.edges)
        assert (nodes[V:] == -1).all() and (pairs[E:] == -1).all()
        own, of_edges = nodes[:V], pairs[:E]
        assert (own >= 0).all() and (own.sum(axis=1) == UNITS).all() and (of_edges >= 0).all()
        for side in (0, 1):
            assert (of_edges.sum(axis=2 - side) == own[case.graph.edges[:, side]]).all()
        if value > -np.inf:
            assert not own[:, S:].any()
            met = value_of(case.graph, own[:, :S], of_edges[:, :S, :S])
            assert np.isclose(met, value, rtol=tolerance, atol=tolerance)


@functools.cache
def _found() -> Relaxed:
    """Of all cases, every seventh with more passes than the others."""
    return jax.device_get(together(cases().batch, allowed_passes(), 1e-9))


def allowed_passes() -> np.ndarray:
    """[n] of each graph."""
    return np.where(np.arange(len(cases().cases)) % 7 == 0, MORE, PASSES)


def test_points_and_bounds_of_thousands_of_graphs() -> None:
    given, found = cases(), _found()
    labels = _labelled(given)
    _check_points(given, found, 1e-9)
    room = 1e-9 * np.maximum(1, np.abs(np.where(given.best > -np.inf, given.best, 0)))
    assert (np.asarray(found.bound) >= given.best - room).all()
    assert (np.asarray(found.value) >= labels - room).all()
    closed = np.asarray(found.bound - found.value) < 1e-6
    fractional = np.asarray(found.value) > given.best + 1e-6
    assert closed.mean() > 0.97 and fractional.any()
    exact = np.isin(given.kinds, ("tree", "apart")) & (given.best > -np.inf)
    np.testing.assert_allclose(found.value[exact], given.best[exact], atol=1e-4)


def _labelled(given: Cases) -> np.ndarray:
    """The values of the best labellings that message passing meets."""
    return np.asarray(
        quick_jit(jax.vmap(reweighted, (0, None, None)))(given.batch, PASSES, 1e-9).value
    )


def test_the_optimum_of_the_linear_program() -> None:
    given, found = cases(), _found()
    gaps = np.asarray(found.bound - found.value)
    which = np.union1d(np.arange(0, len(given.cases), EVERY), np.flatnonzero(gaps > 1e-6))
    short = []
    for i in which:
        graph = given.cases[i].graph
        optimum = relaxed_optimum(local_polytope(graph))
        room = 1e-7 * max(1, abs(optimum)) if optimum > -np.inf else 0
        assert found.value[i] <= optimum + room and found.bound[i] >= optimum - room
        short.append(optimum - float(found.value[i]) if optimum > -np.inf else 0)
    assert np.mean(np.array(short) < 1e-6) > 0.97
    assert len(which) > 130


@pytest.mark.thorough
def test_in_float32() -> None:
    given = cases()
    found = jax.device_get(together(given.cast("float32"), allowed_passes(), 1e-6))
    _check_points(given, found, 2e-5)
    allowed = given.best > -np.inf
    room = 2e-5 * np.maximum(1, np.abs(given.best))
    assert (np.asarray(found.bound, float)[allowed] >= (given.best - room)[allowed]).all()


@pytest.mark.thorough
def test_alone_as_in_a_batch() -> None:
    given, batch = cases(), _found()
    open_, passes = np.flatnonzero(batch.value > given.best + 1e-6), allowed_passes()
    few, more = (int(open_[passes[open_] == number][0]) for number in (PASSES, MORE))
    check_alone(
        quick_jit(relaxed),
        (given.batch, passes, np.full(len(passes), 1e-9)),
        batch,
        (0, 702, few, more),
        1e-12,
    )


def test_no_derivative_and_no_passes_are_refused() -> None:
    own = jax.tree.map(lambda leaf: leaf[0], cases().batch)
    refused("passes must be at least 1, got 0", relaxed, own, 0)
    slope = jax.grad(lambda nodes: relaxed(own._replace(nodes=nodes)).bound)
    refused(
        "has no derivative in JAX", jax.eval_shape, slope, own.nodes, error=TypeError
    )  # tracing is enough
