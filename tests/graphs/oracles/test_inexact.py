"""Oracles that bound or approach: bounds, fixed points and what they are exact on, by enumeration.

Message passing (value <= max F <= bound), belief propagation (exact on forests), points of the
local polytope beside its linear program by HiGHS, reweighted sums (above log Z), conditional modes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

from experiments.lib.local_polytope import local_polytope, relaxed_optimum
from jaxstruct.graphs.factors import graph_potentials
from jaxstruct.graphs.oracles.belief_propagation import SCHEDULES, belief_propagation
from jaxstruct.graphs.oracles.conditional_modes import conditional_modes
from jaxstruct.graphs.oracles.relaxation import UNITS, Relaxed, relaxed
from jaxstruct.graphs.oracles.reweighted import log_partition_bound, reweighted
from jaxstruct.graphs.oracles.reweighted_marginals import reweighted_marginals
from jaxstruct.graphs.potentials import GraphPotentials
from tests.graphs.random_graphs import (
    Case,
    Cases,
    cases,
    every_labelling,
    padded,
    quick_jit,
    scores_of,
    tree_edges,
)
from tests.lib.enumeration import row
from tests.lib.refusals import refused
from tests.lib.thorough import thorough_after

pytestmark = pytest.mark.usefixtures("x64")
PASSES, MORE = 40, 45
"""Of relaxations; every seventh graph has more."""


def propagation(kind: str, schedule: str) -> Callable:
    """(graph, passes, tolerance, damping) -> what one graph ends with."""

    def run(graph: GraphPotentials, *options: jax.Array) -> Any:
        named = dict(zip(("passes", "tolerance", "damping"), options, strict=True))
        return belief_propagation(graph, kind=kind, schedule=schedule, **named)

    return run


ORACLES: dict[str, Callable] = {
    "modes": conditional_modes,
    "relaxed": relaxed,
    "reweighted": reweighted,
    "marginals": reweighted_marginals,
    **{f"{kind} {way}": propagation(kind, way) for kind in ("sum", "max") for way in SCHEDULES},
}
together = {
    name: quick_jit(jax.vmap(oracle, (0, *(None,) * count)))
    for (name, oracle), count in zip(ORACLES.items(), (0, 2, 2, 2, 3, 3, 3, 3), strict=True)
} | {"relaxed": quick_jit(jax.vmap(relaxed, (0, 0, None)))}


def filled(graphs: list[GraphPotentials]) -> GraphPotentials:
    """A batch of the shape of `cases`, these graphs again and again: its programs serve it too."""
    _, V, S = cases().batch.nodes.shape
    rows = [padded(graph, V, cases().batch.edges.shape[1], S) for graph in graphs]
    n = len(cases().cases)
    return jax.tree.map(lambda *leaf: np.resize(np.stack(leaf), (n, *np.shape(leaf[0]))), *rows)


def options_of(name: str, dtype: str) -> tuple:
    """Passes, tolerances and damping of a run over all graphs; some cycles never come to rest."""
    tolerance = 1e-9 if dtype == "float64" else 1e-6
    if name == "modes":
        return ()
    if name == "relaxed":
        return np.where(np.arange(len(cases().cases)) % 7 == 0, MORE, PASSES), tolerance
    if name in ("reweighted", "marginals"):
        return 100, tolerance
    return (100 if name[:3] == "sum" else 50), 1e-11 if dtype == "float64" else 1e-5, 0.3


@functools.cache
def found(name: str, dtype: str = "float64") -> Any:
    """What all graphs end with."""
    return jax.device_get(together[name](cases().cast(dtype), *options_of(name, dtype)))


def kinds(*names: str) -> np.ndarray:
    return np.isin(cases().kinds, names)


@functools.cache
def allowed() -> np.ndarray:
    return cases().best > -np.inf


def room(tolerance: float) -> np.ndarray:
    return tolerance * np.maximum(1, np.abs(np.where(allowed(), cases().best, 0)))


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["modes", "relaxed", "reweighted", "sum serial"])
def test_alone_as_in_a_batch(name: str) -> None:
    """A graph stops by itself, whatever else is in the batch: here one that goes on longer."""
    given, batch, options = cases(), found(name), options_of(name, "float64")
    groups = [[0, 402, 702, 1001]]
    if name == "relaxed":
        open_ = np.flatnonzero(batch.value > given.best + 1e-6)
        groups += [[int(open_[options[0][open_] == number][0])] for number in (PASSES, MORE)]
    for rows in groups:  # a batch of these graphs again and again
        own = [np.resize(each[rows], len(each)) if np.ndim(each) else each for each in options]
        ends = jax.device_get(together[name](filled([given.cases[i].graph for i in rows]), *own))
        for few, many in zip(ends, batch, strict=True):
            np.testing.assert_allclose(few[: len(rows)], many[rows], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", thorough_after(1, ["float64", "float32"]))
def test_no_single_change_improves_a_conditional_mode(dtype: str) -> None:
    """Rounding may end elsewhere, never above the best nor where a change would gain."""
    given, ends, close = cases(), found("modes", dtype), 1e-12 if dtype == "float64" else 1e-5
    given.check_labels(ends.labels, ends.score, close)
    score = np.asarray(ends.score, float)
    assert (score[allowed()] <= (given.best + room(close))[allowed()]).all()
    for case, own, reached in zip(given.cases, ends.labels, score, strict=True):
        V, S = case.graph.nodes.shape
        changed = np.repeat(own[None, :V], V * S, axis=0)
        changed[np.arange(V * S), np.arange(V).repeat(S)] = np.tile(np.arange(S), V)
        assert reached >= scores_of(case.graph, np.minimum(changed, S - 1)).max() - 1e-4
    apart = kinds("apart")
    np.testing.assert_allclose(score[apart], given.best[apart], rtol=close, atol=close)
    assert 0.8 < np.mean((given.best - score)[score > -np.inf] < 1e-4) < 1


@pytest.mark.parametrize("dtype", thorough_after(1, ["float64", "float32"]))
def test_passing_messages_bounds_the_best_from_both_sides(dtype: str) -> None:
    given, ends = cases(), found("reweighted", dtype)
    tolerance = 1e-9 if dtype == "float64" else 2e-5
    value, bound = np.asarray(ends.value, float), np.asarray(ends.bound, float)
    assert (value[allowed()] <= (given.best + room(tolerance))[allowed()]).all()
    assert (bound[allowed()] >= (given.best - room(tolerance))[allowed()]).all()
    assert (value[~allowed()] == -np.inf).all() and (ends.passes >= 1).all()
    given.check_labels(ends.labels, value, tolerance)
    exact = kinds("tree", "apart") & allowed()
    np.testing.assert_allclose(bound[exact], given.best[exact], rtol=tolerance, atol=1e-4)
    assert (given.best - value <= 1e-4)[exact].all()
    closed = (bound - value)[allowed()] < 1e-4
    assert closed.mean() > 0.95 and not closed.all()  # some relaxations have no integral optimum


def test_the_bound_never_rises() -> None:
    given, last = cases(), np.inf
    for passes in (1, 2, 3, 5, 10, 30):
        bound = np.asarray(together["reweighted"](given.batch, passes, 0.0).bound)
        assert (bound <= last + 1e-12).all()
        last = bound


def value_of(graph: GraphPotentials, nodes: np.ndarray, pairs: np.ndarray) -> float:
    """<theta, p>; forbidden where p is not 0 means -inf."""
    total = 0.0
    for theta, counts in ((graph.nodes, nodes), (graph.pairs, pairs)):
        total += np.sum(np.where(counts > 0, counts / UNITS * np.where(counts > 0, theta, 0), 0))
    return float(total)


def _check_points(given: Cases, ends: Relaxed, tolerance: float) -> None:
    """Sums are right to the last unit, padding is marked, values are those of the points."""
    for case, nodes, pairs, value in zip(given.cases, *ends[:3], strict=True):
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


@pytest.mark.parametrize("dtype", thorough_after(1, ["float64", "float32"]))
def test_relaxed_points_and_bounds(dtype: str) -> None:
    given, ends = cases(), found("relaxed", dtype)
    close = 1e-9 if dtype == "float64" else 2e-5
    _check_points(given, ends, close)
    value, bound = np.asarray(ends.value, float), np.asarray(ends.bound, float)
    assert (bound[allowed()] >= (given.best - room(close))[allowed()]).all()
    if dtype == "float32":
        return
    met = jax.device_get(together["reweighted"](given.batch, PASSES, 1e-9))  # by messages
    assert (value >= met.value - room(close)).all()
    assert (bound - value < 1e-6).mean() > 0.97 and (value > given.best + 1e-6).any()
    exact = kinds("tree", "apart") & allowed()
    np.testing.assert_allclose(value[exact], given.best[exact], atol=1e-4)
    gaps = np.maximum(bound - value, met.bound - met.value)  # messages' own: bounds may lie
    which = np.union1d(np.arange(0, len(value), 9), np.flatnonzero(gaps > 1e-6))
    short = []
    for i in which:
        optimum = relaxed_optimum(local_polytope(given.cases[i].graph))
        gap = 1e-7 * max(1, abs(optimum)) if optimum > -np.inf else 0
        assert value[i] <= optimum + gap and bound[i] >= optimum - gap
        short.append(optimum - value[i] if optimum > -np.inf else 0)
    assert np.mean(np.array(short) < 1e-6) > 0.97 and len(which) > len(value) * 130 / 1200


@functools.cache
def marginals() -> tuple[np.ndarray, np.ndarray]:
    """The true ones."""
    return cases().marginals()


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_sums_are_exact_on_forests(schedule: str) -> None:
    given, ends, forest = cases(), found(f"sum {schedule}"), kinds("tree", "apart")
    assert ends.converged[forest].all() and ends.converged.mean() > 0.95
    wanted = given.log_partition[forest]
    np.testing.assert_allclose(ends.log_partition[forest], wanted, rtol=1e-9, atol=1e-8)
    for table, true in zip((ends.nodes, ends.pairs), marginals(), strict=True):
        np.testing.assert_allclose(table[forest], true[forest], atol=1e-8)


@pytest.mark.parametrize(("schedule", "dtype"), [("flooding", "float64"), ("serial", "float32")])
def test_maxima_are_exact_on_forests(schedule: str, dtype: str) -> None:
    given, ends, forest = cases(), found(f"max {schedule}", dtype), kinds("tree", "apart")
    close = {"float64": 1e-9, "float32": 3e-5}[dtype]
    assert ends.value.dtype == dtype
    np.testing.assert_allclose(ends.value[forest], given.best[forest], rtol=close, atol=3 * close)
    given.check_labels(ends.labels, ends.value, close)
    assert (ends.value <= given.best + close * np.maximum(1, np.abs(given.best))).all()
    assert np.mean(given.best - ends.value < 1e-4) > 0.9
    got, wanted = [], []
    for i in np.flatnonzero(forest)[:200]:
        case = given.cases[i]
        for v, s in np.ndindex(case.graph.nodes.shape):
            wanted.append(case.scores[case.labels[:, v] == s].max() - case.scores.max())
            got.append(ends.nodes[i, v, s])
    np.testing.assert_allclose(got, wanted, rtol=10 * close, atol=10 * close)


def test_a_converged_propagation_is_a_fixed_point() -> None:
    """Both schedules end in one, and marginals of edges sum up to those of their nodes."""
    flooding, serial = found("sum flooding"), found("sum serial")
    for ends in (flooding, serial):
        cases().check_sums(ends.nodes, ends.pairs, np.flatnonzero(ends.converged), 1e-7)
    both = flooding.converged & serial.converged
    same = np.abs(flooding.log_partition - serial.log_partition)[both] < 1e-6
    assert same.mean() > 0.98
    short = jax.device_get(together["sum flooding"](cases().batch, 1, 1e-6, 0.0))
    last = flooding.passes.argmax()  # a run that is cut short says so
    assert not short.converged[last] and (short.passes == 1).all() and short.residual[last] > 1e-5


@pytest.mark.parametrize(("kind", "shared"), [("sum", True), ("max", False)])
def test_graphs_that_share_their_edges_end_as_each_alone(kind: str, shared: bool) -> None:
    """Tables are shared, too, or are their own; some labels are forbidden."""
    given = cases()
    own = given.take(np.flatnonzero(given.kinds == "any")[7])
    rng = np.random.default_rng(0)
    nodes = own.nodes + rng.normal(size=(4, *own.nodes.shape))
    nodes[1, 0, 0] = -np.inf
    pairs = own.pairs + rng.normal(size=(4, *own.pairs.shape))
    options, name = (20, 1e-6, 0.2), f"{kind} flooding"
    axes = GraphPotentials(0, None, None if shared else 0, None, None)
    batch = own._replace(nodes=nodes, pairs=own.pairs if shared else pairs)
    ends = quick_jit(jax.vmap(lambda graph: ORACLES[name](graph, *options), (axes,)))(batch)
    each = [own._replace(nodes=nodes[i], pairs=own.pairs if shared else pairs[i]) for i in range(4)]
    want = jax.device_get(together[name](filled(each), *options))
    for one, other in zip(ends, want, strict=True):
        np.testing.assert_allclose(one, other[:4], rtol=1e-9, atol=1e-9)


def test_reweighted_sums_lie_above_log_z() -> None:
    """However early they stop; without edges they are log Z."""
    given, ends, log_z = cases(), found("marginals"), cases().log_partition
    apart = kinds("apart")
    early = [together["marginals"](given.batch, passes, 1e-9).log_partition for passes in (1, 3)]
    for bound in (*map(np.asarray, early), ends.log_partition):
        assert (bound >= log_z - room(1e-8))[allowed()].all()
        assert (bound >= ends.log_partition - 1e-6)[allowed()].all()
    np.testing.assert_allclose(bound[apart], log_z[apart], rtol=1e-12, atol=1e-12)
    assert ends.converged.mean() > 0.98 and ends.passes.max() == 100
    of_messages = quick_jit(jax.vmap(log_partition_bound, (0, None)))
    bound = np.asarray(of_messages(given.batch, 50))
    assert (bound >= log_z - 1e-9)[allowed()].all() and not np.isnan(bound).any()
    np.testing.assert_allclose(bound[apart], log_z[apart], atol=1e-9)
    assert (bound - log_z)[kinds("tree")].mean() < 0.02


def test_reweighted_chains_in_order_are_exact_after_one_pass() -> None:
    rng = np.random.default_rng(0)
    edges = tree_edges(np.arange(-1, 5))
    tables = rng.normal(size=(6, 3)), edges, 2 * rng.normal(size=(5, 3, 3))
    graph, labels = graph_potentials(*tables, dtype="float64"), every_labelling(6, 3)
    case = Case(graph, "tree", labels, scores_of(graph, labels))
    ends = row(jax.device_get(together["marginals"](filled([graph]), 1, 1e-9)), 0)
    np.testing.assert_allclose(ends.log_partition, np.logaddexp.reduce(case.scores), rtol=1e-12)
    for table, true in zip((ends.nodes, ends.pairs), case.marginals(), strict=True):
        np.testing.assert_allclose(table[: len(true)], true, atol=1e-12)


def test_pseudo_marginals_fit_together_and_are_the_gradient_of_the_bound() -> None:
    given, ends, rng = cases(), found("marginals"), np.random.default_rng(1)
    which = np.flatnonzero(ends.converged & allowed())
    sums = ends.nodes[which].sum(axis=2)
    real = np.arange(sums.shape[1]) < given.batch.number_of_nodes[which, None]
    np.testing.assert_allclose(sums[real], 1, atol=1e-9)
    assert not ends.nodes[which][~real].any() and ends.pairs[which].min() >= 0
    given.check_sums(ends.nodes, ends.pairs, which, 1e-7)
    finite = [np.isfinite(case.graph.nodes).all() and np.isfinite(case.graph.pairs).all()
              for case in given.cases]  # fmt: skip
    which = np.flatnonzero(np.array(finite) & ends.converged)[::5]
    batch, h = given.take(which), 1e-5
    moves = [rng.normal(size=leaf.shape) for leaf in (batch.nodes, batch.pairs)]

    def bound(step: float) -> np.ndarray:
        nodes, pairs = batch.nodes + step * moves[0], batch.pairs + step * moves[1]
        moved = batch._replace(nodes=nodes, pairs=pairs)
        return np.asarray(together["marginals"](moved, 2000, 1e-12).log_partition)

    slopes = (ends.nodes[which] * moves[0]).sum((1, 2))
    slopes += (ends.pairs[which] * moves[1]).sum((1, 2, 3))
    np.testing.assert_allclose((bound(h) - bound(-h)) / (2 * h), slopes, atol=1e-6)
    assert len(which) > 50


def test_sums_of_graphs_without_an_output() -> None:
    """An odd cycle of unequal labels has none, which passing messages cannot see."""
    edges, zeros = [[0, 1], [1, 2], [0, 2]], np.zeros((3, 2, 2))
    free = graph_potentials(np.zeros((3, 2)), edges, zeros, dtype="float64")
    barred = free._replace(pairs=zeros + np.where(np.eye(2, dtype=bool), -np.inf, 0))
    none = free._replace(nodes=np.full((3, 2), -np.inf))
    ends = jax.device_get(together["marginals"](filled([barred, none]), 200, 1e-9))
    assert np.isfinite(ends.log_partition[0]) and ends.log_partition[1] == -np.inf
    assert not ends.nodes[1].any() and not ends.pairs[1].any()


def test_what_does_not_fit_is_refused() -> None:
    own = jax.tree.map(lambda leaf: leaf[0], cases().batch)
    for oracle in (relaxed, reweighted, reweighted_marginals):
        refused("passes must be at least 1, got 0", oracle, own, 0)
    for oracle in (relaxed, reweighted):
        slope = jax.grad(lambda nodes, oracle=oracle: oracle(own._replace(nodes=nodes)).bound)
        words = "has no derivative in JAX"
        refused(words, jax.eval_shape, slope, own.nodes, error=TypeError)  # tracing is enough
    for options, message in (
        ({"kind": "mean"}, r"kind is 'mean'; choose one of \('sum', 'max'\)"),
        ({"schedule": "random"}, "schedule is 'random'; choose one of"),
        ({"passes": 0}, "passes must be at least 1, got 0"),
        ({"damping": 1.0}, r"damping must be in \[0, 1\), got 1.0"),
    ):
        refused(message, belief_propagation, own, **options)
