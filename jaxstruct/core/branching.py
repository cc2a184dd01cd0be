"""The k best outputs by branching on the best (K. Murty 1968; E. Lawler 1972)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

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


class _Restricted(NamedTuple):
    """A set of outputs that share their first parts.

    Fields:
      best: its best output. first: before this part all are fixed.
      barred: which choices the part `first` may not take.
    """

    best: PyTree
    first: Array
    barred: Array


def k_best_by_parts(
    best_of: Callable, same: Callable, table: Array, parts: Array, k: int,
    above: Array | float = -jnp.inf, *, axis: int,
) -> PyTree:  # fmt: skip
    """The k best outputs of parts that choose one each; see `k_best_by_branching`.

    Outputs but the best one differ from it at a first part t: so they fall into sets, one a part,
    that share with it the choices before t and have another one at t.

    Args:
      best_of: table of bools, which choices parts may take, or True -> best output; see `whole`.
      same: best output -> table of bools, which choices it has, or ones that count as equal.
      table: of the shape of such tables. parts: scalar, how many of them there are.
      axis: of the table, along which parts lie; the others are their choices.
    """
    count = table.shape[axis]
    part = jnp.arange(count).reshape(*(-1 if a == axis else 1 for a in range(table.ndim)))

    def branches(one: _Restricted) -> _Restricted:
        own = same(one.best)

        def branch(t: Array) -> _Restricted:
            taken = jax.lax.dynamic_index_in_dim(own, t, axis, keepdims=False)
            barred = (one.barred & (t == one.first)) | taken
            free = (part > t) | ~jnp.expand_dims(barred, axis)
            best = best_of(jnp.where(part < t, own, free))
            inside = (t >= one.first) & (t < parts)
            score = jnp.where(inside, best.score, -jnp.inf)
            return _Restricted(best._replace(score=score), t, barred)

        return jax.lax.map(branch, jnp.arange(count, dtype=jnp.int32))

    nothing = jnp.zeros(table.shape[:axis] + table.shape[axis + 1 :], bool)
    whole = _Restricted(best_of(True), jnp.int32(0), nothing)
    return k_best_by_branching(whole, branches, k, above)
