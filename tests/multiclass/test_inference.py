"""Logistic regression: the likelihood of a class against its definition."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.multiclass.structure import multiclass


def test_value_and_gradient_are_those_of_the_softmax() -> None:
    scores = np.random.default_rng(0).normal(size=(20, 5)) * 3
    y = np.arange(20) % 5
    problem = multiclass(2, 5)

    def value(theta: jax.Array, y: jax.Array) -> jax.Array:
        return problem.inference.log_loss(theta, y)

    values, slopes = jax.vmap(jax.value_and_grad(value))(
        jnp.asarray(scores, jnp.float32), jnp.asarray(y)
    )
    p = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(values, -np.log(p[np.arange(20), y]), rtol=1e-4)
    np.testing.assert_allclose(slopes, p - np.eye(5)[y], atol=1e-5)


def test_the_difference_of_log_z_and_the_score_keeps_its_digits() -> None:
    """Scores of 1e5, where float32 knows steps of 0.008: log Z - F would be off by so much."""
    theta = jnp.asarray([1e5 + 0.5, 1e5], jnp.float32)
    found = multiclass(2, 2).inference.log_loss(theta, jnp.int32(1))
    np.testing.assert_allclose(found, np.log1p(np.exp(0.5)), rtol=1e-6)
