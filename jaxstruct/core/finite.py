"""Numbers kept finite where a sum is empty or a choice forbidden."""

from __future__ import annotations

import jax.numpy as jnp

from jaxstruct.core.types import Array


def positive_or_one(divisor: Array) -> Array:
    """A divisor that is 1 where it would be 0."""
    return jnp.where(divisor > 0, divisor, 1)


def finite_or_zero(logs: Array) -> Array:
    """Logarithms with 0 for -inf."""
    return jnp.where(logs > -jnp.inf, logs, 0)


def inf_unless(possible: Array, loss: Array) -> Array:
    """A loss log Z - F(y), and +inf with the gradient 0 where P(y | x) = 0.

    Args:
      possible: whether y is an output. loss: -inf where there is none, and so neither is y.
    """
    return jnp.where(possible & (loss != -jnp.inf), loss, jnp.inf)
