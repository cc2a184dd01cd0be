"""Tree-reweighted sums: above log Z of thousands of graphs, and the gradient of what they bound."""

from __future__ import annotations

import functools

import jax
import numpy as np
import pytest

from jaxstruct.graphs.factors import graph_potentials
from jaxstruct.graphs.oracles.reweighted_marginals import PseudoMarginals, reweighted_marginals
from tests.graphs.random_graphs import (
    Case,
    cases,
    every_labelling,
    padded,
    quick_jit,
    scores_of,
    tree_edges,
)
from tests.lib.refusals import refused

together = quick_jit(jax.vmap(reweighted_marginals, (0, None, None)))
alone = quick_jit(reweighted_marginals)
pytestmark = pytest.mark.usefixtures("x64")


@functools.cache
def found() -> PseudoMarginals:
    """What all graphs end with."""
    return jax.device_get(together(cases().batch, 100, 1e-9))


def test_above_log_z_and_exact_without_edges() -> None:
    given, ends = cases(), found()
    allowed = given.best > -np.inf
    room = 1e-9 * np.maximum(1, np.abs(given.log_partition))
    assert (ends.log_partition >= given.log_partition - room)[allowed].all()
    apart = allowed & (given.kinds == "apart")
    np.testing.assert_allclose(
        ends.log_partition[apart], given.log_partition[apart], rtol=1e-12, atol=1e-12
    )
    assert ends.converged.mean() > 0.98
    assert (ends.passes >= 1).all() and ends.passes.max() == 100


def test_chains_in_order_are_exact_after_one_pass() -> None:
    rng = np.random.default_rng(0)
    edges = tree_edges(np.arange(-1, 5))
    graph = graph_potentials(
        rng.normal(size=(6, 3)), edges, 2 * rng.normal(size=(5, 3, 3)), dtype="float64"
    )
    labels = every_labelling(6, 3)
    case = Case(graph, "tree", labels, scores_of(graph, labels))
    ends = alone(graph, 1, 1e-9)
    nodes, pairs = case.marginals()
    np.testing.assert_allclose(ends.log_partition, np.logaddexp.reduce(case.scores), rtol=1e-12)
    np.testing.assert_allclose(ends.nodes, nodes, atol=1e-12)
    np.testing.assert_allclose(ends.pairs, pairs, atol=1e-12)


def test_it_bounds_however_early_it_stops() -> None:
    given = cases()
    allowed = given.best > -np.inf
    for passes in (1, 3):
        bound = np.asarray(together(given.batch, passes, 1e-10).log_partition)
        assert (bound >= given.log_partition - 1e-8)[allowed].all()
        assert (bound >= found().log_partition - 1e-6)[allowed].all()


def test_pseudo_marginals_fit_together() -> None:
    given, ends = cases(), found()
    which = np.flatnonzero(ends.converged & (given.best > -np.inf))
    sums = ends.nodes[which].sum(axis=2)
    real = np.arange(sums.shape[1]) < given.batch.number_of_nodes[which, None]
    np.testing.assert_allclose(sums[real], 1, atol=1e-9)
    assert not ends.nodes[which][~real].any() and ends.pairs[which].min() >= 0
    given.check_sums(ends.nodes, ends.pairs, which, 1e-7)


def test_they_are_the_gradient_of_the_bound() -> None:
    given, ends, rng = cases(), found(), np.random.default_rng(1)
    finite = [np.isfinite(case.graph.nodes).all() and np.isfinite(case.graph.pairs).all()
              for case in given.cases]  # fmt: skip
    which = np.flatnonzero(np.array(finite) & ends.converged)[::5]
    batch, h = given.take(which), 1e-5
    moves = [rng.normal(size=leaf.shape) for leaf in (batch.nodes, batch.pairs)]

    def bound(step: float) -> np.ndarray:
        nodes, pairs = batch.nodes + step * moves[0], batch.pairs + step * moves[1]
        ends = together(batch._replace(nodes=nodes, pairs=pairs), 2000, 1e-12)
        return np.asarray(ends.log_partition)

    slopes = (ends.nodes[which] * moves[0]).sum((1, 2))
    slopes += (ends.pairs[which] * moves[1]).sum((1, 2, 3))
    np.testing.assert_allclose((bound(h) - bound(-h)) / (2 * h), slopes, atol=1e-6)
    assert len(which) > 50


def test_no_output_and_refusals() -> None:
    """An odd cycle of unequal labels has none, which passing messages cannot see."""
    edges, zeros = [[0, 1], [1, 2], [0, 2]], np.zeros((3, 2, 2))
    free = graph_potentials(np.zeros((3, 2)), edges, zeros, dtype="float64")
    barred = free._replace(pairs=zeros + np.where(np.eye(2, dtype=bool), -np.inf, 0))
    assert np.isfinite(alone(padded(barred, 6, 5, 3), 200, 1e-9).log_partition)
    barred = padded(free._replace(nodes=np.full((3, 2), -np.inf)), 6, 5, 3)
    ends = alone(barred, 200, 1e-9)
    assert ends.log_partition == -np.inf and not ends.nodes.any() and not ends.pairs.any()
    refused("passes must be at least 1, got 0", reweighted_marginals, barred, 0)
