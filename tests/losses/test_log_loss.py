"""The log loss against every output of small examples, and other likelihoods in its place."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxstruct as js
from jaxstruct.graphs import with_log_loss
from jaxstruct.losses.one_call import log_loss
from tests.lib.refusals import refused
from tests.losses.cases import (
    answers,
    assert_slopes,
    case,
    differentiated,
    flat,
    softmax_truth,
    truth,
)

pytestmark = pytest.mark.usefixtures("x64")


@pytest.mark.parametrize("output_type", ["classes", "chains", "trees", "alignments", "graphs"])
def test_values_and_gradients_are_those_of_enumeration(output_type: str) -> None:
    own, value, gradient = answers(log_loss, output_type)
    wanted, slope = softmax_truth(own, own.advantage)
    np.testing.assert_allclose(value, wanted, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(gradient, slope, rtol=0, atol=1e-9)


@pytest.mark.smoke
def test_candidate_lists_have_one_too() -> None:
    problem = js.strings.candidates(2, dtype="float64")
    theta = problem.model.potentials(
        {"weights": jnp.array([1.0, -2.0])},
        js.strings.CandidateFeatures(jnp.array([4, 7, -1]), jnp.eye(3, 2)),
    )
    value, gradient = jax.jit(
        jax.value_and_grad(
            lambda scores: log_loss(problem, theta._replace(scores=scores), jnp.int32(7))
        )
    )(theta.scores)
    np.testing.assert_allclose(value, np.log1p(np.exp(3.0)), rtol=1e-12)
    p = 1 / (1 + np.exp(-3.0))
    np.testing.assert_allclose(gradient, [p, -p, 0], rtol=0, atol=1e-12)


def test_an_approximation_takes_its_place() -> None:
    given = case("graphs")
    run = differentiated(log_loss, with_log_loss(given.problem, "pseudo"))
    value, _ = run(given.theta, given.y)
    own = truth("graphs")
    exact, _ = softmax_truth(own, own.advantage)
    assert np.abs(np.asarray(value) - exact).max() > 0.1
    assert_slopes(run, given)


def test_structures_without_one_are_refused_in_one_line() -> None:
    given = case("classes")
    theta, y = jax.tree.map(lambda leaf: leaf[0], (given.theta, given.y))
    with refused("problem has no log_loss: give make_problem"):
        log_loss(given.problem._replace(inference=js.Inference()), theta, y)
    given = case("graphs")
    theta, y = jax.tree.map(lambda leaf: leaf[0], (given.theta, given.y))
    with refused("inputs have no plans of elimination"):
        log_loss(given.problem, theta._replace(plan=None), y)


@pytest.mark.thorough
def test_it_takes_less_memory_than_plain_autodiff() -> None:
    """Value and gradient on 8 chains of 60 labels out of 20, beside a scan of log-sum-exp."""
    B, T, S = 8, 60, 20
    problem = js.chains.chain(1, S, dtype="float64")
    random = np.random.default_rng(0)
    emissions, transitions = random.normal(size=(B, T, S)), random.normal(size=(S, S))
    length = random.integers(1, T + 1, B)
    y = np.where(np.arange(T) < length[:, None], random.integers(0, S, (B, T)), -1)

    def layer(emissions: jax.Array, length: jax.Array, y: jax.Array, table: jax.Array) -> jax.Array:
        theta = js.chains.ChainTheta(emissions, table, None, None, None, length)
        return log_loss(problem, theta, y)

    def plain(emissions: jax.Array, length: jax.Array, y: jax.Array, table: jax.Array) -> jax.Array:
        def step(alpha: jax.Array, row: tuple) -> tuple:
            t, scores = row
            new = jax.nn.logsumexp(alpha[:, None] + table, axis=0) + scores
            return jnp.where(t < length, new, alpha), None

        rows = (jnp.arange(1, T), emissions[1:])
        alpha, _ = jax.lax.scan(step, emissions[0], rows)
        own = jnp.where(y >= 0, emissions[jnp.arange(T), y], 0)
        pairs = jnp.where(y[1:] >= 0, table[y[:-1], y[1:]], 0)
        return jax.nn.logsumexp(alpha) - jnp.sum(own) - jnp.sum(pairs)

    found = []
    for loss in (layer, plain):

        def total(emissions: jax.Array, table: jax.Array, loss=loss) -> jax.Array:
            return jnp.sum(jax.vmap(loss, (0, 0, 0, None))(emissions, length, y, table))

        run = jax.jit(jax.value_and_grad(total, argnums=(0, 1)))
        program = run.lower(emissions, transitions).compile()
        memory = program.memory_analysis().temp_size_in_bytes
        found.append((memory, program(emissions, transitions)))
    (own, by_layer), (other, by_autodiff) = found
    for a, b in zip(*map(jax.tree.leaves, (by_layer, by_autodiff)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
    assert own < 0.5 * other


def _impossible_chain(order: int) -> tuple:
    rules = js.chains.Constraints(
        np.array([[1, 0], [0, 1]], bool), np.array([0, 1], bool), np.array([1, 0], bool)
    )
    problem = js.chains.chain(1, 2, order=order, constraints=rules, dtype="float64")
    x = js.chains.chain_inputs(np.ones((3, 4, 1)), np.array([4, 3, 4]))
    return problem, x, np.array([[0, 1, 0, 1], [0, 1, 0, -1], [0, 1, 1, 1]])


def _impossible_segments() -> tuple:
    problem = js.segments.segmenter(1, 2, 2, outside=0, dtype="float64")
    x = js.segments.segment_inputs(np.ones((4, 3, 1)), np.array([3, 3, 3, 2]))
    return problem, x, np.array([[1, 3, 2], [1, 0, 1], [3, 2, 2], [3, 2, -1]])


def _impossible_tree(forest: bool) -> tuple:
    data = js.trees.prepare(["(S (A a) (B b))"] * 2, dtype="float64", loss="all_node_f1")
    x, y = js.losses.padded_batch(data.problem, data.inputs, data.outputs)
    x = x._replace(terminals=np.array([[0, 1], [1, 0]]), forest=x.forest if forest else None)
    if forest:
        sentences = data.encoding.inputs([["A", "B"], ["B", "A"]])
        x, _ = js.losses.padded_batch(data.problem, sentences, data.outputs)
    return data.problem, x, y


IMPOSSIBLE = {
    "chain": (lambda: _impossible_chain(1), [0, 1, 1]),
    "chain of order 2": (lambda: _impossible_chain(2), [0, 1, 1]),
    "segments": (_impossible_segments, [0, 1, 1, 0]),
    "tree on charts": (lambda: _impossible_tree(False), [0, 1]),
    "tree in a forest": (lambda: _impossible_tree(True), [0, 1]),
}


@pytest.mark.parametrize(
    "name, loss",
    [*((name, "log_loss") for name in IMPOSSIBLE), ("chain", "smoothed_hinge"),
     ("tree on charts", "smoothed_hinge")],
)  # fmt: skip
def test_outputs_of_probability_0_cost_infinity_and_move_nothing(name: str, loss: str) -> None:
    """Those that are forbidden, and those of inputs that have none; the others are finite."""
    make, infinite = IMPOSSIBLE[name]
    problem, x, y = make()
    weights = problem.initial_weights
    theta = jax.jit(jax.vmap(problem.model.potentials, (None, 0)))(weights, x)
    value, slope = differentiated(getattr(js.losses, loss), problem)(theta, y)
    np.testing.assert_array_equal(np.isposinf(value), np.array(infinite, bool))
    slope = np.asarray(flat(slope))
    assert np.isfinite(slope).all() and not slope[np.isposinf(value)].any()
