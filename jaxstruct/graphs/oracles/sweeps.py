"""One sweep of messages along the edges of a graph, up or down: what three oracles are made of.

B_v(x) = nodes[v, x] + sum of the messages into v. A sweep upward walks the edges (s, t), s < t, in
the order of `layout`, a sweep downward walks back. At an edge from s to t it sets

    M_st(x_t) = reduce_{x_s} [ g_s B_s(x_s) - M_ts(x_s) + pairs(x_s, x_t) ],

g_s a share of each node: 1 is belief propagation, 1 / max(edges of s upward, downward) is the
sequential tree-reweighted update. reduce is the maximum, or t log sum exp(. / t) with t = g_s.

With shares g_s n_s <= 1, n_s the edges of s in the direction of the sweep, the terms

    sum_s (1 - g_s n_s) reduce B_s + sum_edges [what was subtracted to normalise M_st]

bound max F (with the maximum) or log sum exp F (with the sum) from above, whatever the messages
against the sweep are: what a node does not pass on along its edges is its own term, the reduction
of an edge's part over both ends is what normalises its message, and the parts of a node add up to
B_s (Kolmogorov 2006, section 3, for maxima; for sums it is Hoelder's inequality with the weights
g_s and 1 - g_s n_s, Liu and Ihler 2011).

V. Kolmogorov, "Convergent tree-reweighted message passing for energy minimization", PAMI 28, 2006.
Q. Liu and A. Ihler, "Bounding the partition function using Hoelder's inequality", ICML 2011.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.finite import finite_or_zero, positive_or_one
from jaxstruct.core.loops import scan_first
from jaxstruct.core.types import Array
from jaxstruct.graphs.oracles.layout import (
    MOST_WRITTEN,
    Layout,
    first_argmax,
    minus,
    rows_at,
    score,
    summed_at,
    times,
    with_rows_at,
)

LITTLE = 1e-6
"""Below it nothing is left of a node but rounding."""


PASSES = 100
TOLERANCE = 1e-6
"""Relative to max(1, |bound|): a gap below it is closed, a bound that falls by less has come to
rest."""


class Messages(NamedTuple):
    """Messages of every edge, and what they make of the nodes.

    Fields:
      up: [E, S, B] from the lower end, of the label at the higher one.
      down: [E, S, B] from the higher end, of the label at the lower one.
      beliefs: [V, S, B] potentials and all messages into a node.
    """

    up: Array
    down: Array
    beliefs: Array


class Shares(NamedTuple):
    """Which part of a node each of its edges takes in a sweep.

    Fields:
      part: [V, B]. left_up, left_down: [V, B] what the edges of the direction do not take.
      edges: [E, B] the part that an edge takes of its source, upward and downward alike; None where
        it is `part` of the source.
    """

    part: Array
    left_up: Array
    left_down: Array
    edges: Array | None = None


class Swept(NamedTuple):
    """What a sweep leaves.

    Fields:
      messages: new in its direction.
      bound: [B] of the module; meant for shares with nothing below 0 left.
      change: [B] the largest change of a message; 0 where nobody looks (see `sweep`).
    """

    messages: Messages
    bound: Array
    change: Array


def no_messages(layout: Layout) -> Messages:
    """All messages 0."""
    zeros = jnp.zeros_like(layout.pairs[:, :, 0])
    return Messages(zeros, zeros, layout.nodes)


def degrees(layout: Layout) -> tuple[Array, Array]:
    """([V, B], [V, B]) edges of each node upward and downward."""
    V, _, B = layout.nodes.shape
    ones = jnp.ones((layout.low.shape[0], B), layout.nodes.dtype)
    return summed_at(V, layout.low, ones), summed_at(V, layout.high, ones)


def reweighted_shares(layout: Layout) -> Shares:
    """Of the sequential tree-reweighted update: monotone chains of edges."""
    up, down = degrees(layout)
    part = 1 / positive_or_one(jnp.maximum(up, down))
    return Shares(part, 1 - part * up, 1 - part * down)


def even_shares(layout: Layout) -> Shares:
    """Of tree-reweighted sums: the smaller share of both ends, so that both sweeps see one entropy.

    Upward as downward, the bound's dual is then <mu, theta> + sum_v H(mu_v) - sum_e g_e I(mu_e).
    """
    part = reweighted_shares(layout).part
    least = part.shape[0] - 1
    edges = jnp.minimum(
        jnp.take_along_axis(part, jnp.minimum(layout.low, least), axis=0),
        jnp.take_along_axis(part, jnp.minimum(layout.high, least), axis=0),
    )
    V = layout.nodes.shape[0]
    taken_up, taken_down = (summed_at(V, end, edges) for end in (layout.low, layout.high))
    return Shares(part, 1 - taken_up, 1 - taken_down, edges)


def whole_shares(layout: Layout) -> Shares:
    """Of belief propagation: every edge sees all of a node."""
    ones = jnp.ones_like(layout.nodes[:, 0])
    return Shares(ones, jnp.zeros_like(ones), jnp.zeros_like(ones))


def maximum(own: Array, table: Array, temperature: Array) -> Array:
    """[T, B] the maximum over x of own [S, B] + table [S, T, B]."""
    del temperature
    if own.shape[0] > MOST_WRITTEN:
        return jnp.max(own[:, None] + table, axis=0)
    best = own[0][None] + table[0]
    for x in range(1, own.shape[0]):  # a reduction over the first axis takes three times as long
        best = jnp.maximum(best, own[x][None] + table[x])
    return best


def log_sum(own: Array, table: Array, temperature: Array) -> Array:
    """[T, B] t log sum_x exp((own + table) / t) over x, for t [B] > 0."""
    top = finite_or_zero(maximum(own, table, temperature))
    scaled = (own[:, None] + table - top[None]) / temperature[None, None]
    return top + temperature[None] * jnp.log(jnp.sum(jnp.exp(scaled), axis=0))


def label_of(row: Array) -> Array:
    """[B] int32 the lowest label of the maximum of a row [S, B]."""
    best, label = row[0], jnp.zeros(row.shape[1:], jnp.int32)
    for x in range(1, row.shape[0]):
        better = row[x] > best
        best, label = jnp.where(better, row[x], best), jnp.where(better, x, label)
    return label


def _own_terms(layout: Layout, left: Array, beliefs: Array, reduce: Callable) -> Array:
    """[B] sum_s left_s reduce B_s over the nodes of which something is left."""
    V, S, B = layout.nodes.shape
    row = jnp.moveaxis(beliefs, 1, 0).reshape(S, V * B)
    each = reduce(row, jnp.zeros((S, 1, V * B), row.dtype), jnp.ones(V * B, row.dtype))
    kept = layout.real & (left > LITTLE)
    return jnp.sum(jnp.where(kept, times(left, each.reshape(V, B)), 0), axis=0)


def _step(upward: bool, reduce: Callable, dampen: Array | None) -> Callable:
    """The step at one edge; see the module."""

    def body(carry: tuple, row: tuple) -> tuple[tuple, tuple]:
        beliefs, bound, change = carry
        low, high, table, up, down, share, real = row
        source, target = (low, high) if upward else (high, low)
        table = table if upward else jnp.swapaxes(table, 0, 1)
        old, against = (up, down) if upward else (down, up)
        rest = minus(times(share[None], rows_at(beliefs, source)), against)
        new = reduce(rest, table, share)
        lift = finite_or_zero(jnp.max(new, axis=0))
        new = new - lift[None]
        if dampen is not None:
            kept = dampen * (finite_or_zero(old) - finite_or_zero(new))
            new = jnp.where(new > -jnp.inf, new + kept, -jnp.inf)
            moved = jnp.max(jnp.abs(finite_or_zero(new) - finite_or_zero(old)), axis=0)
            change = jnp.maximum(change, jnp.where(real, moved, 0))
        beliefs = with_rows_at(beliefs, target, minus(rows_at(beliefs, target), old) + new)
        bound = bound + jnp.where(real, lift, 0)
        return (beliefs, bound, change), (jnp.where(real[None], new, 0),)

    return body


def _shares_of_edges(layout: Layout, part: Array, upward: bool) -> Array:
    """[E, B] the share of each edge's source."""
    source = layout.low if upward else layout.high
    return jnp.take_along_axis(part, jnp.minimum(source, part.shape[0] - 1), axis=0)


def sweep(
    layout: Layout,
    messages: Messages,
    shares: Shares,
    reduce: Callable,
    *,
    upward: bool,
    dampen: Array | None = None,
) -> Swept:
    """One sweep; see the module.

    Args:
      layout, messages: of a batch. shares: `reweighted_shares`, `even_shares` or `whole_shares`.
      reduce: static, `maximum` or `log_sum`. upward: static, the direction.
      dampen: scalar in [0, 1), how much of the old message stays; None for 0, without a look at how
        messages change. The bound holds for None and 0 only.
    """
    up, down, beliefs = messages
    share = shares.edges
    if share is None:
        share = _shares_of_edges(layout, shares.part, upward)
    real = layout.low < layout.nodes.shape[0]
    rows = (layout.low, layout.high, layout.pairs, up, down, share, real)
    none = jnp.zeros_like(beliefs[0, 0])
    (beliefs, lifted, change), (new,) = scan_first(
        _step(upward, reduce, dampen), (beliefs, none, none), rows, layout.count, reverse=not upward
    )
    left = shares.left_up if upward else shares.left_down
    bound = lifted + _own_terms(layout, left, beliefs, reduce)
    messages = Messages(new, down, beliefs) if upward else Messages(up, new, beliefs)
    return Swept(messages, bound, change)


def decided(layout: Layout, messages: Messages) -> Array:
    """[V, B] labels decided from the lowest node to the highest one, ties to the lowest label.

    A node sees the messages from above and the labels that the nodes below were given.
    """

    def body(scores: Array, row: tuple) -> tuple[Array, tuple]:
        low, high, table, up = row
        label = label_of(rows_at(scores, low))
        chosen = jnp.take_along_axis(table, label[None, None], axis=0)[0]
        seen = minus(rows_at(scores, high), up) + chosen
        return with_rows_at(scores, high, seen), ()

    rows = (layout.low, layout.high, layout.pairs, messages.up)
    scores, _ = scan_first(body, messages.beliefs, rows, layout.count)
    return first_argmax(scores, 1)


def edge_beliefs(layout: Layout, messages: Messages) -> Array:
    """[E, S, S, B] B_s - M_ts + B_t - M_st + pairs of every edge; -inf where forbidden."""
    V = layout.nodes.shape[0]

    def at_ends(index: Array) -> Array:
        index = jnp.minimum(index, V - 1)
        return jnp.take_along_axis(messages.beliefs, index[:, None], axis=0)

    first = minus(at_ends(layout.low), messages.down)
    second = minus(at_ends(layout.high), messages.up)
    return first[:, :, None] + second[:, None] + layout.pairs


class Met(NamedTuple):
    """The best labellings that sweeps of maxima met, [V, B], padding not marked.

    Fields:
      labels: [V, B]. value: [B] their F. bound: [B] at least max F. passes: [B].
    """

    labels: Array
    value: Array
    bound: Array
    passes: Array


class _Rest(NamedTuple):
    """Where sweeps of maxima stand."""

    messages: Messages
    best: Met
    done: Array
    turn: Array


def _better(best: Met, labels: Array, value: Array, bound: Array, open_: Array) -> Met:
    """The best of two, where the graph is still open; ties keep the labelling met first."""
    gains = open_ & ((value > best.value) | (best.passes < 0))
    return Met(
        jnp.where(gains[None], labels, best.labels),
        jnp.where(gains, value, best.value),
        jnp.where(open_, jnp.minimum(bound, best.bound), best.bound),
        best.passes,
    )


def _pass(layout: Layout, shares: Shares, tolerance: Array, state: _Rest) -> _Rest:
    """A sweep up and one down."""
    best, open_ = state.best, ~state.done
    up = sweep(layout, state.messages, shares, maximum, upward=True)
    down = sweep(layout, up.messages, shares, maximum, upward=False)
    labels = decided(layout, down.messages)
    bound = jnp.minimum(up.bound, down.bound)
    best = _better(best, labels, score(layout, labels), bound, open_)
    best = best._replace(passes=jnp.where(open_, state.turn + 1, best.passes))
    size = tolerance * jnp.maximum(1, jnp.abs(best.bound))
    closed = ~(best.bound - best.value > size)
    rest = ~(state.best.bound - best.bound > size)
    return _Rest(down.messages, best, state.done | closed | rest, state.turn + 1)


def swept_to_rest(layout: Layout, most: Array, tolerance: Array) -> tuple[Met, Messages]:
    """(what sweeps of maxima find of a batch, padding not marked; their last messages).

    Args:
      most: [B] passes. tolerance: [B].
    """
    V, _, B = layout.nodes.shape
    infinite = jnp.full(B, jnp.inf, layout.nodes.dtype)
    none = Met(jnp.zeros((V, B), jnp.int32), -infinite, infinite, jnp.full(B, -1, jnp.int32))
    shares = reweighted_shares(layout)

    def unfinished(state: _Rest) -> Array:
        return jnp.any(~state.done & (state.turn < most))

    def body(state: _Rest) -> _Rest:
        return _pass(layout, shares, tolerance, state)

    first = _Rest(no_messages(layout), none, most < 1, jnp.int32(0))
    last = jax.lax.while_loop(unfinished, body, first)
    best = last.best
    return best._replace(bound=jnp.maximum(best.bound, best.value)), last.messages
