"""Exact inference by variable elimination: one recursion over the semirings of `core`.

A plan (`graphs.elimination`) says which node goes when. Step k holds one table T_k over its node
and at most w neighbours, in one flat axis of S^(w + 1) entries; it sends

    m_k(neighbours) = plus_{its node} T_k

to the step that takes it, which adds it to its own table: plus is the maximum of `Best`, log sum
exp of `Sums`. Going back, the labels of the neighbours are known at each step, and the semiring
chooses that of its node: the best labelling, or a sample. On forests w = 1 and this is the dynamic
program from the leaves to the roots.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.batch_last import batch_size, of_one_example
from jaxstruct.core.loops import scan_first
from jaxstruct.core.scores import finite_or_zero
from jaxstruct.core.semiring import Best, Sums
from jaxstruct.core.types import Array, PyTree
from jaxstruct.graphs.elimination import MOST_ENTRIES, Elimination
from jaxstruct.graphs.oracles.layout import minus
from jaxstruct.graphs.potentials import (
    PADDING,
    GraphMarginals,
    GraphPotentials,
    Labelled,
    checked_potentials,
    log_partition_of,
    score_labels,
)


class _Steps(NamedTuple):
    """The rows of a plan, batch last.

    Fields:
      node, parent: [V, B]. around: [V, w, B]. strides: [V, w + 1, B] of messages, in entries.
      digits: [C, w + 1] the label along each axis of each of the C entries of a table.
      count: int32 scalar. real: [V, B] bool, of nodes.
      tables: [V, C, B] before any message.
      counts: the transpose of what makes tables of potentials: [V, C, B] to those of nodes, pairs.
    """

    node: Array
    parent: Array
    around: Array
    strides: Array
    digits: Array
    count: Array
    real: Array
    tables: Array
    counts: Callable


def _powers(exponents: Array, S: int) -> Array:
    """S^(e - 1) of exponents e >= 1, 0 for 0."""
    return jnp.where(exponents > 0, S ** jnp.maximum(exponents - 1, 0), 0).astype(jnp.int32)


def _entries(digits: Array, strides: Array) -> Array:
    """[.., C, B] entries of another table that those of one stand for; strides [.., w + 1, B]."""
    digits = digits.reshape((1,) * (strides.ndim - 2) + (*digits.shape, 1))
    return jnp.sum(digits * strides[..., None, :, :], axis=-2)


def _tables(
    potentials: GraphPotentials, plan: Elimination, digits: Array, nodes: Array, pairs: Array
) -> Array:
    """[V, C, B] node and edge potentials at their steps; -inf where an axis of no node is not 0."""
    (V, S, B), (C, axes), E = nodes.shape, digits.shape, pairs.shape[0]
    columns = jnp.arange(B)[None]
    own = jnp.moveaxis(jnp.moveaxis(nodes, 1, 2)[plan.steps[:, 0], columns], 2, 1)
    tables = jnp.broadcast_to(own[:, :, None], (V, S, C // S, B)).reshape(V, C, B)
    unused = (plan.steps[:, None, 2 : 1 + axes] < 0) & (digits[None, :, 1:, None] > 0)
    tables = jnp.where(jnp.any(unused, axis=2), -jnp.inf, tables)
    used = jnp.arange(E)[:, None] < potentials.number_of_edges[None]
    entries = _entries(digits, _powers(plan.edges[:, 1:], S))
    rows = jnp.take_along_axis(pairs.reshape(E, S * S, B), entries, axis=1)
    step = jnp.where(used, plan.edges[:, 0], V)
    moved = jnp.moveaxis(tables, 2, 1).at[step, columns]
    tables = jnp.moveaxis(moved.add(jnp.moveaxis(rows, 2, 1), mode="drop"), 1, 2)
    real = jnp.arange(V)[:, None, None] < potentials.number_of_nodes[None, None]
    return jnp.where(real, tables, 0)


def _prepared(batch: int, potentials: GraphPotentials, plan: Elimination) -> _Steps:
    potentials, plan = jax.tree.map(
        lambda leaf: jnp.broadcast_to(leaf, (*leaf.shape[:-1], batch)), (potentials, plan)
    )
    V, S, _ = potentials.nodes.shape
    w = plan.edges.shape[1] - 2
    digits = jnp.arange(S ** (w + 1))[:, None] // S ** jnp.arange(w, -1, -1)[None] % S
    real = jnp.arange(V)[:, None] < potentials.number_of_nodes[None]
    taken = real & (plan.steps[:, 1] < potentials.number_of_nodes[None])
    tables, counts = jax.vjp(
        partial(_tables, potentials, plan, digits), potentials.nodes, potentials.pairs
    )
    return _Steps(
        jnp.where(real, plan.steps[:, 0], V),
        jnp.where(taken, plan.steps[:, 1], V),
        plan.steps[:, 2 : 2 + w],
        _powers(plan.steps[:, 2 + w :], S),
        digits.astype(jnp.int32),
        jnp.max(potentials.number_of_nodes),
        real,
        tables,
        counts,
    )


def _eliminated(rule: Best, steps: _Steps, S: int) -> tuple[Array, Array, Array]:
    """([V, C, B] full tables, [V, C / S, B] messages, [B] the reduction over all nodes)."""
    V, C, B = steps.tables.shape
    places = jnp.arange(C)[:, None], jnp.arange(B)[None]

    def body(carry: tuple, row: tuple) -> tuple[tuple, tuple]:
        tables, total = carry
        k, node, parent, strides = row
        # every entry that reads a message would compute it anew: 27 us a tree in place of 12
        message = jax.lax.optimization_barrier(rule.reduce(tables[k].reshape(S, C // S, B)))
        given = jnp.take_along_axis(message, _entries(steps.digits, strides), axis=0)
        tables = tables.at[parent[None], *places].add(given, mode="drop")
        root = (parent == V) & (node < V)  # its message goes nowhere: the value of its part
        return (tables, total + jnp.where(root, message[0], 0)), (message,)

    rows = (jnp.arange(V), steps.node, steps.parent, steps.strides)
    start = (steps.tables, jnp.zeros(B, steps.tables.dtype))
    (tables, total), (messages,) = scan_first(body, start, rows, steps.count)
    return tables, messages, total


def chosen_kernel(
    rule: Best, potentials: GraphPotentials, plan: Elimination, noise: Array | None = None
) -> Labelled:
    """Nodes in the reverse order of their elimination, each given those chosen before it."""
    steps = _prepared(batch_size(potentials, plan, noise), potentials, plan)
    V, S, _ = potentials.nodes.shape
    tables, _, total = _eliminated(rule, steps, S)
    C, B = tables.shape[1:]
    if noise is not None:
        noise = jnp.broadcast_to(noise, (V, S, B))

    def body(labels: Array, row: tuple) -> tuple[Array, tuple]:
        table, node, around, own = row
        known = jnp.take_along_axis(labels, jnp.clip(around, 0, V - 1), axis=0)
        powers = S ** jnp.arange(len(around) - 1, -1, -1)
        entry = jnp.sum(jnp.where(around >= 0, known, 0) * powers[:, None], axis=0)
        at = entry[None, None]
        column = jnp.take_along_axis(table.reshape(S, C // S, B), at, axis=1)[:, 0]
        label, _ = rule.choose(column, jnp.zeros_like(column), entry, noise=own)
        return labels.at[node, jnp.arange(B)].set(label, mode="drop"), ()

    rows = (tables, steps.node, steps.around, noise)
    labels, _ = scan_first(body, jnp.zeros((V, B), jnp.int32), rows, steps.count, reverse=True)
    return Labelled(jnp.where(steps.real, labels, PADDING), total)


def _score(found: Labelled, potentials: GraphPotentials, *_: PyTree) -> Array:
    return score_labels(potentials, found.labels)


_best_of_one = of_one_example(partial(chosen_kernel, Best()), _score)


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


def _beliefs(summed: bool, steps: _Steps, tables: Array, messages: Array, S: int) -> Array:
    """[V, C, B] of every entry of a step's table the probability of these labels, or the best score
    of its part of the graph with them: of the step that took its message, cut down."""
    V, C, B = tables.shape
    columns = jnp.arange(B)[None]

    def body(beliefs: Array, row: tuple) -> tuple[Array, tuple]:
        k, table, message, parent, strides = row
        above = jnp.take_along_axis(beliefs, jnp.minimum(parent, V - 1)[None, None], axis=0)[0]
        nothing = jnp.full((C // S, B), 0 if summed else -jnp.inf, tables.dtype)
        around = nothing.at[_entries(steps.digits, strides), columns]
        table, inner = table.reshape(S, C // S, B), parent[None] < V
        if summed:
            given = jnp.exp(table - finite_or_zero(message)[None])
            own = given * jnp.where(inner, around.add(above), 1)[None]
        else:
            own = table + jnp.where(inner, minus(around.max(above), message), 0)[None]
        return beliefs.at[k].set(own.reshape(C, B)), ()

    rows = (jnp.arange(V), tables, messages, steps.parent, steps.strides)
    return scan_first(body, jnp.zeros_like(tables), rows, steps.count, reverse=True)[0]


def _other_kernel(potentials: GraphPotentials, plan: Elimination, labels: Array) -> Labelled:
    """Some node must have another label: the one where that costs least, then the best of these."""
    batch = batch_size(potentials, plan, labels)
    steps = _prepared(batch, potentials, plan)
    V, S, _ = potentials.nodes.shape
    labels = jnp.broadcast_to(labels, (V, batch))
    tables, messages, _ = _eliminated(Best(), steps, S)
    beliefs = _beliefs(False, steps, tables, messages, S)
    each = jnp.max(beliefs.reshape(V, S, -1, batch), axis=2)
    given = jnp.take_along_axis(labels, jnp.minimum(steps.node, V - 1), axis=0)
    own = jnp.arange(S)[None, :, None] == given[:, None]
    other = jnp.max(jnp.where(own, -jnp.inf, each), axis=1)
    cost = jnp.where(other > -jnp.inf, jnp.max(each, axis=1) - other, jnp.inf)
    # Tables are by step; costs are compared by node, so that ties go to the lowest one.
    of_nodes = jnp.full_like(cost, jnp.inf)
    of_nodes = of_nodes.at[steps.node, jnp.arange(batch)[None]].set(cost, mode="drop")
    node = jnp.argmin(of_nodes, axis=0)
    # The cheapest node gives way; given that, the best labelling is one more elimination.
    at = jnp.arange(V)[:, None, None] == node[None, None]
    own = jnp.arange(S)[None, :, None] == labels[:, None]
    nodes = jnp.where(at & own, -jnp.inf, potentials.nodes)
    best = chosen_kernel(Best(), potentials._replace(nodes=nodes), plan)
    found = jnp.min(of_nodes, axis=0) < jnp.inf
    labels = jnp.where(steps.real, labels, PADDING)
    return Labelled(
        jnp.where(found[None], best.labels, labels), jnp.where(found, best.score, -jnp.inf)
    )


_other_of_one = of_one_example(_other_kernel, _score)


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


def _marginals_kernel(potentials: GraphPotentials, plan: Elimination) -> GraphMarginals:
    steps = _prepared(batch_size(potentials, plan), potentials, plan)
    tables, messages, total = _eliminated(Sums(), steps, potentials.nodes.shape[1])
    beliefs = _beliefs(True, steps, tables, messages, potentials.nodes.shape[1])
    nodes, pairs = steps.counts(jnp.where((total > -jnp.inf)[None, None], beliefs, 0))
    return GraphMarginals(nodes, pairs, total)


_marginals_of_one = of_one_example(_marginals_kernel)
_log_partition = log_partition_of(_marginals_of_one)


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
