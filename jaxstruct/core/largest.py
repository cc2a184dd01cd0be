"""The k largest of a list with what belongs to them: the program does not grow with k.

`jax.lax.top_k` puts 0 before -0; an argmax takes the first of both, and so does what is here.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxstruct.core.types import Array, PyTree


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
