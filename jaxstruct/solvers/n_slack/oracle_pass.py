"""The oracle's side of algorithm 3: examples called at one w.

A call finds the plane that its example violates most; on all examples it certifies w.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.buckets import bucket_slices, rows_at
from jaxstruct.core.compiling import program
from jaxstruct.core.contract import LookedUp, Problem, output_of
from jaxstruct.core.problem import reads_differences
from jaxstruct.core.transposition import gram_columns
from jaxstruct.core.types import AnyArray, Array, PyTree
from jaxstruct.solvers.n_slack import working_sets
from jaxstruct.solvers.n_slack.task import Task, bucket_task, interleave
from jaxstruct.solvers.objective.certificate import ExampleTerms
from jaxstruct.solvers.objective.formulations import power_of_loss
from jaxstruct.solvers.objective.most_violated import (
    most_violated_of_batch,
    same_output,
    terms_size,
)

TILE = 8
"""Slots an example that one turn of a loop reads: working sets have many slots, most of them
empty, and only the tiles that some example of a batch has filled are read (words: 33 ms a round,
44 where all are)."""


class Batch(NamedTuple):
    """Some examples of one bucket.

    Fields:
      index: [B] their rows. x, y_true: [B] inputs and true outputs. theta: [B] their potentials.
    """

    index: Array
    x: PyTree
    y_true: PyTree
    theta: PyTree


def filled_slots(occupied: Array) -> Array:
    """int32: the slots up to the last one that any of B examples [B, K] has filled."""
    return jnp.max(jnp.where(occupied, jnp.arange(occupied.shape[1]) + 1, 0))


def scores_at_hand(problem: Problem, sets: working_sets.WorkingSets, batch: Batch) -> Array:
    """[B, K] F of every output of working sets that are full, as enumerated ones are."""
    outputs = jax.tree.map(lambda leaf: leaf[batch.index], sets.outputs)
    return jax.vmap(problem.space.plane_scores)(batch.theta, outputs)


def look_up_planes(
    problem: Problem, sets: working_sets.WorkingSets, batch: Batch, y: PyTree, inputs: PyTree
) -> tuple[Array, working_sets.PlaneLookup]:
    """(F [B, K] of the planes at hand, 0 in empty slots; the outputs y [B] against them)."""
    if reads_differences(problem) and problem.space.differences.look_up is not None:
        return _look_up_one_by_one(problem, sets, batch, y, inputs)
    slots, filled = sets.losses.shape[1], filled_slots(sets.occupied[batch.index])
    tile = min(TILE, slots)
    squared, column = gram_columns(problem.space.plane_gram, batch.x, batch.y_true, y)
    held = sets.occupied[batch.index]
    nothing = jnp.zeros(held.shape, sets.losses.dtype)

    def look(at: Array, found: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        first = jnp.minimum(at * tile, slots - tile)
        place = first + jnp.arange(tile)
        outputs = jax.tree.map(lambda leaf: leaf[batch.index[:, None], place], sets.outputs)
        inside = held[:, place]
        scores = jax.vmap(problem.space.plane_scores)(batch.theta, outputs)
        same = jax.vmap(jax.vmap(same_output, (None, 0)))(y, outputs)
        known = jnp.any(same & inside, axis=1)

        def put(to: Array, part: Array) -> Array:
            part = part.astype(to.dtype)
            return jax.lax.dynamic_update_slice_in_dim(to, part, first, axis=1)

        products = jnp.where(inside, column(outputs), 0)
        return put(found[0], scores), put(found[1], products), found[2] | known

    start = nothing, nothing, jnp.zeros(held.shape[0], bool)
    scores, products, known = jax.lax.fori_loop(0, -(-filled // tile), look, start)
    return scores, working_sets.PlaneLookup(products, squared.astype(products.dtype), known)


def _look_up_one_by_one(
    problem: Problem, sets: working_sets.WorkingSets, batch: Batch, y: PyTree, inputs: PyTree
) -> tuple[Array, working_sets.PlaneLookup]:
    """`look_up_planes`, one occupied slot after the other."""

    def one(given: tuple) -> LookedUp:
        at, y_true, theta, y = given
        look_up, occupied = problem.space.differences.look_up, sets.occupied[at]
        return look_up(theta, inputs, sets.outputs, at, y_true, y, occupied)

    found = jax.lax.map(one, (batch.index, batch.y_true, batch.theta, y))
    scores, products, squared = (leaf.astype(sets.losses.dtype) for leaf in found[:3])
    return scores, working_sets.PlaneLookup(products, squared, found.known)


class PassCounts(NamedTuple):
    """Planes added, and examples whose working set was full."""

    added: Array
    overflow: Array

    @classmethod
    def none(cls) -> PassCounts:
        """Of no call."""
        return cls(jnp.int32(0), jnp.int32(0))

    def and_of(self, proposals: working_sets.Proposal, capacity: int) -> PassCounts:
        """With those of a batch."""
        added = jnp.sum(proposals.slot < capacity, dtype=jnp.int32)
        return PassCounts(
            self.added + added, self.overflow + jnp.sum(proposals.overflow, dtype=jnp.int32)
        )


class OracleReport(NamedTuple):
    """What the last oracle call of each example said.

    Fields:
      numbers: [N, 11] of `ExampleTerms`, at the w it was made at; one array, which programs take
        and write as one. slots: [N, A] the active slots it chose, 0 first.
    """

    numbers: AnyArray
    slots: AnyArray


def empty_report(rows: int, active: int, dtype: str) -> OracleReport:
    """Empty arrays for oracle calls on all rows, made by NumPy."""
    terms = np.zeros((rows, len(ExampleTerms._fields)), dtype)
    return OracleReport(terms, np.zeros((rows, active), np.int32))


class OracleOptions(NamedTuple):
    """Static options of an oracle call.

    Fields:
      oracle: which program, see `most_violated.oracle_for`.
      active: slots an example to name for restricted sweeps, 0 for none.
    """

    oracle: str
    active: int


class Calls(NamedTuple):
    """Which examples are called, and which of the outputs found enter.

    Fields:
      orders: one [batches, B] a bucket, the rows of the bucket in some order.
      spans: one (first, last) a bucket: the batches called; numbers, not shapes.
      epsilon: a plane is added where H(y_hat) > xi_i + epsilon and y_hat is not in S_i.
      clock: the number of this pass, for the eviction of unused planes.
    """

    orders: tuple[Array, ...]
    spans: tuple[tuple[AnyArray, AnyArray], ...]
    epsilon: AnyArray
    clock: AnyArray


class _Call(NamedTuple):
    """One oracle call on a batch.

    Fields:
      proposals: what enters, or None. terms: of the certificate at w.
      slots: [B, A] active slots; a plane that enters counts.
    """

    proposals: working_sets.Proposal | None
    terms: ExampleTerms
    slots: Array


def _call_batch(
    problem: Problem,
    options: OracleOptions,
    task: Task,
    w: PyTree,
    sets: working_sets.WorkingSets,
    index: Array,
    epsilon: AnyArray,
) -> _Call:
    """One oracle call on a batch: planes to add, the terms of the certificate, active slots."""
    x, y_true = rows_at((task.inputs, task.outputs), index)
    theta, found, known = most_violated_of_batch(problem, options.oracle, task.terms, w, x, y_true)
    batch, lookup = Batch(index, x, output_of(y_true), theta), None
    if sets.gram.shape[1] == 0:  # every output is at hand
        scores = scores_at_hand(problem, sets, batch)
    else:
        scores, lookup = look_up_planes(problem, sets, batch, found.output, task.inputs)
    # All rows before any is written: the caller's loop then writes in place and copies nothing.
    unread = dict.fromkeys(("outputs", "losses", "gram"))
    own = jax.lax.optimization_barrier(rows_at(sets._replace(**unread), index))
    margins = jnp.where(own.occupied, scores[:, :1] - scores, 0)
    slopes = own.bounds - own.scales * margins
    at_hand = jnp.maximum(jnp.max(jnp.where(own.occupied, slopes, -jnp.inf), axis=1), 0)
    proposals = None
    scale = power_of_loss(found.loss, task.terms.scale_power)
    bound = power_of_loss(found.loss, task.terms.bound_power)
    size = terms_size(scale, bound, jnp.abs(scores[:, 0]) + known.size, found.value)
    bound = bound - scale * known.margin
    multiplier_sum = jnp.sum(own.multipliers, axis=1)
    terms = ExampleTerms(
        worst=found.bound,
        value=found.value,
        slack=jnp.maximum(found.bound, 0),
        known=at_hand,
        bound=jnp.sum(own.multipliers * own.bounds, axis=1),
        product=jnp.sum(own.multipliers * own.scales * margins, axis=1),
        multiplier_sum=multiplier_sum,
        size=size,
        reach=jnp.sqrt(jnp.max(own.norms, axis=1)),
        claim=found.claim,
        bound_found=bound,
    )
    if lookup is not None:
        violated = (task.terms.cap[index] > 0) & (found.value > at_hand + epsilon)
        place = jax.vmap(partial(working_sets.propose, task.terms))
        proposals = place(own, lookup, found.output, found.loss, violated)
        proposals = proposals._replace(bound=bound)
        enters = jnp.arange(own.norms.shape[1])[None] == proposals.slot[:, None]
        own = own._replace(occupied=own.occupied | enters)
        slopes = jnp.where(enters, found.value[:, None], slopes)
        longest = jnp.max(jnp.where(enters, proposals.norm[:, None], own.norms), axis=1)
        terms = terms._replace(reach=jnp.sqrt(longest))
    planes = jnp.arange(own.norms.shape[1])[None] > 0
    pull = jnp.where(planes, task.terms.ridge[index, None] * multiplier_sum[:, None], 0)
    return _Call(proposals, terms, working_sets.active_slots(own, slopes - pull, options.active))


def _side_by_side(columns: Sequence[Array]) -> Array:
    """[B, J] of J columns [B], by one kernel with what makes them; a stack waits for each one's."""
    number, found = jnp.arange(len(columns)), columns[0][:, None]
    for j, column in enumerate(columns):
        found = jnp.where(number == j, column[:, None], found)
    return found


def oracle_pass(
    problem: Problem,
    options: OracleOptions,
    task: Task,
    w: PyTree,
    sets: working_sets.WorkingSets,
    report: OracleReport,
    calls: Calls,
) -> tuple[working_sets.WorkingSets, OracleReport, PassCounts]:
    """One oracle call an example at one fixed w, for some or all of the examples.

    The outputs violated by more than epsilon enter the working sets with multiplier 0.

    Args:
      options: static.
      report: what earlier calls said; the rows called now are replaced.
    """
    orders, spans, epsilon, clock = calls
    buckets = [
        (bucket_task(task, b), working_sets.bucket_of(sets, b), order)
        for b, order in enumerate(orders)
    ]

    def of_bucket(task: Task, order: Array) -> Callable:
        def body(at: Array, w: PyTree, own: tuple) -> tuple:
            sets, said, counts = own
            # a bucket of one batch: the barrier keeps XLA from calling it before the loop, always
            index, _ = jax.lax.optimization_barrier((order[at], at))
            call = _call_batch(problem, options, task, w, sets, index, epsilon)
            if call.proposals is not None:
                sets = working_sets.insert(sets, index, call.proposals, clock)
                counts = counts.and_of(call.proposals, sets.losses.shape[1])
            found = OracleReport(_side_by_side(call.terms), call.slots)
            said = jax.tree.map(lambda to, new: to.at[index].set(new), said, found)
            return w, (sets, said, counts)

        return body

    bodies = [of_bucket(task, order) for task, _, order in buckets]
    own = [
        (sets, jax.tree.map(lambda leaf, rows=rows: leaf[rows], report), PassCounts.none())
        for (_, sets, _), rows in zip(buckets, bucket_slices(task.outputs), strict=True)
    ]
    _, own = interleave(spans, 1, bodies, w, own)
    parts, said, counts = zip(*own, strict=True)
    report = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *said)
    total = jax.tree.map(lambda *values: sum(values), *counts)
    return working_sets.join_buckets(list(parts)), report, total


oracle_program = program(oracle_pass, static_argnums=1, donate_argnums=(4, 5))
