"""Counting nodes: what a node adds to the level of its tree, upwards in a chart and downwards."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.types import Array
from jaxstruct.trees.oracles.charts import Layout


class LevelSizes(NamedTuple):
    """How many values the counts take over spans of w = 1..T tokens: static, Python integers.

    The charts hold no more than these, so small numbers make them fast. (A tree over w tokens has
    only w - 1 inner nodes.)

    Fields:
      matched: [T] n_w: over w tokens m is one of 0..n_w - 1. The last value stands for all larger
        ones. Where n_w < n_T, no tree over w tokens may have m >= n_w.
      predicted: [T] the same of p, or None where p is not counted. Trees with a larger p are left
        out. No node may match more than it predicts.
    """

    matched: tuple[int, ...]
    predicted: tuple[int, ...] | None = None


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


def _sources(layout: Layout, p: np.ndarray, m: np.ndarray) -> np.ndarray:
    """[T + 1, .., L] the levels (p, m) of every width, -1 where there is none."""
    width = np.arange(len(layout.levels)).reshape(-1, *(1,) * (p.ndim - 1))
    found = layout.index[width, np.maximum(p, 0), np.maximum(m, 0)]
    return np.where((p >= 0) & (m >= 0), found, -1)


def _take(raw: Array, index: Array) -> Array:
    """[L, S, B] raw[index[l, s], s], -inf where the index is -1."""
    symbols = jnp.arange(raw.shape[1])[None]
    taken = raw.at[jnp.maximum(index, 0), symbols].get(mode="promise_in_bounds")
    return jnp.where((index >= 0)[:, :, None], taken, -jnp.inf)


def _with_predicted(layout: Layout, width: Array, raw: Array, predicted: Array) -> Array:
    p, m = layout.counts[..., 0], layout.counts[..., 1]
    most = layout.index.shape[1]
    fewer = p[:, None] - np.arange(most + 1)[:, None]
    sources = jnp.asarray(_sources(layout, fewer, np.broadcast_to(m[:, None], fewer.shape)))
    return _take(raw, sources[width][jnp.minimum(predicted, most)].T)


def _with_one_match(layout: Layout, width: Array, raw: Array) -> Array:
    """Every level moved up by one match. Levels with the most matches also keep what they have."""
    p, m = layout.counts[..., 0], layout.counts[..., 1]
    below = jnp.asarray(_sources(layout, p, m - 1))[width]
    last = jnp.asarray(m == m.max(axis=1, keepdims=True))[width]
    moved = _take(raw, jnp.broadcast_to(below[:, None], raw.shape[:2]))
    return jnp.where(last[:, None, None], jnp.maximum(moved, raw), moved)


def with_node(
    layout: Layout, width: Array, raw: Array, matched: Array, predicted: Array | None
) -> Array:
    """[L, S, B] cells of a span, its own node counted, from cells that count what is below.

    Args:
      width: of the span. raw: [L, S, B]. matched: [S, b]. predicted: [S], or None.
    """
    if predicted is not None:
        raw = _with_predicted(layout, width, raw, predicted)

    def raise_once(v: Array, cells: Array) -> Array:
        return jnp.where((matched >= v)[None], _with_one_match(layout, width, cells), cells)

    return jax.lax.fori_loop(1, jnp.max(matched) + 1, raise_once, raw)


def levels_below(
    layout: Layout, width: Array, level: Array, matched: Array, predicted: Array | int
) -> tuple[Array, Array]:
    """(first, last) level of what is below a node that is at `level`."""
    p, m = jnp.moveaxis(jnp.asarray(layout.counts)[width, level], -1, 0)
    p = jnp.maximum(p - predicted, 0)
    index = jnp.asarray(layout.index)[width, p]
    most = jnp.asarray(layout.counts[..., 1].max(axis=1))[width]
    highest = jnp.asarray(layout.index >= 0).sum(axis=-1)[width, p] - 1
    last = jnp.where(m == most, most, m - matched)  # the last level is of all larger m, too
    first, last = (jnp.clip(bound, 0, highest) for bound in (m - matched, last))

    def at(count: Array) -> Array:
        return jnp.take_along_axis(index, count[..., None], axis=-1)[..., 0]

    return at(first), at(last)
