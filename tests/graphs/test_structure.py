"""Graph labelling: its optimum against an independent QP, certificates against enumeration."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxstruct as js
from jaxstruct.core.padding import bucketed
from jaxstruct.graphs.inputs import GraphInput, graph_inputs
from jaxstruct.graphs.structure import graph_labelling
from jaxstruct.solvers.objective.formulations import FORMULATIONS
from jaxstruct.solvers.objective.most_violated import oracle_for
from tests.graphs.random_graphs import quick_jit
from tests.graphs.structure_cases import (
    COSTS,
    MOST,
    Graphs,
    Options,
    check_optimum,
    flat,
    random_graphs,
)
from tests.lib.refusals import refused
from tests.lib.structures import Every, check_oracles

pytestmark = pytest.mark.usefixtures("x64")


def drawn(problem: js.Problem) -> dict[str, jax.Array]:
    """Random weights."""
    rng = np.random.default_rng(0)
    shapes = {name: leaf.shape for name, leaf in problem.initial_weights.items()}
    return {name: jnp.asarray(rng.normal(size=shape)) for name, shape in shapes.items()}


WEIGHTS = (0.0, 2.5)
"""Of nodes of class 1, to ignore, and 2."""


DEAR_FIRST = np.array([[0.0, 3.0], [1.0, 0.0]])
"""Costs of two labels."""


def enumerated() -> tuple[Graphs, js.Problem]:
    """Two kinds of edges; the program serves every formulation."""
    given = random_graphs(0, 10, "cycle", Options(2, 2))
    options = {"loss": DEAR_FIRST, "node_weights": WEIGHTS}
    return given, given.problem(inference="enumeration", **options)


def eliminated() -> tuple[Graphs, js.Problem]:
    """Three kinds of edges and three labels."""
    given = random_graphs(2, 8, "cycle", Options(1, 3), S=3)
    return given, given.problem(inference="elimination", loss=COSTS, node_weights=WEIGHTS)


def passed() -> tuple[Graphs, js.Problem]:
    """Trees, with a mean over the nodes."""
    given = random_graphs(6, 9, "tree")
    return given, given.problem(loss="normalised_hamming", node_weights=WEIGHTS)


def classes_of(given: Graphs) -> list[np.ndarray]:
    """Drawn, but for the first graph, of which nothing counts."""
    rng = np.random.default_rng(6)
    classes = [rng.integers(0, 3, len(y)) for y in given.y]
    classes[0][:] = 1
    return classes


@jax.jit
def losses_of(problem: js.Problem, y: jax.Array, labels: jax.Array) -> jax.Array:
    """[n, k] Delta(y_i, .) of labellings [n, k, V]."""
    return jax.vmap(jax.vmap(problem.model.loss, (None, 0)))(y, labels)


@pytest.mark.parametrize(
    ("parts", "loss"), [(enumerated, DEAR_FIRST), (passed, "normalised_hamming")]
)
def test_nodes_weigh_in_the_loss_as_their_classes_say(
    parts: Callable, loss: str | np.ndarray
) -> None:
    """And training has it; searches for the most violated read the costs that the loss adds up."""
    given, problem = parts()
    classes = classes_of(given)
    costs = 1 - np.eye(given.S) if isinstance(loss, str) else loss
    normalised = isinstance(loss, str) and loss == "normalised_hamming"

    def weighed(i: int, labels: np.ndarray) -> np.ndarray:
        weights = np.array([1.0, *WEIGHTS])[classes[i]]
        total = (weights * costs[given.y[i][None], labels]).sum(axis=1)
        return total / max(weights.sum(), 1e-9) if normalised else total

    weighted = js.graphs.weighted_labels(given.y, classes, given.S)
    assert not np.allclose(given.enumerated(loss).losses, given.enumerated(weighed).losses)
    if parts is enumerated:
        w, x = drawn(problem), given.inputs(plans=True)
        check_optimum((problem, x, weighted), "svm2_slack", 4.0, given.enumerated(weighed))
        for i, own in enumerate(js.predict(problem, w, x)):
            labels, psi = given.psi(i)
            np.testing.assert_array_equal(own, labels[np.argmax(psi @ flat(w))])
    y, every = np.full((len(weighted), MOST), -1), np.full((len(weighted), given.S**MOST, MOST), -1)
    for i, own in enumerate(weighted):
        labels = given.psi(i)[0]
        y[i, : len(own)], every[i, : len(labels), : len(own)] = own, labels
    found, right = (np.asarray(losses_of(problem, y, one)) for one in (every, y[:, None]))
    for i in range(len(weighted)):
        labels = given.psi(i)[0]
        np.testing.assert_allclose(found[i, : len(labels)], weighed(i, labels), atol=1e-12)
    assert not right.any()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("loss", "options"), [("hamming", {"node_weights": WEIGHTS}), ("zero_one", {})]
)
def test_oracles_by_elimination_are_the_best_of_all_labellings(loss: str, options: dict) -> None:
    """With symmetric tables of features alone; of zero-one all wrong labellings are one level."""
    given = random_graphs(2, 8, "any", Options(2, 0, True))
    problem = given.problem(inference="elimination", loss=loss, **options)
    classes = [np.full(len(y), 2 * len(options)) for y in given.y]
    weighted = js.graphs.weighted_labels(given.y, classes, given.S)
    x, y = bucketed(problem.padding, given.inputs(plans=True), weighted)
    (of_x,), (of_y,), w = x.parts, y.parts, drawn(problem)
    theta = jax.jit(jax.vmap(problem.model.potentials, (None, 0)))(w, of_x)

    def every(i: int) -> Every:
        labels, psi = given.psi(i)
        wide = [(0, 0), (0, of_y.shape[1] - labels.shape[1])]
        delta = given.losses(i, loss) * (WEIGHTS[1] if options else 1)
        outputs = np.pad(labels, wide, constant_values=-1)
        return Every(outputs, psi @ flat(w), delta, given.place(i))

    check_oracles(problem, theta, of_y, every)


def test_what_serves_the_formulations_by_elimination() -> None:
    served = set(FORMULATIONS) - {"svm2_margin"}
    for loss, names in (("hamming", served), ("zero_one", set(FORMULATIONS))):
        problem = random_graphs(4, 1, "tree").problem(inference="elimination", loss=loss)
        for name in names:
            assert "needs" not in oracle_for(problem, FORMULATIONS[name])
        for name in set(FORMULATIONS) - names:
            refused("needs", oracle_for, problem, FORMULATIONS[name])


def test_the_search_of_slack_rescaling_weighs_the_loss_by_elimination() -> None:
    """Searched for with many weights of the loss; `core.test_slack_search` has the search."""
    given, problem = eliminated()
    x, y, w = given.inputs(plans=True), given.outputs, drawn(problem)
    (of_x,), (of_y,) = (side.parts for side in bucketed(problem.padding, x, y))
    call = jax.vmap(problem.oracles.loss_augmented_decode, (0, 0, None))

    def of_scale(scale: jax.Array) -> jax.Array:
        return call(jax.vmap(problem.model.potentials, (None, 0))(w, of_x), of_y, scale)

    found = quick_jit(jax.vmap(of_scale))(np.array([0.0, 0.3, 20.0]))
    for scale, labels in zip((0.0, 0.3, 20.0), found, strict=True):
        for i, own in enumerate(np.asarray(labels)):
            every, psi = given.psi(i)
            best = np.argmax(psi @ flat(w) + scale * given.losses(i, COSTS))
            np.testing.assert_array_equal(own[: every.shape[1]], every[best])


@jax.jit
def measured(problem: js.Problem, w: dict, x: GraphInput, labels: jax.Array) -> tuple:
    """([k] F of labellings, [k] products of their planes with the sixth; the first is y)."""
    scores = jax.vmap(problem.model.score, (None, 0))(problem.model.potentials(w, x), labels)
    return scores, problem.space.plane_gram(x, labels[0], labels, labels[5])


@pytest.mark.smoke
def test_scores_and_inner_products_are_those_of_psi() -> None:
    every = (Options(), False), (Options(0, 3), False), (Options(2, 2, True), False)
    for options, sparse in (*every, (Options(2, 2, True), True)):
        given = random_graphs(5, 6, "any", options, S=3)
        problem = given.problem()
        w, x = drawn(problem), given.inputs(sparse=sparse)
        i = int(np.argmax([len(e) for e in given.edges]))
        own = jax.tree.map(lambda leaf, i=i: leaf[i], x, is_leaf=lambda z: hasattr(z, "rows"))
        labels, psi = given.psi(i)
        scores, gram = measured(problem, w, own, labels)
        np.testing.assert_allclose(scores, psi @ flat(w), atol=1e-10)
        planes = psi[0] - psi
        np.testing.assert_allclose(gram, planes @ planes[5], atol=1e-10)


GIVEN = random_graphs(8, 4, "tree", Options(2, 2))
X, Y = GIVEN.inputs(), GIVEN.outputs


def test_options_that_do_not_fit_are_refused() -> None:
    for options, message in (
        ({"number_of_labels": 1}, "number_of_labels must be at least 2, got 1"),
        ({"edge_kinds": -1}, "edge_kinds must be at least 0, got -1"),
        ({"loss": "f1"}, "loss is 'f1'; choose one of"),
        ({"loss": np.ones((3, 3))}, r"loss must be \[S = 2, S = 2\] numbers, .* or give a name"),
        ({"inference": "cut"}, "inference is 'cut'; choose one of"),
        ({"symmetric": 1}, "symmetric must be True or False"),
        ({"node_weights": (1, -2)}, r"node_weights\[1\] is -2.0: expected finite numbers >= 0"),
        ({"node_weights": (2,), "loss": "zero_one"}, 'node_weights: loss="zero_one" is of the'),
        ({"node_weights": (2,), "inference": "relaxed"}, 'node_weights: inference="relaxed" has'),
        ({"dtype": "float16"}, 'dtype must be "float32" or "float64"'),
    ):
        sizes = {"number_of_features": 2, "number_of_labels": 2}
        refused(message, graph_labelling, **sizes | options)
    for labels, classes, message in (
        ([[0, 2]], [[0, 0]], r"labels\[1\] is 2: expected 0..1"),
        ([[0, 1]], [[0, -1]], r"classes\[1\] is -1: expected 0.."),
        ([[0, 1]], [[0]], r"classes\[0\] has 1 entries, but labels\[0\] has 2: one each"),
    ):
        refused(message, js.graphs.weighted_labels, *map(np.array, (labels, classes)), 2)


def test_examples_that_do_not_fit_are_refused() -> None:
    larger = js.ragged([y + 6 for y in GIVEN.y])
    for inputs, outputs, options, message in (
        (X, Y, {"inference": "elimination"}, 'inputs.plan is None, but inference="elimination"'),
        (X._replace(edge_features=None), Y, {}, "edge_features = 2, the inputs have none"),
        (X._replace(kinds=None), Y, {}, "inputs.kinds is None, but the problem has edge_kinds"),
        (X.nodes, Y, {}, "inputs must be a GraphInput"),
        (X, larger, {}, "is .: expected 0..1, labels: see core"),
        (X, js.ragged([y[:-1] for y in GIVEN.y]), {}, "is -1: expected 0..1, labels"),
        (X, larger, {"node_weights": (0.0, 2.0)}, r"0..1 plus 2 times a class of node \(see wei"),
    ):
        refused(message, js.fit, GIVEN.problem(**options), inputs, outputs)
    rows, edges = [np.zeros((2, 3))] * 2, [np.array([[0, 1]]), np.zeros((0, 2), int)]
    long = [np.zeros((2, 1)), np.zeros((0, 1))]
    for arguments, options, message in (
        (([], []), {}, "nodes: no graphs; a graph needs at least one node"),
        (([np.zeros((0, 3)), rows[0]], edges), {}, r"nodes: nodes\[0\] has no rows"),
        ((rows, edges[:1]), {}, "edges holds 1 graphs, nodes holds 2"),
        ((rows, [[[0, 2]], []]), {}, r"edges\[0\]\[0, 1\] is 2: expected 0..1, the nodes"),
        ((rows, edges), {"kinds": [[0], [1]]}, r"kinds\[1\] has 1 entries, but edges\[1\] has 0"),
        ((rows, edges), {"edge_features": long}, r"edge_features\[0\] has 2 entries, but edges"),
        ((rows, edges), {"plans": 1}, "plans must be True or False"),
    ):
        refused(message, graph_inputs, *arguments, **options)
