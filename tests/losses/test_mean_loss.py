"""The mean over a batch: weights, keys, options, gradients into features, and what is refused."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxstruct as js
from jaxstruct.losses import log_loss, mean_loss, padded_batch, perturbed, structured_hinge
from tests.lib.refusals import refused

pytestmark = pytest.mark.usefixtures("x64")
n, d, k = 6, 3, 4


def batch() -> tuple:
    """(problem, w, x, y) of classes."""
    random = np.random.default_rng(0)
    problem = js.multiclass.multiclass(d, k, dtype="float64")
    w = {"weights": jnp.asarray(random.normal(size=(d, k)))}
    return problem, w, jnp.asarray(random.normal(size=(n, d))), jnp.arange(n, dtype=jnp.int32) % k


def test_it_is_the_mean_and_its_gradient_goes_into_weights_and_features() -> None:
    problem, w, x, y = batch()

    def plain(w: dict, x: jax.Array) -> jax.Array:
        return jnp.mean(-jax.nn.log_softmax(x @ w["weights"])[jnp.arange(n), y])

    of = jax.value_and_grad(lambda w, x: mean_loss(log_loss, problem, w, x, y), argnums=(0, 1))
    found, wanted = jax.jit(of)(w, x), jax.jit(jax.value_and_grad(plain, (0, 1)))(w, x)
    for a, b in zip(*map(jax.tree.leaves, (found, wanted)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


@pytest.mark.smoke
def test_weights_leave_rows_out() -> None:
    problem, w, x, y = batch()
    weights = jnp.array([1, 1, 0, 2, 0, 0])
    one = partial(structured_hinge, problem, formulation="svm2")
    values = jax.jit(jax.vmap(one))(x @ w["weights"], y)
    of = jax.jit(partial(mean_loss, structured_hinge, problem, formulation="svm2"))
    found = of(w, x, y, example_weights=weights)
    np.testing.assert_allclose(found, (values[0] + values[1] + 2 * values[3]) / 4, rtol=1e-12)
    assert of(w, x, y, example_weights=0 * weights) == 0


def test_every_example_has_noise_of_its_own() -> None:
    problem, w, x, y = batch()
    same = jnp.broadcast_to(x[:1], x.shape), jnp.zeros(n, jnp.int32)
    key = jax.random.key(1)
    found = jax.jit(partial(mean_loss, perturbed, problem, samples=2))(w, *same, key=key)
    one = partial(perturbed, problem, x[0] @ w["weights"], same[1][0], samples=2)
    each = jax.jit(jax.vmap(one))(jax.random.split(key, n))
    np.testing.assert_allclose(found, np.mean(each), rtol=1e-12)
    assert len(set(each.tolist())) > 1


def test_a_ragged_batch_is_padded_once() -> None:
    problem = js.chains.chain(2, 3, dtype="float64")
    tokens = [np.full((length, 2), length, float) for length in (2, 5, 1)]
    x = js.chains.chain_inputs(js.ragged(tokens))
    x, y = padded_batch(problem, x, js.ragged([np.zeros(len(own), int) for own in tokens]))
    assert x.features.shape[:1] == (3,) and x.features.shape[1] == y.shape[1] >= 5
    assert x.length.tolist() == [2, 5, 1] and (y >= 0).sum(axis=1).tolist() == [2, 5, 1]
    value = jax.jit(partial(mean_loss, log_loss, problem))(problem.initial_weights, x, y)
    np.testing.assert_allclose(value, 8 * np.log(3) / 3, rtol=1e-12)
    assert padded_batch(problem, x, y)[1] is y


def test_what_does_not_fit_is_refused_in_one_line() -> None:
    problem, w, x, y = batch()
    refused("problem must be a jaxstruct.Problem", mean_loss, log_loss, "chain", w, x, y)
    refused("loss must be a function", mean_loss, "log_loss", problem, w, x, y)
    refused("first axes", mean_loss, log_loss, problem, w, x, y[:-1])
    with refused("example_weights must be"):
        mean_loss(log_loss, problem, w, x, y, example_weights=jnp.ones(2))
    refused("problem must be a jaxstruct.Problem", padded_batch, None, x, y)
