"""The k best outputs by branching on the best (K. Murty 1968; E. Lawler 1972)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxstruct.core.types import Array, PyTree


def k_best_by_branching(
    whole: Any, branches: Callable, k: int, above: Array | float = -jnp.inf
) -> PyTree:
    """The k best outputs of a set, the best first.

    Args:
      whole: the set, a NamedTuple whose field `best` is its best output, a NamedTuple with a field
        `score`; -inf where the set is empty.
      branches: set -> sets [m] that are disjoint and hold all of its outputs but the best.
      k: static, at least 1.
      above: scalar; only outputs of a score above it count, and no work is done for others.

    Returns:
      best [k], all different, with scores that do not rise; where there are fewer, scores are -inf
      and the rest is anything.
    """

    def with_scores(sets: Any, scores: Any) -> Any:
        return sets._replace(best=sets.best._replace(score=scores))

    def fill(leaf: Any) -> Any:
        return jnp.zeros((k, *leaf.shape), leaf.dtype).at[0].set(leaf)

    def more(state: tuple) -> Array:
        count, held = state
        return (count < k - 1) & (held.best.score[count] > above)

    def split(state: tuple) -> tuple:
        """Behind the outputs that are taken, sets by their best outputs: the first one is split."""
        count, held = state
        parts = branches(jax.tree.map(lambda leaf: leaf[count], held))
        both = jax.tree.map(lambda a, b: jnp.concatenate([a, b.astype(a.dtype)]), held, parts)
        places = jnp.arange(len(both.best.score))
        key = jnp.where(places <= count, -jnp.inf, -both.best.score)
        order = jnp.argsort(key, stable=True)[:k]
        return count + 1, jax.tree.map(lambda leaf: leaf[order], both)

    score = whole.best.score
    empty = jnp.full(k, -jnp.inf, score.dtype).at[0].set(score)
    start = jnp.int32(0), with_scores(jax.tree.map(fill, whole), empty)
    best = jax.lax.while_loop(more, split, start)[1].best
    return best._replace(score=jnp.where(best.score > above, best.score, -jnp.inf))
