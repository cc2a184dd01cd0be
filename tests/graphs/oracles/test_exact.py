"""All that exact oracles say of a graph, by elimination and by a list, against every labelling."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct.graphs.elimination import Elimination, elimination, min_fill_width
from jaxstruct.graphs.factors import graph_potentials
from jaxstruct.graphs.oracles.enumeration import (
    all_scores,
    best_of_all,
    enumerated_log_partition,
    labelling,
)
from jaxstruct.graphs.oracles.k_best import (
    k_best_labellings,
    k_best_of_all,
    sample_labelling,
    sample_of_all,
)
from jaxstruct.graphs.oracles.variable_elimination import (
    best_labelling,
    best_other,
    log_partition,
    marginals,
)
from jaxstruct.graphs.potentials import GraphPotentials, complete_edges, grid_edges
from tests.graphs.random_graphs import (
    Cases,
    cases,
    listed,
    padded,
    quick_jit,
    random_edges,
    stacked_plans,
    tree_edges,
)
from tests.lib.enumeration import Listed, check_best, check_best_wrong, check_k_best, check_samples
from tests.lib.refusals import refused

WIDTH, K, DRAWS, DRAWN = 3, 4, 400, 60
pytestmark = pytest.mark.usefixtures("x64")


def by_elimination(graph: GraphPotentials, plan: Elimination, y: jax.Array) -> dict:
    """All that is said of one graph; y: labels."""

    def score(graph: GraphPotentials, other: bool) -> tuple:
        found = best_other(graph, plan, y) if other else best_labelling(graph, plan)
        return found.score, found

    slopes = jax.value_and_grad(score, has_aux=True, allow_int=True)
    ((_, best), used), ((_, another), of_other) = slopes(graph, False), slopes(graph, True)
    return {
        "best": best,
        "used": used,
        "k best": k_best_labellings(graph, plan, K),
        "other": another,
        "other used": of_other,
        "sums": jax.value_and_grad(log_partition, allow_int=True)(graph, plan),
        "marginals": marginals(graph, plan),
    }


def by_list(graph: GraphPotentials) -> dict:
    """The same with every labelling of a small graph written down in the program."""
    return {
        "best": best_of_all(graph),
        "k best": k_best_of_all(graph, K),
        "sums": (enumerated_log_partition(graph),),
        "scores": all_scores(graph),
    }


eliminated, enumerated = quick_jit(jax.vmap(by_elimination)), quick_jit(jax.vmap(by_list))


def check_drawn(every: Listed, sample: Callable, *given: Any) -> None:
    """Of some of the graphs."""
    which = np.random.default_rng(0).permutation(len(every.scores))[:DRAWN]
    keys = jax.random.split(jax.random.key(1), (DRAWN, DRAWS))
    many = jax.vmap(sample, (*(None for _ in given), 0))
    call = jax.jit(jax.vmap(many), compiler_options={"xla_backend_optimization_level": 1})
    drawn = call(*jax.tree.map(lambda leaf: leaf[which], given), keys)
    chosen = ([part[i] for i in which] for part in every[:2])
    check_samples(Listed(*chosen, every.tied[which]), drawn)


def chosen(which: np.ndarray) -> Cases:
    """Some of all graphs."""
    given = cases()
    own = tuple(given.cases[i] for i in which)
    return Cases(own, given.take(which), given.best[which], given.log_partition[which])


@functools.cache
def planned() -> tuple[Cases, Elimination]:
    """The graphs of a width up to `WIDTH`, with plans of that width."""
    plain = [(len(c.graph.nodes), c.graph.edges) for c in cases().cases]
    which = np.flatnonzero([min_fill_width(*each) <= WIDTH for each in plain])
    plans = [elimination(*plain[i], WIDTH) for i in which]
    return chosen(which), stacked_plans(plans, 12, 16)


def preferred(given: Cases, steps: np.ndarray | None = None) -> Listed:
    """All labellings, of equals the one first that the oracle prefers.

    That is the lexicographically lowest, or where steps say the order of elimination the one with
    the lowest label of the node that was eliminated last, and so on.
    """
    every = listed(given)
    if steps is None:
        orders = [np.arange(len(F)) for F in every.scores]
    else:
        orders = [
            np.lexsort(case.labels[:, order[: case.labels.shape[1], 0]].T)
            for case, order in zip(given.cases, steps, strict=True)
        ]
    outputs = [own[order] for own, order in zip(every.outputs, orders, strict=True)]
    scores = [F[order] for F, order in zip(every.scores, orders, strict=True)]
    whole = [np.isin(F[F > -np.inf] % 1, 0).all() for F in scores]
    return Listed(outputs, scores, np.array(whole))


def check(given: Cases, every: Listed, found: dict, dtype: str, tolerance: float) -> None:
    """What both ways say; the first of the k best is the best one's own."""
    best, ranked = found["best"], found["k best"]
    assert best.score.dtype == ranked.score.dtype == dtype and best.labels.dtype == np.int32
    check_best(every, best.labels, best.score, tolerance, none=None)
    given.check_labels(best.labels, best.score, 2 * tolerance)
    check_k_best(every, ranked.labels, ranked.score, tolerance, ties=1)
    some = np.asarray(best.score) > -np.inf
    np.testing.assert_array_equal(ranked.labels[some, 0], best.labels[some])
    log_z = given.log_partition
    np.testing.assert_allclose(found["sums"][0], log_z, rtol=tolerance, atol=10 * tolerance)


def check_used(slope: GraphPotentials, found: tuple, which: np.ndarray) -> None:
    """The gradient of a score counts its labels."""
    labels = found.labels[which][..., None] == np.arange(3)
    np.testing.assert_array_equal(slope.nodes[which], labels)


def test_elimination_against_enumeration() -> None:
    """y is a best labelling, which makes the two best, or one at random."""
    given, plans = planned()
    assert set(given.kinds) == {"tree", "cycle", "complete", "any", "apart", "grid"}
    every, random = preferred(given, plans.steps), np.random.default_rng(0)
    places = [F.argmax() if i % 2 else random.integers(len(F)) for i, F in enumerate(every.scores)]
    y = [outputs[place] for outputs, place in zip(every.outputs, places, strict=True)]
    found = jax.device_get(eliminated(given.batch, plans, np.array(y, np.int32)))
    check_drawn(every, sample_labelling, given.batch, plans)
    tolerance = 1e-10
    check(given, every, found, "float64", tolerance)
    other, own = found["other"], found["marginals"]
    check_best_wrong(every, y, other.labels, other.score, 3 * tolerance, none=None)
    nothing = other.score == -np.inf
    np.testing.assert_array_equal(other.labels[nothing], np.array(y)[nothing])
    check_used(found["used"], found["best"], given.best > -np.inf)
    check_used(found["other used"], other, ~nothing)
    close = dict(rtol=tolerance, atol=10 * tolerance)
    np.testing.assert_allclose(own.log_partition, given.log_partition, **close)
    for name, wanted in zip(("nodes", "pairs"), given.marginals(), strict=True):
        np.testing.assert_allclose(getattr(own, name), wanted, **close)  # 0 on padding
        np.testing.assert_allclose(getattr(found["sums"][1], name), getattr(own, name), **close)


def small() -> Cases:
    """Without the 3 x 3 grids, cut to six nodes."""
    given = chosen(np.flatnonzero(cases().kinds != "grid"))
    return given._replace(batch=given.batch._replace(nodes=given.batch.nodes[:, :6]))


def test_lists_against_enumeration() -> None:
    given = small()
    every = preferred(given)
    found = jax.device_get(enumerated(given.batch))
    check(given, every, found, "float64", 1e-12)
    check_drawn(every, sample_of_all, given.batch)
    V, S = given.batch.nodes.shape[1:]
    whole = [i for i, case in enumerate(given.cases) if case.graph.nodes.shape == (V, S)]
    for i in whole:
        np.testing.assert_allclose(found["scores"][i], given.cases[i].scores, atol=1e-12)
    np.testing.assert_array_equal(labelling(jnp.arange(S**V), V, S), given.cases[whole[0]].labels)


@pytest.mark.thorough
def test_both_against_enumeration_in_float32() -> None:
    def in_short(graph: GraphPotentials, plan: Elimination) -> dict:
        return {
            "best": best_labelling(graph, plan),
            "k best": k_best_labellings(graph, plan, K),
            "sums": (log_partition(graph, plan),),
        }

    given, plans = planned()
    found = jax.device_get(quick_jit(jax.vmap(in_short))(given.cast("float32"), plans))
    check(given, preferred(given, plans.steps), found, "float32", 1e-5)
    given = small()
    found = jax.device_get(enumerated(given.cast("float32")))
    check(given, preferred(given), found, "float32", 1e-5)


def test_fewer_labellings_than_asked_for() -> None:
    graph = graph_potentials(np.zeros((2, 2)), [], np.zeros((0, 2, 2)), dtype="float64")
    labels, scores = quick_jit(functools.partial(k_best_of_all, k=6))(graph)
    np.testing.assert_array_equal(labels[:4], [[0, 0], [0, 1], [1, 0], [1, 1]])
    assert (np.asarray(labels)[4:] == -1).all() and (np.asarray(scores)[4:] == -np.inf).all()


@pytest.mark.parametrize(
    ("nodes", "edges", "width"),
    [
        (1, [], 1), (4, [], 1), (6, tree_edges(np.array([-1, 0, 0, 1, 1, 2])), 1),
        (5, np.stack([np.arange(5), (np.arange(5) + 1) % 5], axis=1), 2),
        (9, np.concatenate(grid_edges(3, 3)), 3), (20, np.concatenate(grid_edges(2, 10)), 2),
        (6, complete_edges(6), 5),
    ],
)  # fmt: skip
def test_widths(nodes: int, edges: np.ndarray, width: int) -> None:
    assert min_fill_width(nodes, edges) == width == elimination(nodes, edges).width


@pytest.mark.parametrize("kind", ["tree", "cycle", "complete", "any", "grid"])
def test_a_plan_is_an_elimination(kind: str) -> None:
    """Every node once; a message goes to a later step that holds all that it is about."""
    rng = np.random.default_rng(5)
    for _ in range(50):
        V, edges = random_edges(rng, kind)
        plan = elimination(V, edges)
        w, order = plan.width, plan.steps[:, 0]
        assert sorted(order) == list(range(V))
        axes = [{int(row[0]), *(int(a) for a in row[2 : 2 + w] if a >= 0)} for row in plan.steps]
        for k, (row, own) in enumerate(zip(plan.steps, axes, strict=True)):
            rest = own - {int(order[k])}
            assert (row[1] == V) == (not rest)
            if rest:
                assert row[1] > k and rest <= axes[row[1]]
        for (a, b), row in zip(edges, plan.edges, strict=True):
            assert {int(a), int(b)} <= axes[row[0]]


def test_what_does_not_fit_is_refused() -> None:
    given, plans = planned()
    own, plan = jax.tree.map(lambda leaf: leaf[0], (given.batch, plans))
    refused("plan must be an Elimination", best_labelling, own, plan.steps)
    short = plan._replace(steps=plan.steps[:3])
    refused("plan must be of this graph, of shapes", best_labelling, own, short)
    wide = elimination(12, own.edges[:0], 10)._replace(edges=np.zeros((16, 12), np.int32))
    refused("width 10 over 3 labels has tables of 177147 entries", best_labelling, own, wide)
    refused(r"labels must be integers \[V\] = \[12\], got", best_other, own, plan, np.zeros(12))
    refused("k must be at least 1, got 0", k_best_labellings, own, plan, 0)
    refused("width is 1, but the order found needs 2", elimination, 3, complete_edges(3), 1)
    refused(r"edges\[0\] is \[1, 1\]: expected two nodes", elimination, 3, [[1, 1]])
    graph = graph_potentials(np.zeros((3, 2)), [], np.zeros((0, 2, 2)))
    many = padded(graph, 18, 8, 2)
    refused(r"18 nodes \(with padding\) of 2 labels have 262144", best_of_all, many)
