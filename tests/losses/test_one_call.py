"""One oracle call in the forward pass, none in the backward pass; vmap, jit, remat, dtypes."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

import jaxstruct as js
from jaxstruct.core.transposition import is_linear
from tests.lib.refusals import refused
from tests.lib.thorough import thorough_after
from tests.losses.cases import case, linear_part, with_linear_part

losses = js.losses
KEY = jax.random.key(0)
LOOPS = ("scan", "while", "custom_vmap_call")
CALLED = {
    "hinge": (losses.structured_hinge, "loss_augmented_decode"),
    "slack": (partial(losses.structured_hinge, formulation="svm1_slack"), "best_by_level"),
    "perceptron": (losses.perceptron, "decode"),
    "perturbed": (partial(losses.perturbed, key=KEY, samples=4), "decode"),
}
SUMMED = {
    "log_loss": losses.log_loss,
    "entropy": losses.smoothed_hinge,
    "top_k": partial(losses.smoothed_hinge, smoothing="top_k", k=2),
}
EVERY = {name: loss for name, (loss, _) in CALLED.items()} | SUMMED


def first(row: int = 4, dtype: str = "float32") -> tuple:
    """(problem, theta, y) of one chain."""
    given = case("chains")
    theta, y = jax.tree.map(lambda leaf: np.asarray(leaf)[row], (given.theta, given.y))
    theta = jax.tree.map(lambda leaf: leaf.astype(dtype) if is_linear(leaf) else leaf, theta)
    theta, y = jax.tree.map(jnp.asarray, (theta, y))
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
    value, back = forward(linear_part(theta))
    jax.effects_barrier()
    assert calls == [oracle]
    (gradient,) = back(jnp.ones_like(value))
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

    parts = linear_part(theta)
    forward = loops(jax.make_jaxpr(lambda parts: jax.vjp(of_parts, parts)[0])(parts).jaxpr)
    whole = loops(jax.make_jaxpr(jax.value_and_grad(of_parts))(parts).jaxpr)
    assert whole == forward > 0
    if name == "log_loss":
        alone = jax.make_jaxpr(jax.value_and_grad(
            lambda parts: problem.inference.log_loss(with_linear_part(theta, parts), y)
        ))(parts)  # fmt: skip
        assert whole == loops(alone.jaxpr)


@pytest.mark.parametrize("name", ["hinge", "log_loss"])
def test_jit_vmap_and_remat_change_nothing(name: str, x64) -> None:
    """Examples one by one against all of them at once, under jit, vmap and remat."""
    loss, given = EVERY[name], case("chains")
    rows = (2, 4, 8)

    def of_one(parts: list, row: int | jax.Array) -> jax.Array:
        theta, y = jax.tree.map(lambda leaf: jnp.asarray(leaf)[row], (given.theta, given.y))
        return loss(given.problem, with_linear_part(theta, parts), y)

    parts = [leaf[2] for leaf in linear_part(given.theta)]
    run = jax.jit(jax.value_and_grad(of_one))
    alone = [run(parts, row) for row in rows]
    together = jax.jit(jax.vmap(jax.value_and_grad(jax.checkpoint(of_one)), (None, 0)))
    values, gradients = together(parts, jnp.array(rows))
    for i, (value, gradient) in enumerate(alone):
        np.testing.assert_allclose(values[i], value, rtol=1e-10, atol=1e-12)
        for leaf, own in zip(gradients, gradient, strict=True):
            np.testing.assert_allclose(leaf[i], own, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", thorough_after(3, EVERY))
def test_float32_stays_float32(name: str) -> None:
    """Without x64; the problem's own tables are of float32, too."""
    problem = js.chains.chain(1, 3, start_stop=True, order=2)
    _, theta, y = first()
    theta = jax.tree.map(lambda leaf: leaf.astype("float32") if is_linear(leaf) else leaf, theta)
    value, gradient = jax.eval_shape(
        jax.value_and_grad(lambda parts: EVERY[name](problem, with_linear_part(theta, parts), y)),
        linear_part(theta),
    )
    assert value.dtype == jnp.float32 and value.shape == ()
    for leaf, like in zip(gradient, linear_part(theta), strict=True):
        assert leaf.dtype == jnp.float32 and leaf.shape == like.shape


def test_gradients_go_to_the_network_through_lengths(x64) -> None:
    """theta whole, integers in it: allow_int leaves them without a gradient."""
    problem, theta, y = first(dtype="float64")
    of = jax.grad(lambda theta: losses.log_loss(problem, theta, y), allow_int=True)
    gradient = jax.jit(of)(theta)
    assert gradient.length.dtype == jax.dtypes.float0
    assert gradient.start.shape == theta.start.shape and jnp.abs(gradient.start).max() > 0


def test_only_first_derivatives_in_reverse_mode(x64) -> None:
    given = case("classes")
    theta, y = given.theta[1], jnp.asarray(given.y[1])
    with refused("custom_vjp", error=TypeError):
        jax.jvp(lambda theta: losses.perceptron(given.problem, theta, y), (theta,), (theta,))
