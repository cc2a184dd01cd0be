"""The relaxation of labelling to marginals: the linear program over the local polytope.

    max sum_v <theta_v, p_v> + sum_e <theta_e, p_e>   over p >= 0, sum_s p_v(s) = 1,
    sum_t p_e(s, t) = p_a(s), sum_s p_e(s, t) = p_b(t),   e = (a, b)

Labellings are its integral points; it also has fractional ones (of two labels: halves alone). Its
dual is the tree-reweighted bound. Where sequential message passing leaves a gap, its sweeps go on
with t log sum exp(. / t) in place of the maximum, t falling pass by pass: they then are block
ascent on a smooth dual, whose marginals

    p_v ~ exp(g_v B_v / t),   p_e ~ exp((g_a B_a - M_ba + theta_e + g_b B_b - M_ab) / t)

(`sweeps` for the letters) agree with one another in the limit. They are rounded to whole parts of
`UNITS`, p_v by largest remainders, and p_e filled up between the p_v of its ends: what comes out is
a point of the polytope in integers, without rounding.

B. Savchynskyy, J. Kappes, S. Schmidt and C. Schnoerr, "A study of Nesterov's scheme for Lagrangian
decomposition and MAP labeling", CVPR 2011 (smoothing, primal points by transport); T. Meltzer,
A. Globerson and Y. Weiss, "Convergent message passing algorithms: a unifying view", UAI 2009.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.batch_last import of_one_example
from jaxstruct.core.scores import finite_or_zero, positive_or_one
from jaxstruct.core.semiring import Best, Sums
from jaxstruct.core.types import Array
from jaxstruct.graphs.oracles.layout import Layout, at_ends, in_given_order, mean_of, times
from jaxstruct.graphs.oracles.sweeps import (
    PASSES,
    TOLERANCE,
    Messages,
    begun,
    checked_call,
    edge_beliefs,
    reweighted_parts,
    reweighted_shares,
    sweep,
    swept_to_rest,
)
from jaxstruct.graphs.potentials import PADDING, GraphPotentials

UNITS = 5040
"""Of marginals: 7!, so that halves, thirds, up to tenths but for none, are whole."""
PARTS = (2, 3, UNITS)
"""What marginals are rounded to: the vertices of two labels have halves alone."""
HALVINGS = 12
"""How often the temperature is halved, from half the range of the potentials of pairs."""


class Relaxed(NamedTuple):
    """A point of the local polytope of ONE graph, and what bounds all of them.

    Fields:
      nodes: [V, S] int32 p_v in parts of `UNITS`; PADDING beyond the last node.
      pairs: [E, S, S] int32 p_e likewise, the first label that of the first end.
      value: scalar, its objective; -inf where what was found is forbidden.
      bound: scalar, at least the objective of every point, hence F of every labelling.
    """

    nodes: Array
    pairs: Array
    value: Array
    bound: Array


class _Point(NamedTuple):
    """Of a batch, in the order of the layout: [V, S, B], [E, S, S, B], [B]."""

    nodes: Array
    pairs: Array
    value: Array


def _like(row: Array, leaf: Array) -> Array:
    """A row [B] with as many axes as a leaf [.., B]."""
    return row.reshape((1,) * (leaf.ndim - 1) + row.shape)


def _range(layout: Layout) -> Array:
    """[B] the largest difference of two finite potentials of one edge, 1 where there is none."""
    top = jnp.max(layout.pairs, axis=(1, 2))
    low = jnp.min(jnp.where(layout.pairs > -jnp.inf, layout.pairs, jnp.inf), axis=(1, 2))
    apart = jnp.where(jnp.isfinite(top) & jnp.isfinite(low), top - low, 0)
    return positive_or_one(jnp.max(apart, axis=0, initial=0))


def _softened(
    layout: Layout, messages: Messages, most: Array, open_: Array
) -> tuple[Messages, Array, Array]:
    """(messages, [B] a bound, [B] the last temperature) after sweeps of falling temperature."""
    B, shares = open_.shape[0], reweighted_shares(layout)
    start = _range(layout) / 2
    steps = jnp.maximum(most, 2) - 1

    def temperature(turn: Array) -> Array:
        return start * 2.0 ** (-HALVINGS * jnp.minimum(turn, steps) / steps).astype(start.dtype)

    def body(state: tuple) -> tuple:
        messages, turn = state
        moved = messages
        for upward in (True, False):
            heat = temperature(turn)
            moved = sweep(layout, moved, shares, Sums(), upward=upward, heat=heat).messages
        going = (turn < most)[None, None]
        return jax.tree.map(partial(jnp.where, going), moved, messages), turn + 1

    start_of = messages, jnp.int32(0)
    messages, _ = jax.lax.while_loop(
        lambda state: jnp.any(open_ & (state[1] < most)), body, start_of
    )
    up = sweep(layout, messages, shares, Best(), upward=True)
    return messages, up.bound, jnp.broadcast_to(temperature(steps), (B,))


def _whole(p: Array, parts: int) -> Array:
    """[V, S, B] int32 parts that sum to `parts`: largest remainders, ties to the lowest label."""
    exact = p * parts
    low = jnp.floor(exact).astype(jnp.int32)
    place = jnp.argsort(jnp.argsort(low - exact, axis=1), axis=1)
    missing = parts - jnp.sum(low, axis=1, keepdims=True)
    return low + (place < missing).astype(jnp.int32)


def _filled(scores: Array, rows: Array, columns: Array) -> Array:
    """[E, S, S, B] int32 tables of given sums of rows and columns [E, S, B], highest scores first.

    Every turn fills a place up to what its row or its column has left, and ends one of them.
    """
    E, S, _, B = scores.shape
    flat = scores.reshape(E, S * S, B)

    def body(_: Array, state: tuple) -> tuple:
        table, rows, columns = state
        open_ = (rows > 0)[:, :, None] & (columns > 0)[:, None]
        shown = jnp.where(open_.reshape(E, S * S, B), jnp.maximum(flat, -1e30), -jnp.inf)
        place = jnp.argmax(shown, axis=1)
        s, t = place // S, place % S
        amount = jnp.minimum(
            jnp.take_along_axis(rows, s[:, None], axis=1),
            jnp.take_along_axis(columns, t[:, None], axis=1),
        )
        own, other = (jnp.arange(S)[None, :, None] == index[:, None] for index in (s, t))
        put = jnp.where(own[:, :, None] & other[:, None], amount[:, None], 0)
        return table + put, rows - own * amount, columns - other * amount

    empty = jnp.zeros((E, S, S, B), jnp.int32)
    return jax.lax.fori_loop(0, 2 * S - 1, body, (empty, rows, columns))[0]


def objective(counts: Array, table: Array, axes: tuple[int, ...]) -> Array:
    """The sum of parts of `UNITS` times potentials; padding has none."""
    return mean_of(counts.astype(table.dtype) / UNITS, table, axes)


def _joined(layout: Layout, scores: Array, nodes: Array) -> _Point:
    """The best point found of these marginals of nodes, in parts of UNITS."""
    first, second = at_ends(nodes, layout.low), at_ends(nodes, layout.high)
    theta = layout.pairs
    centred = finite_or_zero(theta)
    for axis in (1, 2):
        centred = centred - jnp.mean(centred, axis=axis, keepdims=True)
    centred = jnp.where(theta > -jnp.inf, centred, -jnp.inf)
    tables = [_filled(order, first, second) for order in (scores, centred)]
    gains = [objective(table, theta, (1, 2)) for table in tables]
    better = (gains[1] > gains[0])[:, None, None]
    used = layout.low < len(nodes)
    of_pairs = jnp.sum(jnp.where(used, jnp.maximum(*gains), 0), axis=0)
    of_nodes = jnp.sum(jnp.where(layout.real, objective(nodes, layout.nodes, (1,)), 0), axis=0)
    return _Point(nodes, jnp.where(better, tables[1], tables[0]), of_nodes + of_pairs)


def _of_labels(layout: Layout, labels: Array, value: Array) -> _Point:
    """A labelling [V, B] as a point."""
    hot = (labels[:, None] == jnp.arange(layout.nodes.shape[1])[None, :, None]).astype(jnp.int32)
    first, second = at_ends(hot, layout.low), at_ends(hot, layout.high)
    return _Point(UNITS * hot, UNITS * first[:, :, None] * second[:, None], value)


def _better(a: _Point, b: _Point) -> _Point:
    """The better of two, ties to the first."""
    take = b.value > a.value
    return jax.tree.map(lambda old, new: jnp.where(_like(take, new), new, old), a, b)


def _kernel(potentials: GraphPotentials, passes: Array, tolerance: Array) -> Relaxed:
    _, layout, most, tolerance = begun(potentials, passes, tolerance)
    found, messages = swept_to_rest(layout, Best(), most, tolerance)
    size = tolerance * jnp.maximum(1, jnp.abs(found.bound))
    open_ = found.bound - found.value > size
    messages, bound, t = _softened(layout, messages, most, open_)
    beliefs = times(reweighted_parts(layout)[:, None], messages.beliefs)
    marginals = jax.nn.softmax(beliefs / t[None, None], axis=1)
    scores = edge_beliefs(layout, messages._replace(beliefs=beliefs))
    best = _of_labels(layout, found.labels, found.value)
    for parts in PARTS:
        nodes = _whole(marginals, parts) * (UNITS // parts)
        point = _joined(layout, scores, nodes)
        best = _better(best, point._replace(value=jnp.where(open_, point.value, -jnp.inf)))
    used = layout.low < layout.nodes.shape[0]
    bound = jnp.where(open_, jnp.minimum(bound, found.bound), found.bound)
    return Relaxed(
        jnp.where(layout.real[:, None], best.nodes, PADDING),
        in_given_order(layout, jnp.where(used[:, None, None], best.pairs, PADDING)),
        best.value,
        jnp.maximum(bound, best.value),
    )


_of_one = of_one_example(_kernel)


def relaxed(
    potentials: GraphPotentials, passes: Array | int = PASSES, tolerance: Array | float = TOLERANCE
) -> Relaxed:
    """The best marginals found, and a bound on all: the relaxation of one graph from both sides.

    Args:
      potentials: of one graph.
      passes: of maxima at most so many sweeps up and down, and as many of falling temperature where
        these leave a gap; at least 1, may be traced.
      tolerance: relative to max(1, |bound|): a gap below it is closed.

    Returns:
      `Relaxed`. Its marginals are exactly consistent integers: rows and columns of p_e sum to p_a
      and p_b. Where a labelling closes the gap they are that labelling's. Of two labels the value
      is the optimum of the linear program up to what the last temperature leaves open, of more the
      bound says how far it may be. Under `vmap`, nested or not, one batched program runs for all
      graphs. There is no derivative in JAX.

    Raises:
      ValueError: as `graph_potentials`; passes is below 1.
    """
    return _of_one(*checked_call(potentials, passes, tolerance))
