"""A structure of one's own that lists its outputs and says which of them agree: orders of items.

What is known of an order is that some items stand before others; all orders are listed.
"""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxstruct as js
from tests.lib.incomplete import check_completions, check_training
from tests.lib.refusals import refused

ITEMS, D = 3, 2
ORDERS = np.array(list(itertools.permutations(range(ITEMS))), np.int32)


def potentials(w: Any, x: jax.Array) -> jax.Array:
    return x @ w


def score(theta: jax.Array, y: jax.Array) -> jax.Array:
    """Item i stands at place y[i]."""
    return jnp.sum(jnp.take_along_axis(theta, y[:, None], axis=1))


def all_outputs(y_true: Any) -> jax.Array:
    y = y_true.output if isinstance(y_true, js.Truth) else y_true
    own = jnp.argmax(jnp.all(jnp.asarray(ORDERS) == y[None], axis=1))
    return jnp.roll(jnp.asarray(ORDERS), -own, axis=0)


def decode(theta: jax.Array) -> jax.Array:
    return jnp.asarray(ORDERS)[jnp.argmax(jax.vmap(score, (None, 0))(theta, jnp.asarray(ORDERS)))]


def wrong(before: jax.Array, y: jax.Array) -> jax.Array:
    """How many pairs stand the other way: before[i, j] says that item i stands before j."""
    return jnp.sum(jnp.where(before & (y[:, None] > y[None]), 1.0, 0.0))


def loss(y_true: Any, y: jax.Array) -> jax.Array:
    if isinstance(y_true, js.Truth):
        return wrong(y_true.numbers, y)
    return wrong(y_true[:, None] < y_true[None], y)


def augmented(theta: jax.Array, y_true: Any, scale: jax.Array) -> jax.Array:
    F = jax.vmap(score, (None, 0))(theta, jnp.asarray(ORDERS))
    costs = jax.vmap(loss, (None, 0))(y_true, jnp.asarray(ORDERS))
    return jnp.asarray(ORDERS)[jnp.argmax(F + scale * costs)]


def agrees(before: jax.Array, y: jax.Array) -> jax.Array:
    return wrong(before, y) == 0


def problem(dtype: str = "float32") -> js.Problem:
    return js.make_problem(
        jnp.zeros((D, ITEMS), dtype),
        js.Model(potentials, score, decode, loss, agrees=agrees),
        js.Oracles(loss_augmented_decode=augmented, all_outputs=all_outputs),
    )


def example(n: int, known: float, dtype: str) -> tuple[js.Problem, np.ndarray, np.ndarray]:
    """(problem, inputs, [n, 3, 3] which pairs are known of an order drawn for each)."""
    random = np.random.default_rng(3)
    x = random.normal(size=(n, ITEMS, D)).astype(dtype)
    true = random.permuted(np.tile(np.arange(ITEMS), (n, 1)), axis=1)
    before = true[:, :, None] < true[:, None]
    kept = random.random(before.shape) < known
    return problem(dtype), x, before & kept


def listed(before: np.ndarray) -> Any:
    def of(i: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        stands = ORDERS[:, :, None] < ORDERS[:, None]
        delta = np.sum(before[i] & ~stands, axis=(1, 2)).astype(float)
        return ORDERS, delta == 0, delta

    return of


@pytest.mark.smoke
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_completions_and_likelihoods_are_those_of_the_list(dtype: str) -> None:
    with jax.enable_x64(dtype == "float64"):
        own, x, before = example(300, 0.4, dtype)
        data = own, x, js.Incomplete(np.tile(ORDERS[:1], (300, 1)), before)
        check_completions(data, listed(before))


@pytest.mark.thorough
def test_a_training_ends_at_a_critical_point(x64: None) -> None:
    """Where all is known `tests.solvers.test_latent` has the weights of `fit`."""
    own, x, before = example(40, 0.5, "float64")
    outputs = js.Incomplete(np.tile(ORDERS[:1], (40, 1)), before)
    check_training((own, x, outputs), listed(before), 10.0)


def test_what_agrees_needs_a_list() -> None:
    model = js.Model(potentials, score, decode, loss, agrees=agrees)
    parts = model, js.Oracles(loss_augmented_decode=augmented)
    message = "model.agrees completes outputs that Oracles.all_outputs lists"
    refused(message, js.make_problem, jnp.zeros((D, ITEMS)), *parts)
