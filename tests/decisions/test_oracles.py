"""Oracles of decision sets against every decision of small cases, SciPy, and closed forms."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array
from scipy.sparse.csgraph import bellman_ford

import jaxstruct as js
from tests.decisions.cases import ARCS, NAMES, cases, instance_of
from tests.lib.refusals import refused

EXACT_TIES = {"grid", "paths", "open", "knapsack", "bounded", "top_k"}


def best_listed(decisions, theta, listed):
    """The best of listed decisions under theta, -1 where all are forbidden; and its value."""
    values = np.where(listed != 0, np.where(listed != 0, theta, 0) * listed, 0).sum(axis=1)
    at = int(values.argmax())
    if values[at] == -np.inf:
        return np.full(listed.shape[1], -1), values
    return listed[at], values


def drawn(kind, size, random):
    """Costs: of both signs, integers that tie, and some that are forbidden."""
    if kind == "real":
        return random.normal(size=size)
    ties = random.integers(-2, 3, size=size).astype(float)
    return np.where(random.random(size) < 0.25, np.inf, ties) if kind == "forbidden" else ties


@functools.cache
def nested(name, sense):
    return jax.jit(jax.vmap(jax.vmap(cases(sense)[name][0].best), (0, None)))


@pytest.mark.smoke
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["real", "ties", "forbidden"])
def test_the_best_of_all(name, kind, x64):
    """An oracle does not see whether theta is a value or less than a cost: one dtype each."""
    del x64
    random = np.random.default_rng(len(name))
    for sense, dtype in (("minimise", np.float32), ("maximise", np.float64)):
        decisions, instances, listed = cases(sense)[name]
        sign = {"minimise": -1, "maximise": 1}[sense]
        costs = drawn(kind, (3, 6, decisions.size.value), random)
        theta = sign * costs if kind != "forbidden" else -np.abs(costs)
        found = np.asarray(nested(name, sense)(theta.astype(dtype), instances))
        for draw, i in np.ndindex(3, 6):
            wanted, values = best_listed(decisions, theta[draw, i], listed[i])
            own = found[draw, i]
            if name in EXACT_TIES or kind == "real" or (wanted < 0).all():
                assert np.array_equal(own, wanted), (sense, dtype, i)
            else:
                at = np.flatnonzero((listed[i] == own).all(axis=1))
                assert values[at] == values.max()


@pytest.mark.parametrize("name", ["open", "bounded", "top_k", "turned"])
def test_one_example_of_numpy_and_in_a_wide_batch(name):
    random = np.random.default_rng(0)
    decisions, instances, listed = cases("maximise")[name]
    theta = random.normal(size=(6, decisions.size.value)).astype(np.float32)
    one = jax.jit(lambda: decisions.best(theta[2], instance_of(instances, 2)))()
    assert np.array_equal(one, best_listed(decisions, theta[2], listed[2])[0])
    assert one.dtype == jnp.int32
    many = np.tile(theta, (400, 1))
    wide = jax.tree.map(lambda leaf: np.tile(leaf, (400,) + (1,) * (leaf.ndim - 1)), instances)
    given = (many, wide), (theta, instances)
    found, few = (js.decisions.decide(decisions, *each) for each in given)
    assert np.array_equal(found, np.tile(few, (400, 1)))


def test_grids_against_bellman_ford(x64):
    del x64
    random = np.random.default_rng(0)
    for m in (2, 7, 15):
        arcs, decisions = js.decisions.grid_arcs(m, m + 1), js.decisions.grid_paths(m, m + 1)
        costs = random.normal(size=(4, len(arcs)))
        found = js.decisions.decide(decisions, costs)
        for c, y in zip(costs, found, strict=True):
            graph = csr_array((c, arcs.T), shape=(m * (m + 1),) * 2)
            wanted = bellman_ford(graph, indices=0)[-1]
            assert c @ y == pytest.approx(wanted, rel=1e-12)
            flow = np.zeros(m * (m + 1), int)
            np.add.at(flow, arcs[:, 0], y)
            np.subtract.at(flow, arcs[:, 1], y)
            assert flow[0] == 1 and flow[-1] == -1 and not flow[1:-1].any()


def test_matchings_against_scipy(x64):
    del x64
    costs = np.random.default_rng(0).normal(size=(5, 7 * 9))
    found = js.decisions.decide(js.decisions.matchings(7, 9), costs)
    for c, y in zip(costs, found, strict=True):
        table = c.reshape(7, 9)
        assert c @ y == pytest.approx(table[linear_sum_assignment(table)].sum(), rel=1e-12)


def test_a_node_of_many_arcs():
    """Loops over more arcs than a fold writes out."""
    nodes = 40
    arcs = np.array([(u, v) for v in range(nodes) for u in range(v)])
    costs = np.random.default_rng(0).uniform(1, 2, size=(3, len(arcs)))
    direct = np.flatnonzero((arcs == [0, nodes - 1]).all(axis=1))
    assert (js.decisions.decide(js.decisions.shortest_paths(arcs), costs)[:, direct] == 1).all()
    longest = js.decisions.shortest_paths(arcs, sense="maximise")
    assert (js.decisions.decide(longest, costs).sum(axis=1) == nodes - 1).all()


def test_capacities_without_end():
    sizes, values = [3, 5, 2], np.array([[1.0, -2.0, 4.0]])
    for capacity in (np.inf, 10, 1000):
        found = js.decisions.decide(js.decisions.knapsack(sizes, capacity, 2), values)
        assert found.tolist() == [[2, 0, 2]]
    assert js.decisions.decide(js.decisions.knapsack([3], 2), [[1.0]]).tolist() == [[0]]


def test_targets_that_are_not_reached():
    decisions = js.decisions.shortest_paths(ARCS, 0, 4)
    ends = js.decisions.Ends(np.array([0, 3, 0]), np.array([4, 5, 6]))
    words = r"instances.target\[1\] is 5: expected a node to which open arcs lead from node 3 \(2"
    refused(words, js.decisions.decide, decisions, np.ones((3, 10)), ends)
    refused("target.*is 6.*arcs lead from node 0", js.decisions.shortest_paths, ARCS, 0, 6)
    closed = np.ones((1, 10))
    closed[0, [6, 7, 8]] = np.inf
    refused("costs forbid every decision", js.decisions.decide, decisions, closed)
    assert (np.asarray(jax.jit(decisions.best)(-closed[0], ())) == -1).all()


def test_what_does_not_fit_is_refused():
    d = js.decisions
    refused("from < to: number the nodes", d.shortest_paths, [[0, 1], [2, 1]])
    refused("arcs must be", d.shortest_paths, [[0, 1, 2]])
    refused("arcs is empty", d.shortest_paths, np.zeros((0, 2), int))
    refused("target must be at most", d.shortest_paths, [[0, 1]], 0, 2)
    refused("sense is 'least'", d.grid_paths, 2, 2, sense="least")
    refused("k must be at most 3", d.top_k, 3, 4)
    refused("sizes must be", d.knapsack, [1.5, 2], 3)
    refused("sizes.* is -1", d.knapsack, [1, -1], 3)
    refused("capacity must be at least 0", d.knapsack, [1, 1], -3)
    refused("capacity .* coarse", d.knapsack, [2**19] * 4, np.inf)
    refused("instances.* is 9: expected capacities in 0..3", d.decide, d.knapsack([3, 3], 3),
            np.ones((1, 2)), np.array([9]))  # fmt: skip
    grid = d.grid_paths(2, 2)
    refused(r"costs must be \[n, d = 4\]", d.decide, grid, np.ones((2, 5)))
    refused("NaN or -inf", d.decide, grid, np.array([[0, np.nan, 1, 1]]))
    refused("NaN or inf: maximise", d.decide, d.top_k(2, 1), np.array([[0, np.inf]]))
    refused("must be jaxstruct.decisions.Ends", d.decide, grid, np.ones((2, 4)), np.ones(2))
    refused("instances.target.* is 7", d.decide, grid, np.ones((1, 4)), d.Ends([0], [7]))
    refused("the same for all examples", d.decide, d.top_k(2, 1), np.ones((2, 2)), np.ones(2))
    refused("must be a Decisions", d.decide, 3, np.ones((2, 2)))
    refused("best and check must be functions", d.own, 3, None, "minimise")
    refused("bounded must be", d.own, 3, grid.best, "minimise", bounded=1)
    assert d.decide(grid, np.zeros((0, 4))).shape == (0, 4)
