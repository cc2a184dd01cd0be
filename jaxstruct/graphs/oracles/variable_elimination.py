"""Exact inference by variable elimination: the best labelling, log Z and marginals.

A plan (`graphs.elimination`) says which node goes when. Step k holds one table T_k over its node
and at most w neighbours, in one flat axis of S^(w + 1) entries; it sends

    m_k(neighbours) = reduce_{its node} T_k

to the step that takes it, which adds it to its own table. On forests w = 1 and this is the dynamic
program from the leaves to the roots.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.batch_last import of_one_example
from jaxstruct.core.finite import finite_or_zero
from jaxstruct.core.loops import scan_first
from jaxstruct.core.types import Array, PyTree
from jaxstruct.graphs.elimination import MOST_ENTRIES, Elimination
from jaxstruct.graphs.oracles.layout import batch_of, first_argmax, minus
from jaxstruct.graphs.potentials import (
    PADDING,
    GraphPotentials,
    Labelled,
    checked_potentials,
    score_labels,
)


class GraphMarginals(NamedTuple):
    """Probabilities of labels and of pairs of joined labels of ONE graph.

    Fields:
      nodes: [V, S] p(y_v = s), 0 beyond the last node.
      pairs: [E, S, S] p(y_a = s, y_b = s') of edge (a, b), 0 beyond the last edge.
      log_partition: scalar log Z, of whatever kind the oracle computes.
    """

    nodes: Array
    pairs: Array
    log_partition: Array


class _Steps(NamedTuple):
    """The rows of a plan, batch last.

    Fields:
      node, parent: [V, B]. around: [V, w, B]. strides: [V, w + 1, B] of messages, in entries.
      digits: [C, w + 1] the label along each axis of each of the C entries of a table.
      tables: [V, C, B] before any message. count: int32 scalar.
    """

    node: Array
    parent: Array
    around: Array
    strides: Array
    digits: Array
    tables: Array
    count: Array


def _powers(exponents: Array, S: int) -> Array:
    """S^(e - 1) of exponents e >= 1, 0 for 0."""
    return jnp.where(exponents > 0, S ** jnp.maximum(exponents - 1, 0), 0).astype(jnp.int32)


def _entries(digits: Array, strides: Array) -> Array:
    """[C, B] entries of another table that the entries of one stand for; strides [w + 1, B]."""
    return jnp.sum(digits[:, :, None] * strides[None], axis=1)


def _tables(potentials: GraphPotentials, plan: Elimination, digits: Array) -> Array:
    """[V, C, B] node and edge potentials at their steps; -inf where an axis of no node is not 0."""
    nodes, edges, pairs, number_of_nodes, number_of_edges, _ = potentials
    V, S, B = nodes.shape
    E, w = edges.shape[0], digits.shape[1] - 1
    node, around = plan.steps[:, 0], plan.steps[:, 2 : 2 + w]
    own = jnp.take_along_axis(nodes, node[:, None], axis=0)
    tables = own[:, digits[:, 0]]
    unused = (around < 0)[:, None] & (digits[None, :, 1:, None] > 0)
    tables = jnp.where(jnp.any(unused, axis=2), -jnp.inf, tables)
    if E:
        used = jnp.arange(E)[:, None] < number_of_edges[None]
        strides = _powers(plan.edges[:, 1:], S)
        entries = jnp.sum(digits[None, :, :, None] * strides[:, None], axis=2)  # [E, C, B]
        rows = jnp.take_along_axis(pairs.reshape(E, S * S, B), entries, axis=1)
        step = jnp.where(used, plan.edges[:, 0], V)
        columns = jnp.arange(B)[None]
        moved = jnp.moveaxis(tables, 2, 1).at[step, columns]
        tables = jnp.moveaxis(moved.add(jnp.moveaxis(rows, 2, 1), mode="drop"), 1, 2)
    real = jnp.arange(V)[:, None, None] < number_of_nodes[None, None]
    return jnp.where(real, tables, 0)


def prepared_steps(
    potentials: GraphPotentials, plan: Elimination, batch: int | None = None
) -> tuple[GraphPotentials, _Steps]:
    """(potentials, steps of their plan) with a batch axis throughout."""
    batch = batch_of(potentials, plan) if batch is None else batch
    potentials, plan = jax.tree.map(
        lambda leaf: jnp.broadcast_to(leaf, (*leaf.shape[:-1], batch)), (potentials, plan)
    )
    V, S, _ = potentials.nodes.shape
    w = plan.edges.shape[1] - 2
    C = S ** (w + 1)
    digits = jnp.arange(C)[:, None] // S ** jnp.arange(w, -1, -1)[None] % S
    real = jnp.arange(V)[:, None] < potentials.number_of_nodes[None]
    steps = _Steps(
        jnp.where(real, plan.steps[:, 0], V),
        jnp.where(
            real & (plan.steps[:, 1] < potentials.number_of_nodes[None]), plan.steps[:, 1], V
        ),
        plan.steps[:, 2 : 2 + w],
        _powers(plan.steps[:, 2 + w :], S),
        digits.astype(jnp.int32),
        _tables(potentials, plan, digits),
        jnp.max(potentials.number_of_nodes),
    )
    return potentials, steps


def _log_sum(table: Array) -> Array:
    top = finite_or_zero(jnp.max(table, axis=0))
    return top + jnp.log(jnp.sum(jnp.exp(table - top[None]), axis=0))


def eliminated(steps: _Steps, S: int, summed: bool) -> tuple[Array, Array, Array]:
    """([V, C, B] full tables, [V, C / S, B] messages, [B] the reduction over all nodes)."""
    V, C, B = steps.tables.shape
    columns = jnp.arange(B)[None]

    def body(carry: tuple, row: tuple) -> tuple[tuple, tuple]:
        tables, total = carry
        k, node, parent, strides = row
        table = tables[k].reshape(S, C // S, B)
        message = _log_sum(table) if summed else jnp.max(table, axis=0)
        given = jnp.take_along_axis(message, _entries(steps.digits, strides), axis=0)
        tables = tables.at[parent[None], jnp.arange(C)[:, None], columns].add(given, mode="drop")
        root = (parent == V) & (node < V)  # its message goes nowhere: the value of its part
        return (tables, total + jnp.where(root, message[0], 0)), (message,)

    rows = (jnp.arange(V), steps.node, steps.parent, steps.strides)
    start = (steps.tables, jnp.zeros(B, steps.tables.dtype))
    (tables, total), (messages,) = scan_first(body, start, rows, steps.count)
    return tables, messages, total


def _best_kernel(potentials: GraphPotentials, plan: Elimination) -> Labelled:
    potentials, steps = prepared_steps(potentials, plan)
    V, S, B = potentials.nodes.shape
    tables, _, total = eliminated(steps, S, summed=False)
    C = tables.shape[1]
    columns = jnp.arange(B)

    def body(labels: Array, row: tuple) -> tuple[Array, tuple]:
        table, node, around = row
        known = jnp.take_along_axis(labels, jnp.clip(around, 0, V - 1), axis=0)
        w = around.shape[0]
        powers = S ** jnp.arange(w - 1, -1, -1)
        entry = jnp.sum(jnp.where(around >= 0, known, 0) * powers[:, None], axis=0)
        column = jnp.take_along_axis(table.reshape(S, C // S, B), entry[None, None], axis=1)
        label = first_argmax(column[:, 0], 0)
        return labels.at[node, columns].set(label, mode="drop"), ()

    rows = (tables, steps.node, steps.around)
    empty = jnp.zeros((V, B), jnp.int32)
    labels, _ = scan_first(body, empty, rows, steps.count, reverse=True)
    real = jnp.arange(V)[:, None] < potentials.number_of_nodes[None]
    return Labelled(jnp.where(real, labels, PADDING), total)


def _score(found: Labelled, potentials: GraphPotentials, plan: Elimination) -> Array:
    del plan
    return score_labels(potentials, found.labels)


_best_of_one = of_one_example(_best_kernel, _score)


def checked_plan(potentials: GraphPotentials, plan: Elimination) -> tuple:
    """(potentials, plan) of one graph as arrays.

    Raises:
      ValueError: as `best_labelling`.
    """
    potentials = checked_potentials(potentials)
    if not isinstance(plan, Elimination):
        raise ValueError(
            f"plan must be an Elimination (see elimination), got {type(plan).__name__}"
        )
    plan = jax.tree.map(jnp.asarray, plan)
    (V, S), E, w = potentials.nodes.shape, potentials.edges.shape[0], plan.width
    wanted = ((V, 2 * w + 3), (E, w + 2))
    if (plan.steps.shape, plan.edges.shape) != wanted:
        raise ValueError(
            f"plan must be of this graph, of shapes {wanted} for width {w}, got "
            f"{(plan.steps.shape, plan.edges.shape)}"
        )
    if S ** (w + 1) > MOST_ENTRIES:
        raise ValueError(
            f"a plan of width {w} over {S} labels has tables of {S ** (w + 1)} entries, at most "
            f"{MOST_ENTRIES} fit: take an oracle that needs no plan (reweighted)"
        )
    return potentials, plan


def best_labelling(potentials: GraphPotentials, plan: Elimination) -> Labelled:
    """argmax_y F(y) of one graph, exact; see the module.

    Args:
      potentials: of one graph. plan: of the same edges in the same order.

    Returns:
      `Labelled`. Ties go to the lowest label of the node eliminated last, then, going backward, to
      the lowest label of each node given those. If every labelling is forbidden the score is -inf
      and the labels are some labels. Under `vmap`, nested or not, one batched program runs for all
      graphs. The derivative of the score counts what the labels use; labels have none.

    Raises:
      ValueError: as `graph_potentials`; the plan is of other shapes, or its tables are too large.
    """
    return _best_of_one(*checked_plan(potentials, plan))


def _max_beliefs(steps: _Steps, tables: Array, messages: Array, S: int) -> Array:
    """[V, C, B] the best score, of its part of the graph, for every entry of a step's table."""
    V, C, B = tables.shape
    columns = jnp.arange(B)[None]

    def body(beliefs: Array, row: tuple) -> tuple[Array, tuple]:
        k, table, message, parent, strides = row
        above = jnp.take_along_axis(beliefs, jnp.minimum(parent, V - 1)[None, None], axis=0)[0]
        around = jnp.full((C // S, B), -jnp.inf, tables.dtype)
        around = around.at[_entries(steps.digits, strides), columns].max(above)
        rest = jnp.where(parent[None] < V, minus(around, message), 0)
        own = table.reshape(S, C // S, B) + rest[None]
        return beliefs.at[k].set(own.reshape(C, B)), ()

    rows = (jnp.arange(V), tables, messages, steps.parent, steps.strides)
    return scan_first(body, jnp.zeros_like(tables), rows, steps.count, reverse=True)[0]


def _other_kernel(potentials: GraphPotentials, plan: Elimination, labels: Array) -> Labelled:
    """Some node must have another label: the one where that costs least, then the best of these."""
    batch = batch_of(potentials, plan, labels)
    labels = jnp.broadcast_to(labels, (labels.shape[0], batch))
    potentials, steps = prepared_steps(potentials, plan, batch)
    V, S, B = potentials.nodes.shape
    tables, messages, _ = eliminated(steps, S, summed=False)
    beliefs = _max_beliefs(steps, tables, messages, S)
    each = jnp.max(beliefs.reshape(V, S, -1, B), axis=2)
    places = jnp.zeros((V, B), jnp.int32).at[steps.node, jnp.arange(B)[None]]
    # Tables are by step; costs are compared by node, so that ties go to the lowest one.
    step_of = places.set(jnp.arange(V, dtype=jnp.int32)[:, None], mode="drop")
    each = jnp.take_along_axis(each, step_of[:, None], axis=0)
    own = jnp.arange(S)[None, :, None] == labels[:, None]
    other = jnp.max(jnp.where(own, -jnp.inf, each), axis=1)
    real = jnp.arange(V)[:, None] < potentials.number_of_nodes[None]
    cost = jnp.where(real & (other > -jnp.inf), jnp.max(each, axis=1) - other, jnp.inf)
    node = jnp.argmin(cost, axis=0)
    # The cheapest node gives way; given that, the best labelling is one more elimination.
    barred = own & (jnp.arange(V)[:, None] == node[None])[:, None]
    nodes = jnp.where(barred, -jnp.inf, potentials.nodes)
    best = _best_kernel(potentials._replace(nodes=nodes), plan)
    found = jnp.min(cost, axis=0) < jnp.inf
    labels = jnp.where(real, labels, PADDING)
    return Labelled(
        jnp.where(found[None], best.labels, labels), jnp.where(found, best.score, -jnp.inf)
    )


def _other_score(
    found: Labelled, potentials: GraphPotentials, plan: Elimination, labels: Array
) -> Array:
    del plan, labels
    return score_labels(potentials, found.labels)


_other_of_one = of_one_example(_other_kernel, _other_score)


def best_other(potentials: GraphPotentials, plan: Elimination, labels: Array) -> Labelled:
    """argmax_y F(y) over y != labels, exact: with `best_labelling` before it the two best.

    Max-marginals of all nodes say which of them takes another label at the least cost; a labelling
    under that condition follows. Three sweeps in all, whatever the number of nodes.

    Args:
      potentials: of one graph. plan: of the same edges in the same order.
      labels: [V] int32; what stands beyond the last node does not count.

    Returns:
      `Labelled`. Ties between nodes go to the lowest one, then as in `best_labelling`. Where no
      other labelling is allowed it is `labels`, with a score of -inf. `vmap` and derivatives as
      there.

    Raises:
      ValueError: as `best_labelling`; labels are no integers [V].
    """
    potentials, plan = checked_plan(potentials, plan)
    labels = jnp.asarray(labels)
    if labels.shape != potentials.nodes.shape[:1] or not jnp.issubdtype(labels.dtype, jnp.integer):
        raise ValueError(
            f"labels must be integers [V] = [{potentials.nodes.shape[0]}], got {labels.dtype} of "
            f"{labels.shape}"
        )
    return _other_of_one(potentials, plan, labels.astype(jnp.int32))


def _value_kernel(potentials: GraphPotentials, plan: Elimination) -> Array:
    potentials, steps = prepared_steps(potentials, plan)
    return eliminated(steps, potentials.nodes.shape[1], summed=True)[2]


def _beliefs(steps: _Steps, tables: Array, messages: Array, S: int) -> Array:
    """[V, C, B] p(the labels of a step's axes): of the step that took its message, cut down."""
    V, C, B = tables.shape
    columns = jnp.arange(B)[None]

    def body(beliefs: Array, row: tuple) -> tuple[Array, tuple]:
        k, table, message, parent, strides = row
        above = jnp.take_along_axis(beliefs, jnp.minimum(parent, V - 1)[None, None], axis=0)[0]
        entries = _entries(steps.digits, strides)
        around = jnp.zeros((C // S, B), tables.dtype).at[entries, columns].add(above)
        first = jnp.arange(C // S)[:, None] == 0
        around = jnp.where(parent[None] < V, around, first.astype(tables.dtype))
        given = jnp.exp(table.reshape(S, C // S, B) - finite_or_zero(message)[None])
        own = (given * around[None]).reshape(C, B)
        return beliefs.at[k].set(own), ()

    rows = (jnp.arange(V), tables, messages, steps.parent, steps.strides)
    return scan_first(body, jnp.zeros_like(tables), rows, steps.count, reverse=True)[0]


def _marginals_kernel(potentials: GraphPotentials, plan: Elimination) -> GraphMarginals:
    potentials, steps = prepared_steps(potentials, plan)
    nodes, edges, _, _, number_of_edges, _ = potentials
    (V, S, B), E = nodes.shape, edges.shape[0]
    tables, messages, total = eliminated(steps, S, summed=True)
    beliefs = _beliefs(steps, tables, messages, S)
    beliefs = jnp.where((steps.node < V)[:, None], beliefs, 0)
    of_steps = jnp.sum(beliefs.reshape(V, S, -1, B), axis=2)
    columns = jnp.arange(B)[None]
    rows = jnp.zeros((V, B, S), nodes.dtype).at[steps.node, columns]
    of_nodes = jnp.moveaxis(rows.set(jnp.moveaxis(of_steps, 2, 1), mode="drop"), 1, 2)
    of_pairs = jnp.zeros((E, S, S, B), nodes.dtype)
    if E:
        plan = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (*leaf.shape[:-1], B)), plan)
        strides = _powers(plan.edges[:, 1:], S)
        entries = jnp.sum(steps.digits[None, :, :, None] * strides[:, None], axis=2)
        step = jnp.clip(plan.edges[:, :1], 0, V - 1)
        held = jnp.take_along_axis(beliefs, step, axis=0)
        flat = jnp.zeros((E, S * S, B), nodes.dtype)
        flat = flat.at[jnp.arange(E)[:, None, None], entries, columns[None]].add(held)
        used = jnp.arange(E)[:, None, None] < number_of_edges[None, None]
        of_pairs = jnp.where(used, flat, 0).reshape(E, S, S, B)
    allowed = total > -jnp.inf
    return GraphMarginals(jnp.where(allowed, of_nodes, 0), jnp.where(allowed, of_pairs, 0), total)


_value_of_one = of_one_example(_value_kernel)
_marginals_of_one = of_one_example(_marginals_kernel)


@jax.custom_vjp
def _log_partition(potentials: GraphPotentials, plan: Elimination) -> Array:
    return _value_of_one(potentials, plan)


def _forward(potentials: GraphPotentials, plan: Elimination) -> tuple[Array, PyTree]:
    found = _marginals_of_one(potentials, plan)
    return found.log_partition, (found.nodes, found.pairs)


def _backward(counts: PyTree, cotangent: Array) -> tuple[GraphPotentials, None]:
    nodes, pairs = (cotangent * count for count in counts)
    return GraphPotentials(nodes, None, pairs, None, None), None


_log_partition.defvjp(_forward, _backward)


def log_partition(potentials: GraphPotentials, plan: Elimination) -> Array:
    """log Z = log sum_y exp F(y) of one graph, exact.

    Its gradient in a potential is the probability of its labels; first derivatives in reverse mode.

    Args:
      potentials: of one graph. plan: of the same edges in the same order.

    Returns:
      A scalar; -inf, with a gradient of 0, where every labelling is forbidden.

    Raises:
      ValueError: as `best_labelling`.
    """
    return _log_partition(*checked_plan(potentials, plan))


def marginals(potentials: GraphPotentials, plan: Elimination) -> GraphMarginals:
    """Probabilities of labels and of pairs of joined labels under p(y) = exp(F(y) - log Z), exact.

    Args:
      potentials: of one graph. plan: of the same edges in the same order.

    Returns:
      `GraphMarginals`; all 0 where every labelling is forbidden. They have no derivative in JAX.

    Raises:
      ValueError: as `best_labelling`.
    """
    return _marginals_of_one(*checked_plan(potentials, plan))
