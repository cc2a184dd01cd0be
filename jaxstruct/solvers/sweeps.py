"""Cached sweeps: steps on the planes at hand, and the w that multipliers make."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.buckets import bucket_slices
from jaxstruct.core.compiling import program
from jaxstruct.core.contract import Problem
from jaxstruct.core.types import AnyArray, Array, PyTree
from jaxstruct.solvers.active_slots import merge_multipliers, outputs_in, restrict
from jaxstruct.solvers.bucket_turns import (
    TURNS,
    bucket_task,
    empty_results,
    interleave,
    rows_at,
    visited_rows,
)
from jaxstruct.solvers.settings import VisitOptions
from jaxstruct.solvers.task import Task
from jaxstruct.solvers.visits import visit
from jaxstruct.solvers.working_sets import (
    WorkingSets,
    bucket_of,
    join_buckets,
    plane_coefficients,
    rows,
)


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
      (w, multipliers [N, K], the sum of the predicted gains of its visits).
    """
    buckets = [
        (bucket_task(task, b), bucket_of(sets, b), slots[own], order.reshape(-1, options.group))
        for b, (order, own) in enumerate(zip(orders, bucket_slices(task.outputs), strict=True))
    ]

    def of_bucket(task: Task, sets: WorkingSets, slots: Array, grouped: Array) -> Callable:
        def body(at: Array, w: PyTree) -> tuple[PyTree, tuple[Array, Array]]:
            index = grouped[at]
            x, y_true = rows_at((task.inputs, task.outputs), index)
            own, terms, chosen = rows(sets, index), task.own_terms(index), slots[index]
            part_terms, part = restrict(terms, own, chosen)
            w, multipliers, predicted_gain = visit(problem, options, w, x, y_true, part, part_terms)
            return w, (merge_multipliers(own.multipliers, multipliers, chosen), predicted_gain)

        return body

    bodies = [of_bucket(*bucket) for bucket in buckets]
    totals = [grouped.shape[0] for *_, grouped in buckets]
    buffers = [empty_results(body, total, w) for body, total in zip(bodies, totals, strict=True)]
    spans = tuple((jnp.int32(0), count) for count in groups)
    w, results = interleave(spans, TURNS, bodies, w, buffers)
    parts = []
    for (_, own, _, grouped), count, (multipliers, _) in zip(buckets, groups, results, strict=True):
        index = visited_rows(grouped, (0, count))
        flat = multipliers.reshape(grouped.size, -1)
        parts.append(own.multipliers.at[index].set(flat, mode="drop"))
    gains = [jnp.sum(predicted_gain) for _, predicted_gain in results]
    return w, jnp.concatenate(parts), reduce(jnp.add, gains)


def restricted_inputs(
    problem: Problem, inputs: tuple[PyTree, ...], outputs: tuple[PyTree, ...]
) -> tuple[tuple[PyTree, ...], Array]:
    """Inputs cut down to what these planes need, bucket by bucket, and [N] whether each fits."""
    found = [problem.space.restricted_inputs(x, y) for x, y in zip(inputs, outputs, strict=True)]
    return tuple(x for x, _ in found), jnp.concatenate([fits for _, fits in found])


def fitting(problem: Problem, task: Task, sets: WorkingSets, slots: Array) -> Array:
    """[N] whether `restricted_inputs` serve the planes in these slots."""
    return restricted_inputs(problem, task.inputs, outputs_in(sets, slots))[1]


class Plan(NamedTuple):
    """Which examples some sweeps visit, in which orders.

    Fields:
      orders: one [sweeps, N_b] a bucket, the rows of the bucket with those visited in front.
      groups: one number a bucket, how many groups of them are visited.
    """

    orders: tuple[Array, ...]
    groups: tuple[Array, ...]


class Course(NamedTuple):
    """Some sweeps, one after the other.

    Fields:
      plans: which examples each sweep visits; a second plan is for examples whose planes fit
        `restricted_inputs`.
      most: how many sweeps at most, no more than the plans have orders for.
    """

    plans: tuple[Plan, ...]
    most: AnyArray


def _pick_rows(
    problem: Problem,
    task: Task,
    sets: WorkingSets,
    slots: Array,
    grouped: Array,
    groups: Array,
    cuts_inputs: bool,
) -> tuple:
    """What visits to some rows of one bucket need, picked once and not in every sweep.

    Args:
      task, sets: of one bucket. slots: [N_b, A] of its rows.
      grouped: [N_b / G, G] the rows, those visited in front. groups: how many groups are.
      cuts_inputs: static, whether `Space.restricted_inputs` are picked, too.

    Returns:
      (cap [N_b], the working sets cut down to the slots, their inputs or None); rows that are not
      visited hold zeros.
    """

    def body(at: Array, nothing: tuple) -> tuple:
        index = grouped[at]
        terms, part = restrict(task.own_terms(index), rows(sets, index), slots[index])
        short = None
        if cuts_inputs:
            short, _ = problem.space.restricted_inputs(rows_at(task.inputs, index), part.outputs)
        return nothing, (terms.cap, part, short)

    _, shapes = jax.eval_shape(body, jnp.int32(0), ())
    total = grouped.size
    room = jax.tree.map(lambda leaf: jnp.zeros((total, *leaf.shape[1:]), leaf.dtype), shapes)

    def pick(at: Array, held: tuple) -> tuple:
        found = body(at, ())[1]
        return jax.tree.map(lambda to, new: to.at[grouped[at]].set(new), held, found)

    return jax.lax.fori_loop(0, groups, pick, room)


def _pick_plan(
    problem: Problem,
    options: VisitOptions,
    task: Task,
    sets: WorkingSets,
    slots: Array,
    plan: Plan,
    cuts_inputs: bool,
) -> tuple[Task, WorkingSets]:
    """The task and the working sets that the visits of a plan see."""
    parts, inputs, caps = [], [], []
    for number, own in enumerate(bucket_slices(task.outputs)):
        grouped = plan.orders[number][0].reshape(-1, options.group)
        cap, part, short = _pick_rows(
            problem, bucket_task(task, number), bucket_of(sets, number), slots[own], grouped,
            plan.groups[number], cuts_inputs,
        )  # fmt: skip
        parts.append(part)
        caps.append(cap)
        inputs.append(short if cuts_inputs else task.inputs[number])
    terms = task.terms._replace(cap=jnp.concatenate(caps))
    return Task(tuple(inputs), task.outputs, terms), join_buckets(parts)


def sweeps_pass(
    problem: Problem,
    options: VisitOptions,
    task: Task,
    w: PyTree,
    sets: WorkingSets,
    slots: Array,
    course: Course,
    clock: Array,
) -> tuple[PyTree, Array, Array]:
    """Cached sweeps over the blocks of some examples, with the planes in some slots.

    They end when they fade (see `VisitOptions`), at the latest with the course. How many sweeps and
    how many examples there are is a number, so that one program serves every round.

    Args:
      options: static.
      slots: [N, A] the slots used, the others frozen; A = 0 for all.
      course: which examples are visited, and how often at most.
      clock: the number of this pass.

    Returns:
      (w, multipliers [N, K], last_used [N, K]).
    """
    plans, most = course
    picks = slots.shape[1] > 0 or len(plans) > 1
    seen = [(task, sets)] * len(plans)
    if picks:
        seen = [
            _pick_plan(problem, options, task, sets, slots, plan, number > 0)
            for number, plan in enumerate(plans)
        ]
    visited = [_visited(task, options, plan)[:, None] for plan in plans]
    start = seen[0][1].multipliers
    for (_, part), own in zip(seen[1:], visited[1:], strict=True):
        start = jnp.where(own, part.multipliers, start)
    left = slots[:, :0]

    def sweep(state: tuple) -> tuple:
        number, w, multipliers, first, _ = state
        last = jnp.zeros_like(first)
        for (own_task, part), plan in zip(seen, plans, strict=True):
            orders = tuple(order[number] for order in plan.orders)
            held = part._replace(multipliers=multipliers)
            w, multipliers, predicted_gain = cached_pass(
                problem, options, own_task, w, held, left, orders, plan.groups
            )
            last = last + predicted_gain
        return number + 1, w, multipliers, jnp.where(number == 0, last, first), last

    def goes_on(state: tuple) -> Array:
        number, _, _, first, last = state
        return (number < most) & (last > options.fading * first)

    zero = jnp.zeros((), start.dtype)
    _, w, moved, _, _ = jax.lax.while_loop(goes_on, sweep, (0, w, start, zero, zero + 1))
    moved = merge_multipliers(sets.multipliers, moved, slots)
    multipliers = jnp.where(reduce(jnp.logical_or, visited), moved, sets.multipliers)
    return w, multipliers, jnp.where(multipliers > 0, clock, sets.last_used)


def _visited(task: Task, options: VisitOptions, plan: Plan) -> Array:
    """[N] whether the sweeps of a plan visit a row."""
    flags = []
    for own, order, count in zip(
        bucket_slices(task.outputs), plan.orders, plan.groups, strict=True
    ):
        index = visited_rows(order[0].reshape(-1, options.group), (0, count))
        flags.append(jnp.zeros(own.stop - own.start, bool).at[index].set(True, mode="drop"))
    return jnp.concatenate(flags)


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
            return problem.space.add_planes(w, rows_at(inputs, index), own.outputs, c), None

        w, _ = jax.lax.scan(body, w, order)
    return w


sweeps_program = program(sweeps_pass, static_argnums=1)
rebuilt_weights = program(weights_of_multipliers)
fitting_program = program(fitting)
