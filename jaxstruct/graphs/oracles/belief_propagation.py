"""Loopy belief propagation, flooding and serial, for maxima and for sums.

    m_st(x_t) = reduce_{x_s} [ nodes[s, x_s] + sum_{u != t} m_us(x_s) + pairs(x_s, x_t) ],

each message normalised to a maximum of 0. Flooding sends all messages at once, serial ones go up
along the edges and down again (see `layout`). On forests both end exact; on graphs with cycles a
fixed point is a stationary point of the Bethe free energy, and there may be none.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.batch_last import of_one_example
from jaxstruct.core.checks import check_choice
from jaxstruct.core.finite import finite_or_zero
from jaxstruct.core.types import Array, PyTree
from jaxstruct.graphs.oracles.flooding import Schedule, flooding
from jaxstruct.graphs.oracles.layout import (
    Layout,
    arranged,
    batch_of,
    first_argmax,
    in_given_order,
    padded_labels,
    score,
    widened,
)
from jaxstruct.graphs.oracles.sweeps import (
    Messages,
    decided,
    degrees,
    edge_beliefs,
    log_sum,
    maximum,
    no_messages,
    sweep,
    whole_shares,
)
from jaxstruct.graphs.potentials import GraphPotentials, checked_potentials

PASSES = 200
TOLERANCE = 1e-5
SCHEDULES = ("flooding", "serial")


class Propagated(NamedTuple):
    """What belief propagation left of ONE graph.

    Fields:
      labels: [V] int32, PADDING beyond the last node; of sums the best label of each marginal, of
        maxima those decided node after node, so that ties fit together.
      value: scalar F(labels).
      nodes: [V, S] of sums the marginals b(y_v = s); of maxima the max-marginals, less their
        largest. 0 beyond the last node.
      pairs: [E, S, S] the same of the edges as they were given, 0 beyond the last edge.
      log_partition: scalar, of sums the Bethe approximation of log Z (minus the Bethe free energy);
        of maxima the value.
      converged: bool scalar, no message changed by more than the tolerance in the last pass.
      residual: scalar, the largest change of a message in the last pass.
      passes: int32 scalar.
    """

    labels: Array
    value: Array
    nodes: Array
    pairs: Array
    log_partition: Array
    converged: Array
    residual: Array
    passes: Array


class _State(NamedTuple):
    messages: PyTree
    residual: Array
    passes: Array
    turn: Array


def _serial(layout: Layout, reduce: Callable, dampen: Array) -> Schedule:
    shares = whole_shares(layout)

    def both(messages: Messages, going: Array) -> tuple[Messages, Array]:
        up = sweep(layout, messages, shares, reduce, upward=True, dampen=dampen)
        down = sweep(layout, up.messages, shares, reduce, upward=False, dampen=dampen)
        new = jax.tree.map(
            lambda fresh, old: jnp.where(going[None, None], fresh, old), down.messages, messages
        )
        return new, jnp.maximum(up.change, down.change)

    return Schedule(no_messages(layout), both, lambda messages: messages)


def _normalised(table: Array, axes: tuple[int, ...], summed: bool) -> Array:
    """Beliefs as probabilities, or less their maximum; all 0 or -inf where nothing is allowed."""
    less = table - finite_or_zero(jnp.max(table, axis=axes, keepdims=True))
    if not summed:
        return less
    weights = jnp.exp(less)
    total = jnp.sum(weights, axis=axes, keepdims=True)
    return weights / jnp.where(total > 0, total, 1)


def _information(p: Array, axes: tuple[int, ...]) -> Array:
    """sum p log p."""
    return jnp.sum(jnp.where(p > 0, p * jnp.log(jnp.where(p > 0, p, 1)), 0), axis=axes)


def _bethe(layout: Layout, nodes: Array, pairs: Array) -> Array:
    """[B] sum_e [<b_e, theta_e> + H(b_e)] + sum_v [<b_v, theta_v> + (1 - d_v) H(b_v)]."""
    up, down = degrees(layout)
    real, used = layout.real, layout.low < layout.nodes.shape[0]

    def mean(p: Array, table: Array, axes: tuple[int, ...]) -> Array:
        return jnp.sum(jnp.where(p > 0, p * jnp.where(p > 0, table, 0), 0), axis=axes)

    of_nodes = mean(nodes, layout.nodes, (1,)) - (1 - up - down) * _information(nodes, (1,))
    of_edges = mean(pairs, layout.pairs, (1, 2)) - _information(pairs, (1, 2))
    some = jnp.all(jnp.where(real, jnp.any(nodes > 0, axis=1), True), axis=0)
    total = jnp.sum(jnp.where(real, of_nodes, 0), axis=0)
    total = total + jnp.sum(jnp.where(used, of_edges, 0), axis=0)
    return jnp.where(some, total, -jnp.inf)


def _results(layout: Layout, state: _State, tolerance: Array, summed: bool) -> Propagated:
    messages = state.messages
    labels = first_argmax(messages.beliefs, 1) if summed else decided(layout, messages)
    value = score(layout, labels)
    nodes = _normalised(messages.beliefs, (1,), summed)
    pairs = _normalised(edge_beliefs(layout, messages), (1, 2), summed)
    total = _bethe(layout, nodes, pairs) if summed else value
    real, used = layout.real[:, None], (layout.low < layout.nodes.shape[0])[:, None, None]
    return Propagated(
        padded_labels(layout, labels),
        value,
        jnp.where(real, nodes, 0),
        in_given_order(layout, jnp.where(used, pairs, 0)),
        total,
        state.residual <= tolerance,
        state.residual,
        state.passes,
    )


def _kernel(
    schedule: str,
    summed: bool,
    potentials: GraphPotentials,
    passes: Array,
    tolerance: Array,
    dampen: Array,
) -> Propagated:
    batch = batch_of(potentials, passes, tolerance, dampen)
    narrow = arranged(potentials, batch)
    layout = widened(narrow, batch)
    B, dtype = layout.nodes.shape[2], layout.nodes.dtype
    most = jnp.broadcast_to(passes, (B,))
    tolerance = jnp.broadcast_to(tolerance, (B,)).astype(dtype)
    dampen = jnp.max(dampen).astype(dtype)
    if schedule == "flooding":
        plan = flooding(narrow, summed, dampen)
    else:
        plan = _serial(layout, log_sum if summed else maximum, dampen)

    def open_(state: _State) -> Array:
        return (state.residual > tolerance) & (state.turn < most)

    def body(state: _State) -> _State:
        going = open_(state)
        new, change = plan.turn(state.messages, going)
        return _State(
            new,
            jnp.where(going, change, state.residual),
            jnp.where(going, state.turn + 1, state.passes),
            state.turn + 1,
        )

    first = _State(
        plan.first,
        jnp.full(B, jnp.inf, dtype),
        jnp.zeros(B, jnp.int32),
        jnp.int32(0),
    )
    last = jax.lax.while_loop(lambda state: jnp.any(open_(state)), body, first)
    last = last._replace(messages=Messages(*plan.read(last.messages)))
    return _results(layout, last, tolerance, summed)


_PROGRAMS = {
    (schedule, summed): of_one_example(partial(_kernel, schedule, summed))
    for schedule in SCHEDULES
    for summed in (False, True)
}


def belief_propagation(
    potentials: GraphPotentials,
    *,
    kind: str = "sum",
    schedule: str = "flooding",
    passes: Array | int = PASSES,
    tolerance: Array | float = TOLERANCE,
    damping: Array | float = 0.0,
) -> Propagated:
    """Loopy belief propagation on one graph; see the module.

    Args:
      potentials: of one graph.
      kind: static, "sum" for marginals and the Bethe log Z, "max" for max-marginals.
      schedule: static, "flooding" or "serial".
      passes: at most so many, at least 1; may be traced.
      tolerance: a pass that changes no message by more ends it.
      damping: in [0, 1), how much of the old message stays; a batch shares the largest.

    Returns:
      `Propagated`. A graph without edges converges after one pass. Labels break ties to the lowest.
      It bounds nothing: the value is at most max F. Under `vmap`, nested or not, one batched
      program runs for all graphs, each of which stops by itself. There is no derivative in JAX.

    Raises:
      ValueError: as `graph_potentials`; kind or schedule is unknown; passes is below 1 or damping
        not in [0, 1).

    Source: J. Yedidia, W. Freeman and Y. Weiss, "Constructing free energy approximations and
    generalized belief propagation algorithms", IEEE Transactions on Information Theory 51, 2005.
    """
    check_choice("kind", kind, ("sum", "max"))
    check_choice("schedule", schedule, SCHEDULES)
    if isinstance(passes, int) and passes < 1:
        raise ValueError(f"passes must be at least 1, got {passes}")
    if isinstance(damping, (int, float)) and not 0 <= damping < 1:
        raise ValueError(f"damping must be in [0, 1), got {damping}")
    return _PROGRAMS[schedule, kind == "sum"](
        checked_potentials(potentials),
        jnp.asarray(passes, jnp.int32),
        jnp.asarray(tolerance),
        jnp.asarray(damping),
    )
