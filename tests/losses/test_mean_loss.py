"""Losses over a batch, what every loss has in common, and what each refuses."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

import jaxstruct as js
from jaxstruct.core.transposition import is_linear, linear_leaves
from jaxstruct.losses import (
    log_loss,
    mean_loss,
    padded_batch,
    perceptron,
    perturbed,
    smoothed_hinge,
    structured_hinge,
)
from tests.lib.refusals import refused
from tests.lib.thorough import thorough_after
from tests.losses.cases import case, with_linear_part

n, d, k = 6, 3, 4


def batch() -> tuple:
    """(problem, w, x, y) of classes."""
    random = np.random.default_rng(0)
    problem = js.multiclass.multiclass(d, k, dtype="float64")
    w = {"weights": random.normal(size=(d, k))}
    return problem, w, random.normal(size=(n, d)), np.arange(n, dtype=np.int32) % k


def test_it_is_the_mean_and_its_gradient_goes_into_weights_and_features(x64: None) -> None:
    problem, w, x, y = batch()

    def plain(w: dict, x: jax.Array) -> jax.Array:
        return jnp.mean(-jax.nn.log_softmax(x @ w["weights"])[jnp.arange(n), y])

    of = jax.value_and_grad(lambda w, x: mean_loss(log_loss, problem, w, x, y), argnums=(0, 1))
    found, wanted = jax.jit(of)(w, x), jax.jit(jax.value_and_grad(plain, (0, 1)))(w, x)
    for a, b in zip(*map(jax.tree.leaves, (found, wanted)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)
    closed = jax.jit(lambda w: mean_loss(log_loss, problem, w, x, y))  # over arrays of NumPy
    np.testing.assert_allclose(closed(w), wanted[0], rtol=1e-12)


@pytest.mark.smoke
def test_weights_leave_rows_out(x64: None) -> None:
    problem, w, x, y = batch()
    weights = np.array([1, 1, 0, 2, 0, 0])
    one = partial(structured_hinge, problem, formulation="svm2")
    values = np.asarray(jax.jit(jax.vmap(one))(x @ w["weights"], y))
    of = jax.jit(partial(mean_loss, structured_hinge, problem, formulation="svm2"))
    found = of(w, x, y, example_weights=weights)
    np.testing.assert_allclose(found, (values[0] + values[1] + 2 * values[3]) / 4, rtol=1e-12)
    assert float(of(w, x, y, example_weights=0 * weights)) == 0


def test_every_example_has_noise_of_its_own(x64: None) -> None:
    problem, w, x, y = batch()
    same = np.broadcast_to(x[:1], x.shape), np.zeros(n, np.int32)
    key = jax.random.key(1)
    found = jax.jit(partial(mean_loss, perturbed, problem, samples=2))(w, *same, key=key)
    one = partial(perturbed, problem, x[0] @ w["weights"], same[1][0], samples=2)
    each = jax.jit(jax.vmap(one))(jax.random.split(key, n))
    np.testing.assert_allclose(found, np.asarray(each).mean(), rtol=1e-12)
    assert len(set(each.tolist())) > 1


def test_a_ragged_batch_is_padded_once(x64: None) -> None:
    problem = js.chains.chain(2, 3, dtype="float64")
    tokens = [np.full((length, 2), length, float) for length in (2, 5, 1)]
    x = js.chains.chain_inputs(js.ragged(tokens))
    x, y = padded_batch(problem, x, js.ragged([np.zeros(len(own), int) for own in tokens]))
    assert x.features.shape[:1] == (3,) and x.features.shape[1] == y.shape[1] >= 5
    assert x.length.tolist() == [2, 5, 1] and (y >= 0).sum(axis=1).tolist() == [2, 5, 1]
    value = jax.jit(partial(mean_loss, log_loss, problem))(problem.initial_weights, x, y)
    np.testing.assert_allclose(value, 8 * np.log(3) / 3, rtol=1e-12)
    assert padded_batch(problem, x, y)[1] is y


def test_what_does_not_fit_is_refused_in_one_line(x64: None) -> None:
    problem, w, x, y = batch()
    refused("problem must be a jaxstruct.Problem", mean_loss, log_loss, "chain", w, x, y)
    refused("loss must be a function", mean_loss, "log_loss", problem, w, x, y)
    refused("first axes", mean_loss, log_loss, problem, w, x, y[:-1])
    with refused("example_weights must be"):
        jax.jit(partial(mean_loss, log_loss, problem))(w, x, y, example_weights=np.ones(2))
    refused("problem must be a jaxstruct.Problem", padded_batch, None, x, y)


KEY = jax.random.key(0)
LOOPS = ("scan", "while", "custom_vmap_call")
CALLED = {
    "hinge": (structured_hinge, "loss_augmented_decode"),
    "slack": (partial(structured_hinge, formulation="svm1_slack"), "best_by_level"),
    "perceptron": (perceptron, "decode"),
    "perturbed": (partial(perturbed, key=KEY, samples=4), "decode"),
}
SUMMED = {
    "log_loss": log_loss,
    "entropy": smoothed_hinge,
    "top_k": partial(smoothed_hinge, smoothing="top_k", k=2),
}
EVERY = {name: loss for name, (loss, _) in CALLED.items()} | SUMMED


def first(row: int = 4, dtype: str = "float32") -> tuple:
    """(problem, theta, y) of one chain of first order."""
    given = case("chains", order=1)
    theta, y = jax.tree.map(lambda leaf: np.asarray(leaf)[row], (given.theta, given.y))
    theta = jax.tree.map(lambda leaf: leaf.astype(dtype) if is_linear(leaf) else leaf, theta)
    return given.problem, theta, y


def counted(problem: js.Problem, name: str, calls: list) -> js.Problem:
    """The problem, one of whose functions notes each time that it runs."""
    of_model = name == "decode"
    part = problem.model if of_model else problem.oracles
    inner = getattr(part, name)

    def noting(*arguments):
        jax.debug.callback(lambda: calls.append(name))
        return inner(*arguments)

    part = part._replace(**{name: Partial(noting)})
    return problem._replace(model=part) if of_model else problem._replace(oracles=part)


@pytest.mark.parametrize("name", CALLED)
def test_the_oracle_runs_once_forward_and_never_backward(name: str, x64) -> None:
    """All samples of the perturbed loss are one batched call."""
    loss, oracle = CALLED[name]
    problem, theta, y = first(dtype="float64")
    calls: list[str] = []
    noting = counted(problem, oracle, calls)
    forward = jax.jit(
        partial(jax.vjp, lambda parts: loss(noting, with_linear_part(theta, parts), y))
    )
    value, back = forward(linear_leaves(theta))
    jax.effects_barrier()
    assert calls == [oracle]
    (gradient,) = jax.jit(lambda back, slope: back(slope))(back, np.ones_like(value))
    jax.effects_barrier()
    assert calls == [oracle] and max(np.abs(leaf).max() for leaf in gradient) > 0


def loops(jaxpr) -> int:
    """Loops and batch-last oracles in a jaxpr and in what it calls."""
    count = 0
    for equation in jaxpr.eqns:
        count += equation.primitive.name in LOOPS
        for value in equation.params.values():
            for inner in value if isinstance(value, tuple | list) else [value]:
                inner = getattr(inner, "jaxpr", inner)
                count += loops(inner) if hasattr(inner, "eqns") else 0
    return count


@pytest.mark.parametrize("name", EVERY)
def test_the_backward_pass_has_no_loop(name: str, x64) -> None:
    """Nor has the forward pass more of them than the oracle alone."""
    loss = EVERY[name]
    problem, theta, y = first(dtype="float64")

    def of_parts(parts: list) -> jax.Array:
        return loss(problem, with_linear_part(theta, parts), y)

    parts = linear_leaves(theta)
    forward = loops(jax.make_jaxpr(lambda parts: jax.vjp(of_parts, parts)[0])(parts).jaxpr)
    whole = loops(jax.make_jaxpr(jax.value_and_grad(of_parts))(parts).jaxpr)
    assert whole == forward > 0
    if name == "log_loss":
        alone = jax.make_jaxpr(jax.value_and_grad(
            lambda parts: problem.inference.log_loss(with_linear_part(theta, parts), y)
        ))(parts)  # fmt: skip
        assert whole == loops(alone.jaxpr)


@pytest.mark.parametrize("name", thorough_after(3, EVERY))
def test_float32_stays_float32(name: str) -> None:
    """Without x64; the problem's own tables are of float32, too."""
    problem = js.chains.chain(1, 3, start_stop=True)
    _, theta, y = first()
    theta = jax.tree.map(lambda leaf: leaf.astype("float32") if is_linear(leaf) else leaf, theta)
    value, gradient = jax.eval_shape(
        jax.value_and_grad(lambda parts: EVERY[name](problem, with_linear_part(theta, parts), y)),
        linear_leaves(theta),
    )
    assert value.dtype == jnp.float32 and value.shape == ()
    for leaf, like in zip(gradient, linear_leaves(theta), strict=True):
        assert leaf.dtype == jnp.float32 and leaf.shape == like.shape


def test_gradients_go_to_the_network_through_lengths(x64) -> None:
    """theta whole, integers in it: allow_int leaves them without a gradient."""
    problem, theta, y = first(dtype="float64")
    of = jax.grad(lambda theta: log_loss(problem, theta, y), allow_int=True)
    gradient = jax.jit(of)(theta)
    assert gradient.length.dtype == jax.dtypes.float0
    assert gradient.start.shape == theta.start.shape and np.abs(gradient.start).max() > 0


def test_only_first_derivatives_in_reverse_mode(x64) -> None:
    given = case("classes")
    theta, loss = np.asarray(given.theta)[1], lambda theta: perceptron(given.problem, theta, y)
    y = np.asarray(given.y)[1]
    with refused("custom_vjp", error=TypeError):
        jax.jit(partial(jax.jvp, loss))((theta,), (theta,))


LOSSES = (log_loss, perceptron, smoothed_hinge, structured_hinge)


@pytest.mark.parametrize("loss", LOSSES)
def test_one_example_of_a_problem_is_wanted(loss) -> None:
    problem = js.multiclass.multiclass(2, 3)
    theta, y = np.zeros(3, np.float32), np.int32(1)
    assert jax.eval_shape(loss, problem, theta, y).shape == ()
    for wrong, message in [
        (("chain", theta, y), "problem must be a jaxstruct.Problem, got 'chain'"),
        ((problem, np.zeros(3, int), y), "theta must hold floating-point potentials"),
        ((problem, np.zeros((5, 3), np.float32), np.zeros(5, int)), r"ONE example.*\(5, 3\)"),
        ((problem, theta, np.zeros(5, int)), "mean_loss over a batch"),
        ((problem, {"theta": theta}, y), "theta and y must be those of ONE example"),
    ]:
        refused(message, loss, *wrong)


def test_formulations_are_named() -> None:
    problem = js.multiclass.multiclass(2, 3)
    with refused("formulation is 'svm0'; choose one of"):
        structured_hinge(problem, jnp.zeros(3), jnp.int32(0), "svm0")
