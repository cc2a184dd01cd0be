"""Scores in dynamic programs: the k largest, draws by their logarithms, kept finite.

Which are the k largest, and what belongs to them: the program does not grow with k. `jax.lax.top_k`
puts 0 before -0; an argmax takes the first of both, and so does what is here. Draws from
probabilities that are given as logarithms take the largest of log p + Gumbel noise.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxstruct.core.types import Array, PyTree


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


def k_largest(k: int, values: Array, others: PyTree = (), axis: int = 0) -> tuple[Array, PyTree]:
    """The k largest along an axis, falling; of equal ones, 0 and -0 among them, the first.

    Args:
      k: how many; the axis has at least as many entries.
      values: floats. others: arrays of the same shape; the entries at the same places are returned.

    Each of the k has the derivative of the one entry that it is, of equal ones, too.
    """
    values += jax.lax.stop_gradient(jnp.where(values == 0, -values, 0))
    top, places = jax.lax.top_k(values, k, axis=axis)
    return top, jax.tree.map(lambda leaf: jnp.take_along_axis(leaf, places, axis), others)


def largest(scores: Array, k: int) -> tuple[Array, Array]:
    """(the k largest of scores [K], their places int32); ties as above, -inf beyond K."""
    short = max(k - scores.shape[0], 0)
    scores = jnp.pad(scores, (0, short), constant_values=-jnp.inf)
    return k_largest(k, scores, jnp.arange(scores.shape[0], dtype=jnp.int32))


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
