"""The compiled passes of algorithm 3.

oracle: every example called at one w, which finds the planes that it violates and, on all examples,
certifies it. cached: steps on the planes at hand. An exact pass is both in turn, a chunk of the
examples at a time. Each walks through the buckets of the task.

Planes never ride in the carry of a loop: they are closed over, each block's new values go into a
buffer that nothing reads, and one scatter after the loop writes them (a carry that is read and
written would be copied at every step).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.contract import Problem
from jaxstruct.core.types import Array, PyTree
from jaxstruct.solvers.active_slots import active_slots, merged, outputs_in, restricted
from jaxstruct.solvers.most_violated import most_violated, terms_size
from jaxstruct.solvers.task import Task, bucket_slices
from jaxstruct.solvers.visits import VisitOptions, plane_coefficients, visit
from jaxstruct.solvers.working_sets import (
    Proposal,
    WorkingSets,
    bucket_of,
    insert,
    is_enumerated,
    joined,
    propose,
    rows,
)

TURNS = 16
"""Into how many parts a sweep over several buckets is cut, so that their examples mix."""


class PassCounts(NamedTuple):
    """Planes added, and examples whose working set was full."""

    added: Array
    overflow: Array


class ExampleTerms(NamedTuple):
    """What an oracle call says of each example, all [N], at the w it was made at.

    Fields:
      worst: max_y H(y), or its bound. slack: max(0, worst).
      known: max(0, max over S_i of H).
      bound: sum_y beta b. product: <w, sum_y beta phi>. mass: sum_y beta.
      size: of the terms that worst is the sum of. reach: max over S_i of |phi|. Both tell how much
        rounding there is.
    """

    worst: Array
    slack: Array
    known: Array
    bound: Array
    product: Array
    mass: Array
    size: Array
    reach: Array


class Told(NamedTuple):
    """What the last oracle call of each example said.

    Fields:
      terms: at the w it was made at. slots: [N, A] the active slots it chose, 0 first.
    """

    terms: ExampleTerms
    slots: Array


def nothing_told(rows: int, active: int, dtype: str) -> Told:
    """Room for what oracle calls on all rows will say."""
    zeros = [jnp.zeros(rows, dtype) for _ in ExampleTerms._fields]
    return Told(ExampleTerms(*zeros), jnp.zeros((rows, active), jnp.int32))


class OracleOptions(NamedTuple):
    """Static options of an oracle call.

    Fields:
      oracle: which program, see `most_violated.oracle_for`.
      active: slots an example to name for restricted sweeps, 0 for none.
    """

    oracle: str
    active: int


def _rows(tree: PyTree, index: Array) -> PyTree:
    return jax.tree.map(lambda leaf: leaf[index], tree)


def _bucket_task(task: Task, number: int) -> Task:
    """One bucket as a task of its own, its inputs and outputs no longer in tuples."""
    own = bucket_slices(task.outputs)[number]
    terms = task.terms._replace(cap=task.terms.cap[own], ridge=task.terms.ridge[own])
    return Task(task.inputs[number], task.outputs[number], terms)


class _Call(NamedTuple):
    """One oracle call on a batch; gradient: [B, K] of the dual in each slot at w."""

    proposals: Proposal
    terms: ExampleTerms
    gradient: Array


def _called(
    problem: Problem,
    oracle: str,
    task: Task,
    w: PyTree,
    own: WorkingSets,
    index: Array,
    epsilon: Array,
) -> _Call:
    """One oracle call on a batch: planes to add, and the terms of the certificate at w."""
    x, y_true = _rows((task.inputs, task.outputs), index)
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
        slack=jnp.maximum(found.bound, 0),
        known=known,
        bound=jnp.sum(own.multipliers * own.bounds, axis=1),
        product=jnp.sum(own.multipliers * own.scales * margins, axis=1),
        mass=jnp.sum(own.multipliers, axis=1),
        size=terms_size(proposals.scale, proposals.bound, scores[:, 0], found.value),
        reach=jnp.sqrt(jnp.max(own.norms, axis=1)),
    )
    local = jnp.arange(index.shape[0])
    slopes = own.bounds - own.scales * margins
    slopes = slopes.at[local, proposals.slot].set(found.value, mode="drop")
    planes = jnp.arange(own.losses.shape[1]) > 0
    pull = jnp.where(planes, task.terms.ridge[index, None] * terms.mass[:, None], 0)
    return _Call(proposals, terms, slopes - pull)


def _interleaved(
    spans: tuple[tuple[Array, Array], ...],
    turns: int,
    bodies: list[Callable],
    w: PyTree,
    buffers: list[PyTree],
) -> tuple[PyTree, list[PyTree]]:
    """Run bodies[b] for first_b..last_b-1, the buckets taking turns; (w, filled buffers).

    Visiting one bucket after the other would be a cyclic order, which takes twice as many rounds:
    the examples of all buckets must be mixed.

    Args:
      spans: (first_b, last_b). turns: static, into how many parts each span is cut.
      bodies: (at, w) -> (w, results). buffers: where results `at` go, one pytree a body.
    """

    def turn(number: Array, state: tuple) -> tuple:
        w, filled = state[0], []
        for (start, stop), body, buffer in zip(spans, bodies, state[1], strict=True):

            def step(at: Array, own: tuple, body: Callable = body) -> tuple:
                w, results = body(at, own[0])
                put = jax.tree.map(lambda to, new: to.at[at].set(new), own[1], results)
                return w, put

            first = start + number * (stop - start) // turns
            last = start + (number + 1) * (stop - start) // turns
            w, buffer = jax.lax.fori_loop(first, last, step, (w, buffer))
            filled.append(buffer)
        return w, filled

    if len(bodies) == 1:
        turns = 1
    return jax.lax.fori_loop(0, turns, turn, (w, buffers))


def _empty_results(body: Callable, count: int, w: PyTree) -> PyTree:
    """Room for `count` results of a body."""
    _, shapes = jax.eval_shape(body, jnp.int32(0), w)
    return jax.tree.map(lambda leaf: jnp.zeros((count, *leaf.shape), leaf.dtype), shapes)


def _flat(tree: PyTree) -> PyTree:
    """[batches, B, ...] -> [batches B, ...]."""
    return jax.tree.map(
        lambda leaf: leaf.reshape(leaf.shape[0] * leaf.shape[1], *leaf.shape[2:]), tree
    )


def _counts(proposals: Proposal, called: Array, capacity: int) -> PassCounts:
    return PassCounts(
        jnp.sum(called & (proposals.slot < capacity)), jnp.sum(called & proposals.overflow)
    )


def _visited(order: Array, span: tuple[Array, Array]) -> Array:
    """The rows of the batches in a span, flat; out of range where a batch is not in it."""
    at = jnp.arange(order.shape[0])
    inside = (at >= span[0]) & (at < span[1])
    return jnp.where(inside[:, None], order, order.size).reshape(-1)


def _summed(counts: list[PassCounts]) -> PassCounts:
    return jax.tree.map(lambda *values: sum(values), *counts)


def _stacked(parts: list[PyTree]) -> PyTree:
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)


def cached_pass(
    problem: Problem,
    options: VisitOptions,
    task: Task,
    w: PyTree,
    sets: WorkingSets,
    slots: Array,
    orders: tuple[Array, ...],
    groups: tuple[Array, ...],
) -> tuple[PyTree, Array, Array]:
    """One sweep over the blocks of some examples, with the planes at hand.

    Args:
      slots: [N, A] the slots used, the others frozen; A = 0 for all.
      orders: one [N_b] a bucket, examples by their rows in it, a multiple of the group size.
      groups: how many groups of each are visited; numbers, not shapes, so that a sweep over few
        examples compiles nothing new.

    Returns:
      (w, multipliers [N, K], the sum of what its visits `promised`).
    """
    buckets = [
        (_bucket_task(task, b), bucket_of(sets, b), slots[own], order.reshape(-1, options.group))
        for b, (order, own) in enumerate(zip(orders, bucket_slices(task.outputs), strict=True))
    ]

    def of_bucket(task: Task, sets: WorkingSets, slots: Array, grouped: Array) -> Callable:
        def body(at: Array, w: PyTree) -> tuple[PyTree, tuple[Array, Array]]:
            index = grouped[at]
            x, y_true = _rows((task.inputs, task.outputs), index)
            own, terms, chosen = rows(sets, index), task.own_terms(index), slots[index]
            part_terms, part = restricted(terms, own, chosen)
            w, multipliers, promised = visit(problem, options, w, x, y_true, part, part_terms)
            return w, (merged(own.multipliers, multipliers, chosen), promised)

        return body

    bodies = [of_bucket(*bucket) for bucket in buckets]
    totals = [grouped.shape[0] for *_, grouped in buckets]
    buffers = [_empty_results(body, total, w) for body, total in zip(bodies, totals, strict=True)]
    spans = tuple((jnp.int32(0), count) for count in groups)
    w, results = _interleaved(spans, TURNS, bodies, w, buffers)
    parts = []
    for (_, own, _, grouped), count, (multipliers, _) in zip(buckets, groups, results, strict=True):
        index = _visited(grouped, (0, count))
        flat = multipliers.reshape(grouped.size, -1)
        parts.append(own.multipliers.at[index].set(flat, mode="drop"))
    return w, jnp.concatenate(parts), sum(jnp.sum(promised) for _, promised in results)


def oracle_pass(
    problem: Problem,
    options: OracleOptions,
    task: Task,
    w: PyTree,
    sets: WorkingSets,
    told: Told,
    orders: tuple[Array, ...],
    spans: tuple[tuple[Array, Array], ...],
    epsilon: Array,
    clock: Array,
) -> tuple[WorkingSets, Told, PassCounts]:
    """One oracle call an example at one fixed w, for some or all of the examples.

    The outputs violated by more than epsilon enter the working sets with multiplier 0.

    Args:
      options: static.
      told: what earlier calls said; the rows called now are replaced.
      orders: one [batches, B] a bucket, the rows of the bucket in some order.
      spans: one (first, last) a bucket: the batches called; numbers, not shapes.
      epsilon: a plane is added where H(y_hat) > xi_i + epsilon and y_hat is not in S_i.
      clock: the number of this pass, for the eviction of unused planes.
    """
    enumerated = is_enumerated(sets)
    if enumerated:  # there is nothing to add
        epsilon = jnp.full_like(epsilon, jnp.inf)
    buckets = [(_bucket_task(task, b), bucket_of(sets, b), order) for b, order in enumerate(orders)]

    def of_bucket(task: Task, sets: WorkingSets, order: Array) -> Callable:
        def body(at: Array, w: PyTree) -> tuple:
            index = order[at]
            own = rows(sets, index)
            call = _called(problem, options.oracle, task, w, own, index, epsilon)
            if not enumerated:
                own = insert(own, jnp.arange(index.shape[0]), call.proposals, clock)
            slots = active_slots(own, call.gradient, options.active)
            terms = call.terms._replace(reach=jnp.sqrt(jnp.max(own.norms, axis=1)))
            return w, (call.proposals, Told(terms, slots))

        return body

    bodies = [of_bucket(*bucket) for bucket in buckets]
    totals = [order.shape[0] for order in orders]
    buffers = [_empty_results(body, total, w) for body, total in zip(bodies, totals, strict=True)]
    _, results = _interleaved(spans, 1, bodies, w, buffers)
    parts, counts, new = [], [], []
    places = bucket_slices(task.outputs)
    for (_, own, order), span, own_rows, (proposals, said) in zip(
        buckets, spans, places, results, strict=True
    ):
        index = _visited(order, span)
        proposals, said = _flat((proposals, said))
        called = index < order.size
        counts.append(_counts(proposals, called, sets.losses.shape[1]))
        parts.append(own if enumerated else insert(own, index, proposals, clock))
        old = jax.tree.map(lambda leaf, own_rows=own_rows: leaf[own_rows], told)
        new.append(
            jax.tree.map(
                lambda to, leaf, index=index: to.at[index].set(leaf, mode="drop"), old, said
            )
        )
    return joined(parts), _stacked(new), _summed(counts)


def restricted_inputs(
    problem: Problem, inputs: tuple[PyTree, ...], outputs: tuple[PyTree, ...]
) -> tuple[tuple[PyTree, ...], Array]:
    """Inputs cut down to what these planes need, bucket by bucket, and [N] whether each fits."""
    found = [problem.space.restricted_inputs(x, y) for x, y in zip(inputs, outputs, strict=True)]
    return tuple(x for x, _ in found), jnp.concatenate([fits for _, fits in found])


def fitting(problem: Problem, task: Task, sets: WorkingSets, slots: Array) -> Array:
    """[N] whether `restricted_inputs` serve the planes in these slots."""
    return restricted_inputs(problem, task.inputs, outputs_in(sets, slots))[1]


def _in_slots(task: Task, sets: WorkingSets, slots: Array) -> tuple[Task, WorkingSets, Array]:
    """The task and the working sets cut down to some slots, and that no more is to be cut."""
    buckets = [
        (task.own_terms(own), bucket_of(sets, number), slots[own])
        for number, own in enumerate(bucket_slices(task.outputs))
    ]
    terms, parts = zip(*(restricted(*bucket) for bucket in buckets), strict=True)
    cap, ridge = (
        jnp.concatenate([getattr(own, name) for own in terms]) for name in ("cap", "ridge")
    )
    task = task._replace(terms=task.terms._replace(cap=cap, ridge=ridge))
    return task, joined(list(parts)), slots[:, :0]


class Plan(NamedTuple):
    """Which examples some sweeps visit, in which orders.

    Fields:
      orders: one [sweeps, N_b] a bucket, the rows of the bucket with those visited in front.
      groups: one number a bucket, how many groups of them are visited.
    """

    orders: tuple[Array, ...]
    groups: tuple[Array, ...]


def sweeps_pass(
    problem: Problem,
    options: VisitOptions,
    task: Task,
    w: PyTree,
    sets: WorkingSets,
    slots: Array,
    plans: tuple[Plan, ...],
    clock: Array,
) -> tuple[PyTree, Array, Array]:
    """Cached sweeps over the blocks of some examples, with the planes in some slots.

    They end when they fade (see `VisitOptions`), at the latest with those planned.

    Args:
      options: static.
      slots: [N, A] the slots used, the others frozen; A = 0 for all.
      plans: which examples each sweep visits; a second plan is for examples whose planes fit
        `restricted_inputs`.
      clock: the number of this pass.

    Returns:
      (w, multipliers [N, K], last_used [N, K]).
    """
    count = plans[0].orders[0].shape[0]
    own_task, part, left = task, sets, slots
    if count > 1 and slots.shape[1]:  # the slots are picked once, not in every visit
        own_task, part, left = _in_slots(task, sets, slots)
    tasks = [own_task]
    if len(plans) > 1:
        short, _ = restricted_inputs(problem, task.inputs, outputs_in(part, left))
        tasks.append(own_task._replace(inputs=short))

    def sweep(state: tuple) -> tuple:
        number, w, multipliers, first, _ = state
        last = jnp.zeros_like(first)
        for own, plan in zip(tasks, plans, strict=True):
            orders = tuple(order[number] for order in plan.orders)
            held = part._replace(multipliers=multipliers)
            w, multipliers, promised = cached_pass(
                problem, options, own, w, held, left, orders, plan.groups
            )
            last = last + promised
        return number + 1, w, multipliers, jnp.where(number == 0, last, first), last

    def goes_on(state: tuple) -> Array:
        number, _, _, first, last = state
        return (number < count) & (last > options.fading * first)

    zero = jnp.zeros((), part.multipliers.dtype)
    start = (0, w, part.multipliers, zero, zero + 1)
    _, w, multipliers, _, _ = jax.lax.while_loop(goes_on, sweep, start)
    if part is not sets:
        multipliers = merged(sets.multipliers, multipliers, slots)
    return w, multipliers, jnp.where(multipliers > 0, clock, sets.last_used)


def weights_of_multipliers(
    problem: Problem, task: Task, sets: WorkingSets, orders: tuple[Array, ...]
) -> PyTree:
    """w = sum_i sum_y beta_iy phi_i(y), rebuilt from the dual variables (thesis 3.28)."""
    w = problem.initial_weights
    for number, order in enumerate(orders):
        inputs, own_sets = task.inputs[number], bucket_of(sets, number)

        def body(
            w: PyTree, index: Array, inputs: PyTree = inputs, sets: WorkingSets = own_sets
        ) -> tuple[PyTree, None]:
            own = rows(sets, index)
            c = plane_coefficients(own.scales * own.multipliers)
            return problem.space.add_planes(w, _rows(inputs, index), own.outputs, c), None

        w, _ = jax.lax.scan(body, w, order)
    return w
