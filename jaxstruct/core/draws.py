"""Draws from probabilities that are given as logarithms, by the largest of log p + Gumbel noise."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxstruct.core.types import Array


def noise(key: Array, shape: tuple[int, ...], dtype: jnp.dtype) -> Array:
    """Independent Gumbel numbers.

    With JAX's mode "low" an alternative below 1e-7 of the largest would not be drawn in float32,
    and of millions of equal ones the first too often; with "high" that limit is 1e-14.
    """
    return jax.random.gumbel(key, shape, dtype, mode="high")


def drawn(logs: Array, noise: Array) -> Array:
    """[..] int32 the place n along axis 0, with probability exp(logs[n]) / sum exp(logs).

    Nothing is cut off, whatever the number of places or their scale. One of -inf is drawn only
    where all are: then it is place 0.

    Args:
      logs: [N, ..]. noise: [N, ..] of `noise`.
    """
    return jnp.argmax(logs + noise, axis=0).astype(jnp.int32)


def draw(key: Array, logs: Array) -> Array:
    """The place of one draw from logs [N], as `drawn`."""
    return drawn(logs, noise(key, logs.shape, logs.dtype))
