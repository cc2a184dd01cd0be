"""One sweep of messages along the edges of a graph, up or down: all message passing is made of it.

B_v(x) = nodes[v, x] + sum of the messages into v. A sweep upward walks the edges (s, t), s < t, in
the order of `layout`, a sweep downward walks back. At an edge from s to t it sets

    M_st(x_t) = reduce_{x_s} [ g_s B_s(x_s) - M_ts(x_s) + pairs(x_s, x_t) ],

g_s a share of each node: 1 is belief propagation, 1 / max(edges of s upward, downward) is the
sequential tree-reweighted update. reduce is that of a semiring of `core`: the maximum of `Best`, or
of `Sums` t log sum exp(. / t) with t = g_s.

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
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.batch_last import batch_size
from jaxstruct.core.loops import scan_first
from jaxstruct.core.scores import finite_or_zero, positive_or_one
from jaxstruct.core.semiring import Best, Sums, argmax_first
from jaxstruct.core.types import Array, PyTree
from jaxstruct.graphs.oracles.layout import (
    Layout,
    arranged,
    at_ends,
    first_argmax,
    minus,
    rows_at,
    score,
    summed_at,
    times,
    widened,
    with_rows_at,
)
from jaxstruct.graphs.potentials import GraphPotentials, checked_potentials

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
      up, down: [E, B] the part that an edge takes of its source, by the direction.
      left_up, left_down: [V, B] what the edges of the direction do not take.
    """

    up: Array
    down: Array
    left_up: Array
    left_down: Array


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


def checked_call(potentials: GraphPotentials, passes: Array | int, *rest: Array | float) -> tuple:
    """Arguments of message passing as arrays.

    Raises:
      ValueError: as `checked_potentials`; passes is below 1.
    """
    potentials = checked_potentials(potentials)
    if isinstance(passes, int) and passes < 1:
        raise ValueError(f"passes must be at least 1, got {passes}")
    return potentials, jnp.asarray(passes, jnp.int32), *map(jnp.asarray, rest)


def begun(
    potentials: GraphPotentials, passes: Array, tolerance: Array, *rest: Array
) -> tuple[Layout, Layout, Array, Array]:
    """(arranged layout, the same widened, [B] passes, [B] tolerance) of a batch."""
    batch = batch_size(potentials, passes, tolerance, rest)
    narrow = arranged(potentials, batch)
    tolerance = jnp.broadcast_to(tolerance, (batch,)).astype(narrow.nodes.dtype)
    return narrow, widened(narrow, batch), jnp.broadcast_to(passes, (batch,)), tolerance


def no_messages(layout: Layout) -> Messages:
    """All messages 0."""
    zeros = jnp.zeros_like(layout.pairs[:, :, 0])
    return Messages(zeros, zeros, layout.nodes)


def degrees(layout: Layout) -> tuple[Array, Array]:
    """([V, B], [V, B]) edges of each node upward and downward."""
    V, _, B = layout.nodes.shape
    ones = jnp.ones((layout.low.shape[0], B), layout.nodes.dtype)
    return summed_at(V, layout.low, ones), summed_at(V, layout.high, ones)


def _shares(layout: Layout, up: Array, down: Array) -> Shares:
    V = layout.nodes.shape[0]
    taken_up, taken_down = summed_at(V, layout.low, up), summed_at(V, layout.high, down)
    return Shares(up, down, 1 - taken_up, 1 - taken_down)


def reweighted_parts(layout: Layout) -> Array:
    """[V, B] what each edge of a node takes of it in the sequential tree-reweighted update."""
    return 1 / positive_or_one(jnp.maximum(*degrees(layout)))


def reweighted_shares(layout: Layout) -> Shares:
    """Of the sequential tree-reweighted update: monotone chains of edges."""
    parts = reweighted_parts(layout)
    return _shares(layout, at_ends(parts, layout.low), at_ends(parts, layout.high))


def even_shares(layout: Layout) -> Shares:
    """Of tree-reweighted sums: the smaller share of both ends, so that both sweeps see one entropy.

    Upward as downward, the bound's dual is then <mu, theta> + sum_v H(mu_v) - sum_e g_e I(mu_e).
    """
    least = jnp.minimum(*reweighted_shares(layout)[:2])
    return _shares(layout, least, least)


def whole_shares(layout: Layout) -> Shares:
    """Of belief propagation: every edge sees all of a node. There is no bound."""
    ones = jnp.ones(layout.low.shape, layout.nodes.dtype)
    return _shares(layout, ones, ones)


def reduced(rule: Best, own: Array, table: Array, temperature: Array) -> Array:
    """[T, B] the reduction over x of own [S, B] + table [S, T, B], of `Sums` at t [B] > 0."""
    if not isinstance(rule, Sums):
        return rule.contract(own, table)
    t = temperature[None]
    return t * rule.contract(own / t, table / t[None])


def _own_terms(layout: Layout, left: Array, beliefs: Array, rule: Best) -> Array:
    """[B] sum_s left_s reduce B_s over the nodes of which something is left."""
    each = rule.reduce(jnp.moveaxis(beliefs, 1, 0))
    kept = layout.real & (left > LITTLE)
    return jnp.sum(jnp.where(kept, times(left, each), 0), axis=0)


def _step(upward: bool, rule: Best, dampen: Array | None, heat: Array | None) -> Callable:
    """The step at one edge; see the module."""

    def body(carry: tuple, row: tuple) -> tuple[tuple, tuple]:
        beliefs, bound, change = carry
        low, high, table, up, down, share, real = row
        source, target = (low, high) if upward else (high, low)
        table = table if upward else jnp.swapaxes(table, 0, 1)
        old, against = (up, down) if upward else (down, up)
        rest = minus(times(share[None], rows_at(beliefs, source)), against)
        new = reduced(rule, rest, table, share if heat is None else heat)
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


def sweep(
    layout: Layout,
    messages: Messages,
    shares: Shares,
    rule: Best,
    *,
    upward: bool,
    dampen: Array | None = None,
    heat: Array | None = None,
) -> Swept:
    """One sweep; see the module.

    Args:
      layout, messages: of a batch. shares: `reweighted_shares`, `even_shares` or `whole_shares`.
      rule: static, `Best` or `Sums`. upward: static, the direction.
      dampen: scalar in [0, 1), how much of the old message stays; None for 0, without a look at how
        messages change. The bound holds for None and 0 only.
      heat: [B] the temperature of sums; None for the shares, with which alone the bound holds.
    """
    up, down, beliefs = messages
    share = shares.up if upward else shares.down
    real = layout.low < layout.nodes.shape[0]
    rows = (layout.low, layout.high, layout.pairs, up, down, share, real)
    none = jnp.zeros_like(beliefs[0, 0])
    (beliefs, lifted, change), (new,) = scan_first(
        _step(upward, rule, dampen, heat),
        (beliefs, none, none),
        rows,
        layout.count,
        reverse=not upward,
    )
    left = shares.left_up if upward else shares.left_down
    bound = lifted + _own_terms(layout, left, beliefs, rule)
    messages = Messages(new, down, beliefs) if upward else Messages(up, new, beliefs)
    return Swept(messages, bound, change)


def decided(layout: Layout, messages: Messages) -> Array:
    """[V, B] labels decided from the lowest node to the highest one, ties to the lowest label.

    A node sees the messages from above and the labels that the nodes below were given.
    """

    def body(scores: Array, row: tuple) -> tuple[Array, tuple]:
        low, high, table, up = row
        own = rows_at(scores, low)
        label = argmax_first(len(own), lambda x: own[x])[1]
        chosen = jnp.take_along_axis(table, label[None, None], axis=0)[0]
        seen = minus(rows_at(scores, high), up) + chosen
        return with_rows_at(scores, high, seen), ()

    rows = (layout.low, layout.high, layout.pairs, messages.up)
    scores, _ = scan_first(body, messages.beliefs, rows, layout.count)
    return first_argmax(scores, 1)


def edge_beliefs(layout: Layout, messages: Messages) -> Array:
    """[E, S, S, B] B_s - M_ts + B_t - M_st + pairs of every edge; -inf where forbidden."""
    first = minus(at_ends(messages.beliefs, layout.low), messages.down)
    second = minus(at_ends(messages.beliefs, layout.high), messages.up)
    return first[:, :, None] + second[:, None] + layout.pairs


class Rest(NamedTuple):
    """Where passes until messages rest have come.

    Fields:
      messages: the last ones of each graph. residual: [B] the largest change in its last pass.
      passes: [B]. turn: int32 scalar.
    """

    messages: PyTree
    residual: Array
    passes: Array
    turn: Array


def to_rest(first: PyTree, turn: Callable, most: Array, tolerance: Array) -> Rest:
    """Passes until no message of a graph changes by more than the tolerance.

    Args:
      first: messages. most: [B] passes. tolerance: [B].
      turn: (messages, [B] which graphs go on) -> (messages, [B] the largest change); graphs that
        have stopped keep theirs.
    """

    def open_(state: Rest) -> Array:
        return (state.residual > tolerance) & (state.turn < most)

    def body(state: Rest) -> Rest:
        going = open_(state)
        new, change = turn(state.messages, going)
        residual = jnp.where(going, change, state.residual)
        return Rest(new, residual, jnp.where(going, state.turn + 1, state.passes), state.turn + 1)

    start = Rest(first, jnp.full_like(tolerance, jnp.inf), jnp.zeros_like(most), jnp.int32(0))
    return jax.lax.while_loop(lambda state: jnp.any(open_(state)), body, start)


def both_ways(layout: Layout, shares: Shares, rule: Best, dampen: Array) -> Callable:
    """The turn of `to_rest` that is a sweep up and one down."""

    def turn(messages: Messages, going: Array) -> tuple[Messages, Array]:
        up = sweep(layout, messages, shares, rule, upward=True, dampen=dampen)
        down = sweep(layout, up.messages, shares, rule, upward=False, dampen=dampen)
        new = jax.tree.map(partial(jnp.where, going[None, None]), down.messages, messages)
        return new, jnp.maximum(up.change, down.change)

    return turn


class Met(NamedTuple):
    """The best labellings that sweeps met, [V, B], padding not marked.

    Fields:
      labels: [V, B]. value: [B] their F. bound: [B] at least max F, or log Z. passes: [B].
    """

    labels: Array
    value: Array
    bound: Array
    passes: Array


class _State(NamedTuple):
    """Where sweeps until the bound rests have come."""

    messages: Messages
    best: Met
    done: Array
    turn: Array


def _pass(layout: Layout, shares: Shares, rule: Best, tolerance: Array, state: _State) -> _State:
    """A sweep up and one down; ties keep the labelling met first."""
    best, open_ = state.best, ~state.done
    up = sweep(layout, state.messages, shares, rule, upward=True)
    down = sweep(layout, up.messages, shares, rule, upward=False)
    labels, value = best.labels, best.value
    if not isinstance(rule, Sums):
        labels = decided(layout, down.messages)
        value = score(layout, labels)
    gains = open_ & ((value > best.value) | (best.passes < 0))
    lowest = jnp.minimum(best.bound, jnp.minimum(up.bound, down.bound))
    new = Met(
        jnp.where(gains[None], labels, best.labels),
        jnp.where(gains, value, best.value),
        jnp.where(open_, lowest, best.bound),
        jnp.where(open_, state.turn + 1, best.passes),
    )
    size = tolerance * jnp.maximum(1, jnp.abs(new.bound))
    closed = ~(new.bound - new.value > size)
    rest = ~(best.bound - new.bound > size)
    return _State(down.messages, new, state.done | closed | rest, state.turn + 1)


def swept_to_rest(
    layout: Layout, rule: Best, most: Array, tolerance: Array
) -> tuple[Met, Messages]:
    """(what sweeps find of a batch, padding not marked; their last messages).

    Args:
      rule: static, `Best`, or `Sums` for a bound of log Z without labels.
      most: [B] passes. tolerance: [B].
    """
    V, _, B = layout.nodes.shape
    infinite = jnp.full(B, jnp.inf, layout.nodes.dtype)
    none = Met(jnp.zeros((V, B), jnp.int32), -infinite, infinite, jnp.full(B, -1, jnp.int32))
    body = partial(_pass, layout, reweighted_shares(layout), rule, tolerance)
    first = _State(no_messages(layout), none, most < 1, jnp.int32(0))
    last = jax.lax.while_loop(lambda state: jnp.any(~state.done & (state.turn < most)), body, first)
    best = last.best
    return best._replace(bound=jnp.maximum(best.bound, best.value)), last.messages
