"""The oracle's side of algorithm 3: examples called at one w.

A call finds the plane that its example violates most; on all examples it certifies w.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.buckets import bucket_slices
from jaxstruct.core.compiling import program
from jaxstruct.core.contract import Problem
from jaxstruct.core.types import AnyArray, Array, PyTree
from jaxstruct.solvers.active_slots import active_slots
from jaxstruct.solvers.bucket_turns import (
    bucket_task,
    empty_results,
    interleave,
    rows_at,
    visited_rows,
)
from jaxstruct.solvers.certificate import ExampleTerms
from jaxstruct.solvers.most_violated import most_violated, terms_size
from jaxstruct.solvers.task import Task
from jaxstruct.solvers.working_sets import (
    Proposal,
    WorkingSets,
    bucket_of,
    insert,
    is_enumerated,
    join_buckets,
    propose,
    rows,
)


class PassCounts(NamedTuple):
    """Planes added, and examples whose working set was full."""

    added: Array
    overflow: Array


class OracleReport(NamedTuple):
    """What the last oracle call of each example said.

    Fields:
      terms: at the w it was made at. slots: [N, A] the active slots it chose, 0 first.
    """

    terms: ExampleTerms
    slots: Array


def empty_report(rows: int, active: int, dtype: str) -> OracleReport:
    """Room for what oracle calls on all rows will say."""
    zeros = [jnp.asarray(np.zeros(rows, dtype)) for _ in ExampleTerms._fields]
    return OracleReport(ExampleTerms(*zeros), jnp.asarray(np.zeros((rows, active), np.int32)))


class OracleOptions(NamedTuple):
    """Static options of an oracle call.

    Fields:
      oracle: which program, see `most_violated.oracle_for`.
      active: slots an example to name for restricted sweeps, 0 for none.
    """

    oracle: str
    active: int


class Calls(NamedTuple):
    """Which examples are called, and which of the outputs that they meet enter.

    Fields:
      orders: one [batches, B] a bucket, the rows of the bucket in some order.
      spans: one (first, last) a bucket: the batches called; numbers, not shapes.
      epsilon: a plane is added where H(y_hat) > xi_i + epsilon and y_hat is not in S_i.
      clock: the number of this pass, for the eviction of unused planes.
    """

    orders: tuple[Array, ...]
    spans: tuple[tuple[AnyArray, AnyArray], ...]
    epsilon: Array
    clock: AnyArray


class _Call(NamedTuple):
    """One oracle call on a batch; gradient: [B, K] of the dual in each slot at w."""

    proposals: Proposal
    terms: ExampleTerms
    gradient: Array


def _call_batch(
    problem: Problem,
    oracle: str,
    task: Task,
    w: PyTree,
    own: WorkingSets,
    index: Array,
    epsilon: Array,
) -> _Call:
    """One oracle call on a batch: planes to add, and the terms of the certificate at w."""
    x, y_true = rows_at((task.inputs, task.outputs), index)
    theta = jax.vmap(problem.model.potentials, (None, 0))(w, x)
    call = partial(most_violated, problem, oracle, task.terms)
    found = jax.vmap(call)(theta, y_true)
    scores = jax.vmap(problem.space.plane_scores)(theta, own.outputs)
    margins = scores[:, :1] - scores
    inside = jnp.where(own.occupied, own.bounds - own.scales * margins, -jnp.inf)
    known = jnp.maximum(jnp.max(inside, axis=1), 0)
    violated = (task.terms.cap[index] > 0) & (found.value > known + epsilon)
    place = partial(propose, problem, task.terms)
    proposals = jax.vmap(place)(own, x, y_true, found.output, found.loss, violated)
    terms = ExampleTerms(
        worst=found.bound,
        value=found.value,
        slack=jnp.maximum(found.bound, 0),
        known=known,
        bound=jnp.sum(own.multipliers * own.bounds, axis=1),
        product=jnp.sum(own.multipliers * own.scales * margins, axis=1),
        multiplier_sum=jnp.sum(own.multipliers, axis=1),
        size=terms_size(proposals.scale, proposals.bound, scores[:, 0], found.value),
        reach=jnp.sqrt(jnp.max(own.norms, axis=1)),
    )
    local = jnp.arange(index.shape[0])
    slopes = own.bounds - own.scales * margins
    slopes = slopes.at[local, proposals.slot].set(found.value, mode="drop")
    planes = jnp.arange(own.losses.shape[1]) > 0
    pull = jnp.where(planes, task.terms.ridge[index, None] * terms.multiplier_sum[:, None], 0)
    return _Call(proposals, terms, slopes - pull)


def _flat(tree: PyTree) -> PyTree:
    """[batches, B, ...] -> [batches B, ...]."""
    return jax.tree.map(
        lambda leaf: leaf.reshape(leaf.shape[0] * leaf.shape[1], *leaf.shape[2:]), tree
    )


def _counts(proposals: Proposal, called: Array, capacity: int) -> PassCounts:
    return PassCounts(
        jnp.sum(called & (proposals.slot < capacity)), jnp.sum(called & proposals.overflow)
    )


def _sum_counts(counts: list[PassCounts]) -> PassCounts:
    return jax.tree.map(lambda *values: sum(values), *counts)


def _concatenate(parts: list[PyTree]) -> PyTree:
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)


def _write_rows(old: PyTree, new: PyTree, index: Array) -> PyTree:
    """Rows `index` of every array replaced; rows out of range are dropped."""
    return jax.tree.map(lambda to, leaf: to.at[index].set(leaf, mode="drop"), old, new)


def oracle_pass(
    problem: Problem,
    options: OracleOptions,
    task: Task,
    w: PyTree,
    sets: WorkingSets,
    report: OracleReport,
    calls: Calls,
) -> tuple[WorkingSets, OracleReport, PassCounts]:
    """One oracle call an example at one fixed w, for some or all of the examples.

    The outputs violated by more than epsilon enter the working sets with multiplier 0.

    Args:
      options: static.
      report: what earlier calls said; the rows called now are replaced.
    """
    orders, spans, epsilon, clock = calls
    enumerated = is_enumerated(sets)
    if enumerated:  # there is nothing to add
        epsilon = jnp.full_like(epsilon, jnp.inf)
    buckets = [(bucket_task(task, b), bucket_of(sets, b), order) for b, order in enumerate(orders)]

    def of_bucket(task: Task, sets: WorkingSets, order: Array) -> Callable:
        def body(at: Array, w: PyTree) -> tuple:
            index = order[at]
            own = rows(sets, index)
            call = _call_batch(problem, options.oracle, task, w, own, index, epsilon)
            if not enumerated:
                own = insert(own, jnp.arange(index.shape[0]), call.proposals, clock)
            slots = active_slots(own, call.gradient, options.active)
            terms = call.terms._replace(reach=jnp.sqrt(jnp.max(own.norms, axis=1)))
            return w, (call.proposals, OracleReport(terms, slots))

        return body

    bodies = [of_bucket(*bucket) for bucket in buckets]
    totals = [order.shape[0] for order in orders]
    buffers = [empty_results(body, total, w) for body, total in zip(bodies, totals, strict=True)]
    _, results = interleave(spans, 1, bodies, w, buffers)
    parts, counts, new = [], [], []
    places = bucket_slices(task.outputs)
    for (_, own, order), span, own_rows, (proposals, said) in zip(
        buckets, spans, places, results, strict=True
    ):
        index = visited_rows(order, span)
        proposals, said = _flat((proposals, said))
        counts.append(_counts(proposals, index < order.size, sets.losses.shape[1]))
        parts.append(own if enumerated else insert(own, index, proposals, clock))
        old = jax.tree.map(lambda leaf, own_rows=own_rows: leaf[own_rows], report)
        new.append(_write_rows(old, said, index))
    return join_buckets(parts), _concatenate(new), _sum_counts(counts)


oracle_program = program(oracle_pass, static_argnums=1, donate_argnums=(4, 5))
