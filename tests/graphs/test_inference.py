"""Likelihoods of labelled graphs against enumeration, finite differences and other solvers."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.special import logsumexp

import jaxstruct as js
from jaxstruct.baselines import conditional_log_likelihood, fit_random_field
from jaxstruct.baselines.conditional_log_likelihood import in_blocks, value_and_gradient
from jaxstruct.core.padding import bucketed
from jaxstruct.graphs.elimination import elimination
from jaxstruct.graphs.inference import GraphTheta, with_log_loss
from jaxstruct.graphs.potentials import GraphPotentials
from tests.graphs.random_graphs import every_labelling, scores_of, tree_edges
from tests.graphs.structure_cases import Graphs, Options, flat, random_graphs
from tests.lib.refusals import refused
from tests.lib.thorough import thorough_after

PLAIN, SYMMETRIC = Options(1, 2), Options(0, 1, True)
KINDS = ("complete", "any", "cycle", "tree", "complete", "any", "cycle", "complete")
"""One graph of each by `mixed`, so that a program a likelihood serves all of them."""
EVERY = ("exact", "bethe", "reweighted", "pseudo")
pytestmark = pytest.mark.usefixtures("x64")


def mixed(
    seed: int, kinds: tuple[str, ...] = KINDS, options: Options = PLAIN, S: int = 2
) -> Graphs:
    """Graphs of these kinds; the first one has four nodes, the most."""
    draw = itertools.count(100 * seed)
    parts: list[Graphs] = []
    while len(parts) < len(kinds):
        part = random_graphs(next(draw), 1, kinds[len(parts)], options, S=S)
        if parts or len(part.y[0]) == 4:
            parts.append(part)
    lists = (sum((part[field] for part in parts), []) for field in range(5))
    return Graphs(*lists, S, options)


def shaped(problem: js.Problem, numbers: np.ndarray) -> dict:
    """Weights with these numbers, in the order of their names."""
    shapes, found, first = problem.initial_weights, {}, 0
    for name in sorted(shapes):
        last = first + shapes[name].size
        found[name] = jnp.asarray(numbers[first:last]).reshape(shapes[name].shape)
        first = last
    return found


def problem_of(given: Graphs) -> js.Problem:
    """With classes of nodes that play no part here, but for symmetric tables."""
    weights = () if given.options.symmetric else (0.0, 3.0)
    return given.problem(node_weights=weights)


def of_log_loss(problem: js.Problem, name: str) -> js.Problem:
    """The problem with the log loss of this name."""
    return problem if name == "exact" else with_log_loss(problem, name)


def measured(given: Graphs, name: str, y: js.Ragged | None = None) -> Callable:
    """w -> (sum over the examples, its gradient), as training computes it."""
    problem = of_log_loss(problem_of(given), name)
    outputs = given.outputs if y is None else y
    x, y = bucketed(problem.padding, given.inputs(plans=name == "exact"), outputs)
    blocks = in_blocks(x, y, 64, jnp.dtype("float64"))

    def of(w: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = value_and_gradient(problem, shaped(problem, w), blocks)
        return value, flat(gradient)

    return of


def enumerated(given: Graphs, w: np.ndarray) -> tuple[float, np.ndarray]:
    """(sum of -log P, its gradient) with every labelling written down."""
    value, gradient = 0.0, np.zeros_like(w)
    for i in range(len(given.y)):
        psi, true = given.psi(i)[1], given.place(i)
        log_z = logsumexp(psi @ w)
        value += log_z - psi[true] @ w
        gradient += np.exp(psi @ w - log_z) @ psi - psi[true]
    return value, gradient


def conditionals(given: Graphs, w: np.ndarray) -> tuple[float, np.ndarray]:
    """(sum of -log P(y_v | all others), its gradient): labellings that differ from y at v alone."""
    value, gradient = 0.0, np.zeros_like(w)
    for i, y in enumerate(given.y):
        labels, psi = given.psi(i)
        for v in range(len(y)):
            others = np.delete(labels, v, axis=1) == np.delete(y, v)
            own, true = psi[others.all(axis=1)], psi[given.place(i)]
            log_z = logsumexp(own @ w)
            value += log_z - true @ w
            gradient += np.exp(own @ w - log_z) @ own - true
    return value, gradient


def drawn(given: Graphs, scale: float, seed: int = 0) -> np.ndarray:
    return scale * np.random.default_rng(seed).normal(size=given.psi(0)[1].shape[1])


@pytest.mark.parametrize(
    ("name", "truth", "given"),
    thorough_after(2, [
        ("exact", enumerated, mixed(0)), ("pseudo", conditionals, mixed(0)),
        ("exact", enumerated, mixed(1, KINDS, SYMMETRIC, 3)),
    ]),
    ids=["exact", "pseudo", "exact-symmetric"],
)  # fmt: skip
def test_exact_and_pseudo_are_what_enumeration_makes_of_them(
    name: str, truth: Callable, given: Graphs
) -> None:
    """Tables become symmetric before any likelihood reads them."""
    of = measured(given, name)
    for scale in (0.0, 1.0, 4.0):
        w = drawn(given, scale)
        value, gradient = of(w)
        expected, slope = truth(given, w)
        np.testing.assert_allclose(value, expected, rtol=1e-11)
        np.testing.assert_allclose(gradient, slope, atol=1e-9)


def test_bethe_is_exact_on_forests() -> None:
    given = mixed(1, ("tree",) * 8)
    w = drawn(given, 1.5)
    value, gradient = measured(given, "bethe")(w)
    expected, slope = enumerated(given, w)
    np.testing.assert_allclose(value, expected, rtol=1e-7)
    np.testing.assert_allclose(gradient, slope, atol=1e-4)


def test_the_bound_is_above_and_bethe_below_where_edges_attract() -> None:
    """Of two labels: -log P lies between the two, and with longer cycles apart from both."""
    given = mixed(2)
    of_bound, of_bethe = (measured(given, each) for each in (EVERY[2], EVERY[1]))
    for scale in (0.5, 1.5):
        w = np.r_[np.zeros(4), drawn(given, 0.2)[4:8], scale * np.tile(np.eye(2).ravel(), 2)]
        true = enumerated(given, w)[0]
        assert of_bethe(w)[0] < true - 1e-3 < true + 1e-3 < of_bound(w)[0]


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["bethe", "reweighted"])
def test_gradients_are_those_of_differences(name: str) -> None:
    given = mixed(3)
    of = measured(given, name)
    w = drawn(given, 1.0)
    slope = approx_fprime(w, lambda at: of(at)[0], 1e-4)
    np.testing.assert_allclose(of(w)[1], slope, atol=5e-3)
    assert np.abs(slope).max() > 0.1


def test_the_bound_is_convex_in_the_weights() -> None:
    given = mixed(4)
    of = measured(given, "reweighted")
    ends = [drawn(given, 2.0, seed) for seed in (0, 1)]
    for share in (0.25, 0.5, 0.75):
        at = share * ends[0] + (1 - share) * ends[1]
        assert of(at)[0] <= share * of(ends[0])[0] + (1 - share) * of(ends[1])[0] + 1e-8


def test_other_graphs_of_the_same_class_compile_nothing() -> None:
    counts = []
    for seed in (7, 8):
        given = mixed(seed)
        for name in ("exact", "pseudo"):
            measured(given, name)(drawn(given, 1.0, seed))
        counts.append(conditional_log_likelihood.add_block._cache_size())
    assert counts[0] == counts[1]


@pytest.mark.parametrize("name", EVERY)
def test_the_difference_of_log_z_and_the_score_keeps_its_digits(name: str) -> None:
    """-log P of a nearly certain labelling: log Z and F are in the thousands, P is near one."""
    rng = np.random.default_rng(6)
    V, S = 6, 3
    edges, y = tree_edges(np.arange(-1, V - 1)), rng.integers(0, S, V)
    nodes = rng.normal(size=(V, S)) + 1000 * rng.random((V, 1))
    nodes[np.arange(V), y] += 6
    pairs = rng.normal(size=(V - 1, S, S)) + 1000 * rng.random((V - 1, 1, 1))
    nodes, pairs = (leaf.astype(np.float32) for leaf in (nodes, pairs))
    theta = GraphTheta(
        jnp.asarray(nodes), jnp.asarray(pairs), jnp.asarray(edges), jnp.int32(V), jnp.int32(V - 1),
        jax.tree.map(jnp.asarray, elimination(V, edges)),
    )  # fmt: skip
    labels = every_labelling(V, S)
    graph = GraphPotentials(nodes.astype(float), edges, pairs.astype(float), V, V - 1)
    scores = scores_of(graph, labels)
    right = (labels == y).sum(axis=1)
    true = logsumexp(scores) - scores[right == V][0]
    if name == "pseudo":
        true = 0.0
        for v in range(V):
            own = scores[(right >= V - 1) & (np.delete(labels == y, v, axis=1).all(axis=1))]
            true += logsumexp(own) - scores[right == V][0]
    problem = of_log_loss(js.graphs.graph_labelling(1, S), name)
    found = jax.jit(problem.inference.log_loss)(theta, jnp.asarray(y, jnp.int32))
    assert found.dtype == jnp.float32 and 1e-3 < true < 1
    np.testing.assert_allclose(found, true, atol=1e-5)


def test_without_a_plan_or_a_graph_it_says_so() -> None:
    given = random_graphs(9, 3, "tree")
    with refused(r"inputs have no plans .* plans=True"):
        fit_random_field(given.problem(), given.inputs(), given.outputs)
    classes = js.multiclass.multiclass(2, 2, dtype="float64")
    refused("made by jaxstruct.graphs.graph_labelling", with_log_loss, classes, "pseudo")


@pytest.mark.parametrize("name", EVERY)
def test_classes_of_nodes_play_no_part(name: str) -> None:
    """Labels that carry the weights of their nodes in the loss are those labels."""
    given, rng = mixed(9), np.random.default_rng(0)
    classes = [rng.integers(0, 3, len(y)) for y in given.y]
    weighted = js.graphs.weighted_labels(given.y, classes, 2)
    assert weighted.rows.max() > 1
    ends = (measured(given, name, y)(drawn(given, 1.0)) for y in (given.outputs, weighted))
    for plain, weighted in zip(*ends, strict=True):
        np.testing.assert_array_equal(plain, weighted)
