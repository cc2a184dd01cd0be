"""Marginals as outputs: a labelling written as one keeps its score, its loss and its Psi."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxstruct as js
from jaxstruct.core.padding import bucketed
from jaxstruct.graphs.inputs import GraphInput, graph_inputs
from jaxstruct.graphs.marginals import UNITS, Marginals, marginal_outputs
from jaxstruct.graphs.structure import graph_labelling
from tests.graphs.structure_cases import Options, flat, random_graphs
from tests.lib.refusals import refused

GIVEN = random_graphs(4, 5, "any", Options(2, 2, True), S=3)
X, Y = GIVEN.inputs(), GIVEN.outputs
pytestmark = pytest.mark.usefixtures("x64")


def _example(tree, i: int):
    return jax.tree.map(lambda leaf: leaf[i], tree, is_leaf=lambda leaf: hasattr(leaf, "rows"))


@jax.jit
def measured(problem: js.Problem, w: dict, x: GraphInput, y_true: jax.Array, y: jax.Array) -> tuple:
    """(F, Delta, Psi) of an output."""
    theta = problem.model.potentials(w, x)
    parts = problem.model.score(theta, y), problem.model.loss(y_true, y)
    return *parts, js.joint_feature(problem, x, y)


def test_a_labelling_keeps_its_score_and_its_loss() -> None:
    relaxed = GIVEN.problem(inference="relaxed", loss="normalised_hamming")
    plain = GIVEN.problem(loss="normalised_hamming")
    rng, given = np.random.default_rng(0), marginal_outputs(X, Y, 3)
    w = {
        name: jnp.asarray(rng.normal(size=leaf.shape))
        for name, leaf in plain.initial_weights.items()
    }
    drawn = js.ragged([rng.integers(0, 3, len(y)).astype(np.int32) for y in Y])
    other = marginal_outputs(X, drawn, 3)
    for i in (int(np.argmax([len(edges) for edges in GIVEN.edges])),):
        x = _example(X, i)
        for labels, p in ((Y[i], _example(given, i)), (drawn[i], _example(other, i))):
            score, loss, psi = measured(relaxed, w, x, _example(given, i), p)
            wanted = measured(plain, w, x, Y[i], labels)
            assert score == pytest.approx(wanted[0]) and loss == pytest.approx(wanted[1])
            np.testing.assert_allclose(flat(psi), flat(wanted[2]), atol=1e-12)


def test_graphs_without_edges_fit_and_are_predicted() -> None:
    """Pairs of marginals are padding alone there, of what is given and of what is found."""
    nodes = [np.eye(2)[[0, 1]], np.eye(2)[[1]]]
    x = graph_inputs(nodes, [np.zeros((0, 2), int)] * 2)
    y = marginal_outputs(x, js.ragged([[0, 1], [1]]), 2)
    problem = graph_labelling(2, 2, inference="relaxed", dtype="float64")
    (of_x,), (of_y,) = (side.parts for side in bucketed(problem.padding, x, y))
    w = {"nodes": jnp.eye(2), "pairs": jnp.ones((1, 2, 2))}

    def augmented(x: GraphInput, y: Marginals) -> Marginals:
        theta = problem.model.potentials(w, x)
        return problem.oracles.loss_augmented_decode(theta, y, jnp.ones(())).output

    likely = jax.eval_shape(jax.vmap(augmented), of_x, of_y)  # a training pass writes them there
    assert jax.tree.map(np.shape, likely) == jax.tree.map(np.shape, of_y)
    found = js.predict(problem, w, x)
    assert isinstance(found, Marginals)
    np.testing.assert_array_equal(found.nodes[0], UNITS * np.eye(2))
    np.testing.assert_array_equal(found.nodes[1], [[0, UNITS]])
    assert len(found.pairs[0]) == 0


def test_what_does_not_fit_is_refused() -> None:
    refused("inputs must be a GraphInput", marginal_outputs, X.nodes, Y, 3)
    floats, larger = js.ragged([y * 1.0 for y in Y]), js.ragged([y + 9 for y in Y])
    refused(r"outputs must be \[nodes\] integers", marginal_outputs, X, floats, 3)
    few = js.take(Y, np.arange(2))
    refused("outputs must be of n = 5 inputs.nodes, got 2", marginal_outputs, X, few, 3)
    refused(r"outputs\[0\] is .*: expected 0\.\.2", marginal_outputs, X, larger, 3)
    options = {"inference": "relaxed", "loss": "zero_one"}
    refused('loss="zero_one" does not add up over nodes', GIVEN.problem, **options)
    problem, given = GIVEN.problem(inference="relaxed"), marginal_outputs(X, Y, 3)
    refused("outputs must be a pytree like", js.fit, problem, X, Y)
    half = js.Ragged(given.pairs.rows // 2, given.pairs.offsets, -1)
    words = "outputs.pairs must be 5040 at one label each"
    refused(words, js.fit, problem, X, given._replace(pairs=half))
