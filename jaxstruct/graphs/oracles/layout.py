"""The arrays of a batch of graphs as the kernels take them: batch last, edges in one order.

Every edge runs from its lower node to its higher one, and edges are sorted by the lower node, then
by the higher one. Walking them from the first to the last meets every edge into a node from below
before any edge out of it upward; walking back, every edge from above before any edge downward. So
one list serves both sweeps, and the same step of every graph is one contiguous slice.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from jaxstruct.core.scores import finite_or_zero, positive_or_one
from jaxstruct.core.types import Array
from jaxstruct.graphs.potentials import PADDING, GraphPotentials


class Layout(NamedTuple):
    """A batch of B graphs.

    Fields:
      nodes: [V, S, B], zeros at padding.
      low, high: [E, B] int32 the ends of each edge, V (out of range) at padding.
      pairs: [E, S, S, B], axis 1 the label at the lower end; zeros at padding.
      order: [E, B] the edge, as given, at each place. flipped: [E, B] whether it was turned.
      real: [V, B] bool. count: int32 scalar, places in use in the fullest graph.
    """

    nodes: Array
    low: Array
    high: Array
    pairs: Array
    order: Array
    flipped: Array
    real: Array
    count: Array


def arranged(potentials: GraphPotentials, batch: int) -> Layout:
    """As `laid_out`, but what all graphs share keeps a trailing axis of 1.

    Nodes and real have B all the same. Edges that all graphs share are sorted once.

    Args:
      potentials, batch: as `laid_out`.
    """
    nodes, edges, pairs, number_of_nodes, number_of_edges, _ = potentials
    wide = max(edges.shape[-1], number_of_edges.shape[-1])
    edges = jnp.broadcast_to(edges, (*edges.shape[:-1], wide))
    nodes = jnp.broadcast_to(nodes, (*nodes.shape[:-1], batch))
    V, E = nodes.shape[0], edges.shape[0]
    real = jnp.arange(V)[:, None] < jnp.broadcast_to(number_of_nodes, (batch,))[None]
    used = jnp.arange(E)[:, None] < jnp.broadcast_to(number_of_edges, (wide,))[None]
    low = jnp.where(used, jnp.min(edges, axis=1), V)
    high = jnp.where(used, jnp.max(edges, axis=1), V)
    turned = used & (edges[:, 0] > edges[:, 1])
    order = jnp.lexsort((high, low), axis=0).astype(jnp.int32)
    low, high, turned, used = (
        jnp.take_along_axis(leaf, order, axis=0) for leaf in (low, high, turned, used)
    )
    if wide > 1:  # graphs of other edges, or one table an edge for all of them
        pairs = jnp.broadcast_to(pairs, (*pairs.shape[:-1], wide))
        pairs = jnp.take_along_axis(pairs, order[:, None, None], axis=0)
    else:
        pairs = pairs[order[:, 0]]
    pairs = jnp.where(turned[:, None, None], jnp.swapaxes(pairs, 1, 2), pairs)
    pairs = jnp.where(used[:, None, None], pairs, 0)
    nodes = jnp.where(real[:, None], nodes, 0)
    return Layout(nodes, low, high, pairs, order, turned, real, jnp.max(number_of_edges))


def widened(layout: Layout, batch: int) -> Layout:
    """Every leaf of an arranged layout, but for the count, with a trailing axis of B."""
    wide = (jnp.broadcast_to(leaf, (*leaf.shape[:-1], batch)) for leaf in layout[:-1])
    return Layout._make((*wide, layout.count))


def laid_out(potentials: GraphPotentials, batch: int) -> Layout:
    """Potentials with a trailing batch axis, a table an edge, in the order of the module.

    Args:
      potentials: as `checked_potentials` leaves them, every leaf [.., B] or [.., 1].
      batch: B.
    """
    return widened(arranged(potentials, batch), batch)


def rows_at(table: Array, index: Array) -> Array:
    """[S, B] row index[b] of each column b of a table [V, S, B]; any row where out of range."""
    index = jnp.minimum(index, table.shape[0] - 1)
    return jnp.take_along_axis(table, index[None, None], axis=0)[0]


def with_rows_at(table: Array, index: Array, rows: Array) -> Array:
    """The table [V, S, B] with row index[b] of column b set; dropped where out of range."""
    S, B = rows.shape
    labels, columns = jnp.arange(S)[:, None], jnp.arange(B)[None]
    return table.at[index[None], labels, columns].set(rows, mode="drop")


def at_ends(table: Array, ends: Array) -> Array:
    """[E, .., B] rows of a table [V, .., B] at nodes [E, B]; any row where one is out of range."""
    (E, B), inner = ends.shape, (1,) * (table.ndim - 2)
    index = jnp.minimum(ends, table.shape[0] - 1).reshape(E, *inner, B)
    return jnp.take_along_axis(table, index, axis=0)


def summed_at(size: int, index: Array, rows: Array) -> Array:
    """[V, .., B] sums of rows [E, .., B] by their index [E, B]; dropped where out of range."""
    columns = jnp.broadcast_to(jnp.arange(index.shape[1]), index.shape)
    moved = jnp.moveaxis(rows, -1, 1)  # [E, B, ..]
    zeros = jnp.zeros((size, index.shape[1], *moved.shape[2:]), rows.dtype)
    return jnp.moveaxis(zeros.at[index, columns].add(moved, mode="drop"), 1, -1)


def first_argmax(table: Array, axis: int) -> Array:
    """int32 the lowest index of the maximum along an axis."""
    return jnp.argmax(table, axis=axis).astype(jnp.int32)


def minus(total: Array, part: Array) -> Array:
    """total - part, where a part of -inf has made the total -inf, too: that stays."""
    allowed = total > -jnp.inf
    return jnp.where(allowed, total - jnp.where(allowed, part, 0), -jnp.inf)


def times(weight: Array, total: Array) -> Array:
    """weight total, where 0 times -inf is -inf: what is forbidden stays so."""
    return jnp.where(total > -jnp.inf, weight * total, -jnp.inf)


def mean_of(p: Array, table: Array, axes: tuple[int, ...]) -> Array:
    """The sum of shares p >= 0 times potentials; what has none may be forbidden."""
    return jnp.sum(jnp.where(p > 0, p * jnp.where(p > 0, table, 0), 0), axis=axes)


def shares_of(logs: Array, axes: tuple[int, ...]) -> Array:
    """Logarithms as probabilities over some axes; all 0 where nothing is allowed."""
    top = finite_or_zero(jnp.max(logs, axis=axes, keepdims=True))
    weights = jnp.exp(logs - top)
    return weights / positive_or_one(jnp.sum(weights, axis=axes, keepdims=True))


def score(layout: Layout, labels: Array) -> Array:
    """[B] F of labellings [V, B]; labels of padding are ignored."""
    y = jnp.clip(labels, 0, layout.nodes.shape[1] - 1)
    own = jnp.take_along_axis(layout.nodes, y[:, None], axis=1)[:, 0]
    total = jnp.sum(jnp.where(layout.real, own, 0), axis=0)
    first, second = at_ends(y, layout.low), at_ends(y, layout.high)
    rows = jnp.take_along_axis(layout.pairs, first[:, None, None], axis=1)[:, 0]
    return total + jnp.sum(jnp.take_along_axis(rows, second[:, None], axis=1)[:, 0], axis=0)


def padded_labels(layout: Layout, labels: Array) -> Array:
    """[V, B] labels with PADDING beyond the last node."""
    return jnp.where(layout.real, labels, PADDING)


def in_given_order(layout: Layout, rows: Array) -> Array:
    """[E, S, S, B] tables of the places as tables of the edges as they were given."""
    turned = jnp.where(layout.flipped[:, None, None], jnp.swapaxes(rows, 1, 2), rows)
    back = jnp.argsort(layout.order, axis=0)
    return jnp.take_along_axis(turned, back[:, None, None], axis=0)
