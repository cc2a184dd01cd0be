"""Levels of trees: pairs (p, m) of the predicted and the matched nodes of a tree.

They are numbered p M + m. The last m stands for all larger ones; trees with a p beyond the last
are left out.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.types import Array


class LevelSizes(NamedTuple):
    """How many values the counts take over spans of w = 1..T tokens: static, Python integers.

    Charts have as many levels as the T tokens, so small numbers make them fast. (A tree over w
    tokens has only w - 1 inner nodes.)

    Fields:
      matched: [T] n_w: over w tokens m is one of 0..n_w - 1. The last value stands for all larger
        ones. Where n_w < n_T, no tree over w tokens may have m >= n_w.
      predicted: [T] the same of p, or None where p is not counted. Trees with a larger p are left
        out. No node may match more than it predicts.
    """

    matched: tuple[int, ...]
    predicted: tuple[int, ...] | None = None

    @property
    def pair(self) -> tuple[int, int]:
        """(P, M), P being 1 where p is not counted."""
        return 1 if self.predicted is None else self.predicted[-1], self.matched[-1]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the levels, (M,) or (P, M)."""
        return self.pair if self.predicted is not None else self.pair[1:]


def inner_sizes(tokens: int, cap: int | None = None) -> LevelSizes:
    """Sizes for m alone, where inner nodes count 1 at most and single tokens nothing.

    Args:
      tokens: T.
      cap: the last m, which stands for all larger ones; None for T - 1, so that all m are exact.
    """
    most = tokens - 1 if cap is None else cap
    return LevelSizes(tuple(min(w, most + 1) for w in range(1, tokens + 1)))


def capped_sizes(tokens: int, cap: int) -> LevelSizes:
    """Sizes for m alone, whatever nodes count: 0 .. cap, the last for all larger ones."""
    return LevelSizes((cap + 1,) * tokens)


class NodeCounts(NamedTuple):
    """What the nodes of the trees of ONE sentence add to m and to p.

    Fields:
      matched: [T, T, S] integers >= 0 of (first token, last token, symbol), single tokens included.
      predicted: [S] integers >= 0, or None where p is not counted.
    """

    matched: Array
    predicted: Array | None = None


def _raised(values: Array, times: Array, capped: bool) -> Array:
    """Values [L, ..] moved up by `times` [..]; if capped the last one keeps its own, too."""

    def once(n: Array, values: Array) -> Array:
        moved = jnp.concatenate([jnp.full_like(values[:1], -jnp.inf), values[:-1]])
        moved = moved.at[-1].max(values[-1]) if capped else moved
        return jnp.where(times >= n, moved, values)

    return jax.lax.fori_loop(1, jnp.max(times).astype(jnp.int32) + 1, once, values)


def counted(
    values: Array, shape: tuple[int, int], matched: Array, predicted: Array | None
) -> Array:
    """Values [P M, .., X, B] of nodes that add so much, [.., X, b], themselves."""
    table = values.reshape(*shape, *values.shape[1:])
    if predicted is not None:
        table = _raised(table, predicted, False)
    table = jnp.swapaxes(_raised(jnp.swapaxes(table, 0, 1), matched, True), 0, 1)
    return table.reshape(values.shape)


@cache
def joined(shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """([X, 2] levels of two parts, by their joined level, [P M + 1] where each of these begins)."""
    (P, M), count = shape, shape[0] * shape[1]
    pairs = np.indices((count, count), np.int32).reshape(2, -1)
    (p, m), (other_p, other_m) = (np.divmod(part, M) for part in pairs)
    level = np.where(p + other_p < P, (p + other_p) * M + np.minimum(m + other_m, M - 1), count)
    order = np.argsort(level, kind="stable")
    starts = np.searchsorted(level[order], np.arange(count + 1))
    return pairs[:, order[: starts[-1]]].T, starts


def levels_of_right(
    shape: tuple[int, int], level: Array | int, left: Array | int,
    predicted: Array | int = 0, matched: Array | int = 0,
) -> tuple[Array, Array]:  # fmt: skip
    """(first, end) of the right part's levels, for a node at a level with a left part at another.

    Args:
      predicted, matched: what the node adds itself.
    """
    M = shape[1]
    (p, m), (left_p, left_m) = jnp.divmod(level, M), jnp.divmod(left, M)
    last = m == M - 1  # of all larger m, too
    p, m = p - left_p - predicted, m - left_m - matched
    there = (p >= 0) & (last | (m >= 0))
    first = jnp.maximum(p, 0) * M + jnp.maximum(m, 0)
    return first, jnp.where(there, jnp.where(last, p * M + M, first + 1), first)
