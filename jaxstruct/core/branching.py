"""The k best outputs by branching on the best (K. Murty 1968; E. Lawler 1972)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxstruct.core.types import PyTree


def k_best_by_branching(whole: Any, branches: Callable, k: int) -> PyTree:
    """The k best outputs of a set, the best first.

    Args:
      whole: the set, a NamedTuple whose field `best` is its best output, a NamedTuple with a field
        `score`; -inf where the set is empty.
      branches: set -> sets [m] that are disjoint and hold all of its outputs but the best.
      k: static, at least 1.

    Returns:
      best [k], all different, with scores that do not rise; where there are fewer, scores are -inf
      and the rest is anything.
    """

    def with_scores(sets: Any, scores: Any) -> Any:
        return sets._replace(best=sets.best._replace(score=scores))

    def fill(leaf: Any) -> Any:
        return jnp.zeros((k, *leaf.shape), leaf.dtype).at[0].set(leaf)

    def take(held: Any, _: None) -> tuple[Any, PyTree]:
        """The best output that is held, and the sets that remain without it."""
        at = jnp.argmax(held.best.score)
        one = jax.tree.map(lambda leaf: leaf[at], held)
        rest = with_scores(held, held.best.score.at[at].set(-jnp.inf))
        both = jax.tree.map(
            lambda a, b: jnp.concatenate([a, b.astype(a.dtype)]), rest, branches(one)
        )
        order = jnp.argsort(-both.best.score, stable=True)[:k]
        return jax.tree.map(lambda leaf: leaf[order], both), one.best

    score = whole.best.score
    empty = jnp.full(k, -jnp.inf, score.dtype).at[0].set(score)
    return jax.lax.scan(take, with_scores(jax.tree.map(fill, whole), empty), None, length=k)[1]
