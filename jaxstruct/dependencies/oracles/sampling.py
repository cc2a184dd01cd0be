"""Trees drawn from P(y | x) = exp(F(x, y)) / Z(x), word by word."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxstruct.core.types import Array
from jaxstruct.dependencies.oracles.sums import marginals
from jaxstruct.dependencies.potentials import PADDING, checked_potentials, is_word

ROUNDING = 8
"""Probabilities of up to so many roundings a word are taken for 0: arcs that would close a circle
with those drawn before have no other."""


def sample_tree(
    potentials: Array, length: Array, key: Array, *, projective: bool
) -> tuple[Array, Array]:
    """One tree: the arc into each word from its probability given those of the words before.

    Args:
      potentials, length, projective: as `best_tree`. key: of `jax.random`.

    Returns:
      (heads, labels), [T] int32 with PADDING beyond the length. T sums over all trees are taken.

    Raises:
      ValueError: as `best_tree`.
    """
    potentials, length = checked_potentials(potentials, length)
    T1, T, R = potentials.shape
    least = ROUNDING * T * jnp.finfo(potentials.dtype).eps

    def draw(allowed: Array, at: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array]]:
        word, key = at
        found = marginals(allowed, length, projective=projective)[0][:, word]
        possible = jnp.where(found > least, found, 0)
        place = jax.random.categorical(key, jnp.log(possible).reshape(-1))
        chosen = (jnp.arange(T1 * R) == place).reshape(T1, 1, R)
        others = (jnp.arange(T) == word)[None, :, None] & ~chosen
        return jnp.where(others, -jnp.inf, allowed), (place // R, place % R)

    keys = jax.random.split(key, T)
    _, (heads, labels) = jax.lax.scan(draw, potentials, (jnp.arange(T), keys))
    real = is_word(length, T)
    heads, labels = (jnp.where(real, each, PADDING).astype(jnp.int32) for each in (heads, labels))
    return heads, labels
