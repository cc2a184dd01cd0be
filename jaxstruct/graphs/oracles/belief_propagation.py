"""Loopy belief propagation, flooding and serial, for maxima and for sums.

    m_st(x_t) = reduce_{x_s} [ nodes[s, x_s] + sum_{u != t} m_us(x_s) + pairs(x_s, x_t) ],

each message normalised to a maximum of 0. Flooding sends all messages at once, serial ones go up
along the edges and down again (see `layout`). On forests both end exact; on graphs with cycles a
fixed point is a stationary point of the Bethe free energy, and there may be none.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax.numpy as jnp

from jaxstruct.core.batch_last import of_one_example
from jaxstruct.core.checks import check_choice
from jaxstruct.core.scores import finite_or_zero
from jaxstruct.core.semiring import Best, Sums
from jaxstruct.core.types import Array
from jaxstruct.graphs.oracles.flooding import Schedule, flooding
from jaxstruct.graphs.oracles.layout import (
    Layout,
    first_argmax,
    in_given_order,
    mean_of,
    padded_labels,
    score,
    shares_of,
)
from jaxstruct.graphs.oracles.sweeps import (
    Messages,
    Rest,
    begun,
    both_ways,
    checked_call,
    decided,
    degrees,
    edge_beliefs,
    no_messages,
    to_rest,
    whole_shares,
)
from jaxstruct.graphs.potentials import GraphPotentials

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


def _less_maximum(table: Array, axes: tuple[int, ...]) -> Array:
    return table - finite_or_zero(jnp.max(table, axis=axes, keepdims=True))


def _bethe(layout: Layout, nodes: Array, pairs: Array) -> Array:
    """[B] sum_e [<b_e, theta_e> + H(b_e)] + sum_v [<b_v, theta_v> + (1 - d_v) H(b_v)]."""
    up, down = degrees(layout)
    real, used = layout.real, layout.low < layout.nodes.shape[0]

    def information(p: Array, axes: tuple[int, ...]) -> Array:
        return mean_of(p, jnp.log(p), axes)

    of_nodes = mean_of(nodes, layout.nodes, (1,)) - (1 - up - down) * information(nodes, (1,))
    of_edges = mean_of(pairs, layout.pairs, (1, 2)) - information(pairs, (1, 2))
    some = jnp.all(jnp.where(real, jnp.any(nodes > 0, axis=1), True), axis=0)
    total = jnp.sum(jnp.where(real, of_nodes, 0), axis=0)
    total = total + jnp.sum(jnp.where(used, of_edges, 0), axis=0)
    return jnp.where(some, total, -jnp.inf)


def _results(layout: Layout, state: Rest, tolerance: Array, summed: bool) -> Propagated:
    messages = state.messages
    labels = first_argmax(messages.beliefs, 1) if summed else decided(layout, messages)
    value = score(layout, labels)
    normal = shares_of if summed else _less_maximum
    nodes = normal(messages.beliefs, (1,))
    pairs = normal(edge_beliefs(layout, messages), (1, 2))
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
    narrow, layout, most, tolerance = begun(potentials, passes, tolerance, dampen)
    dampen = jnp.max(dampen).astype(layout.nodes.dtype)
    rule = Sums() if summed else Best()
    if schedule == "flooding":
        plan = flooding(narrow, rule, dampen)
    else:
        turn = both_ways(layout, whole_shares(layout), rule, dampen)
        plan = Schedule(no_messages(layout), turn, lambda messages: messages)
    last = to_rest(plan.first, plan.turn, most, tolerance)
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
    if isinstance(damping, (int, float)) and not 0 <= damping < 1:
        raise ValueError(f"damping must be in [0, 1), got {damping}")
    arguments = checked_call(potentials, passes, tolerance, damping)
    return _PROGRAMS[schedule, kind == "sum"](*arguments)
