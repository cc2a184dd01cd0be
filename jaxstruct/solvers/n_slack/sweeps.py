"""Cached sweeps: steps on the planes at hand, and the w that multipliers make."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.buckets import bucket_slices, rows_at
from jaxstruct.core.compiling import program
from jaxstruct.core.contract import Problem, output_of
from jaxstruct.core.problem import reads_differences
from jaxstruct.core.types import AnyArray, Array, PyTree
from jaxstruct.solvers.n_slack.task import TURNS, Task, bucket_task, interleave, visited_rows
from jaxstruct.solvers.n_slack.visits import Planes, visit
from jaxstruct.solvers.n_slack.working_sets import (
    WorkingSets,
    bucket_of,
    merge_multipliers,
    plane_coefficients,
    restrict,
)
from jaxstruct.solvers.settings import VisitOptions


class Plan(NamedTuple):
    """Some sweeps over some examples, one after the other.

    Fields:
      orders: one [sweeps, N_b] a bucket, the rows of the bucket with those visited in front.
      groups: one number a bucket, how many groups of them are visited.
      most: how many sweeps at most, no more than there are orders.
      slots: [N, A] the slots that are swept, the others frozen; A = 0 for all.
      clock: the number of this pass.
    """

    orders: tuple[Array, ...]
    groups: tuple[Array, ...]
    most: AnyArray
    slots: AnyArray
    clock: AnyArray


class Seen(NamedTuple):
    """One bucket as visits see it.

    Fields:
      task: the bucket, its caps without what frozen slots take.
      sets: its working sets, cut down to the slots that are swept: then without what visits do not
        read, losses and last_used, and outputs where there are differences.
      differences: [N_b] of `Space.differences`, or None.
    """

    task: Task
    sets: WorkingSets
    differences: PyTree


def see(task: Task, sets: WorkingSets) -> list[Seen]:
    """Every bucket whole."""
    count = len(task.outputs)
    return [Seen(bucket_task(task, b), bucket_of(sets, b), None) for b in range(count)]


def _sees_whole(problem: Problem, slots: Array) -> bool:
    cuts = reads_differences(problem) and problem.space.differences.find is not None
    return slots.shape[1] == 0 and not cuts


def see_slots(
    problem: Problem,
    options: VisitOptions,
    task: Task,
    sets: WorkingSets,
    plan: Plan,
    scratch: list,
) -> tuple[list[Seen], list]:
    """Every bucket cut down to some slots; only the rows that a plan visits hold what they should.

    Args:
      options: static. scratch: of `SweepBuffers`.

    Returns:
      (the buckets, the scratch arrays that hold them).
    """
    whole, slots = see(task, sets), plan.slots
    if _sees_whole(problem, slots):
        if reads_differences(problem):  # planes as they are
            whole = [own._replace(differences=own.sets.outputs) for own in whole]
        return whole, scratch
    scratch = [
        _cut(problem, bucket, slots[own], order[0].reshape(-1, options.group), count, held)
        for bucket, own, order, count, held in zip(
            whole, bucket_slices(task.outputs), plan.orders, plan.groups, scratch, strict=True
        )
    ]
    seen = []
    for (task, *_), held in zip(whole, scratch, strict=True):
        task = task._replace(terms=task.terms._replace(cap=held.cap))
        seen.append(Seen(task, held.sets, held.differences))
    return seen, scratch


class _Part(NamedTuple):
    """Some rows of one bucket, cut down; the fields are those of `Seen`, cap: of its terms."""

    cap: Array
    sets: WorkingSets
    differences: PyTree


def _part(problem: Problem, whole: Seen, slots: Array, index: Array) -> _Part:
    """The rows [B] of one bucket cut down to the slots [N_b, A]."""
    read = whole.sets._replace(losses=None, last_used=None)
    terms, sets = restrict(whole.task.own_terms(index), read, index, slots[index])
    differences = None
    if reads_differences(problem):
        find, planes = problem.space.differences.find, sets.outputs
        differences = planes if find is None else find(planes)
        if sets.gram.shape[1]:  # else the planes make its columns
            sets = sets._replace(outputs=None)
    return _Part(terms.cap, sets, differences)


def _parts(problem: Problem, task: Task, sets: WorkingSets, slots: Array) -> list[_Part]:
    """All rows of each bucket cut down; of the module, so that its shapes are traced once."""
    places = bucket_slices(task.outputs)
    return [
        _part(problem, whole, slots[own], jnp.arange(own.stop - own.start))
        for whole, own in zip(see(task, sets), places, strict=True)
    ]


class SweepBuffers:
    """Scratch arrays of the last sweeps, for the next ones: what is large is made once a run.

    Of 2,000 Spanish sentences they are 80 MB, at nine calls a round: made anew they cost 5.5
    million page faults a run.
    """

    def __init__(self) -> None:
        """None yet."""
        self._slots, self._scratch = None, []

    def take(
        self, problem: Problem, task: Task, sets: WorkingSets, slots: Array, zeros: Callable
    ) -> list:
        """Arrays for the buckets cut down to slots [N, A], which `sweeps_pass` takes over: what was
        given back of that size, or zeros, which NumPy makes, so that nothing compiles. None where
        nothing is cut down.

        Args:
          problem, task: the same in all calls. zeros: (shape, dtype) -> them, where the rows are.
        """
        if _sees_whole(problem, slots):
            return []
        count = slots.shape[1] or sets.losses.shape[1]
        scratch, known = self._scratch, self._slots == count
        self._slots, self._scratch = None, []
        if known:
            return scratch
        shapes = jax.eval_shape(_parts, problem, task, sets, slots)
        return jax.tree.map(lambda leaf: zeros(leaf.shape, leaf.dtype), shapes)

    def give_back(self, scratch: list) -> None:
        """The arrays after the sweeps; nothing is kept of none."""
        if scratch:
            self._slots, self._scratch = scratch[0].sets.norms.shape[1], scratch


def _cut(
    problem: Problem, whole: Seen, slots: Array, grouped: Array, groups: Array, scratch: _Part
) -> _Part:
    """One bucket cut down to the slots [N_b, A], once and not in every sweep.

    Args:
      grouped: [N_b / G, G] rows, those visited in front. groups: how many groups are.
      scratch: [N_b] what other rows hold.
    """

    def pick(at: Array, held: _Part) -> _Part:
        index = grouped[at]
        found = _part(problem, whole, slots, index)
        return jax.tree.map(lambda to, new: _write_rows(to, index, new), held, found)

    return jax.lax.fori_loop(0, groups, pick, scratch)


def _write_rows(to: Array, index: Array, new: Array) -> Array:
    """Rows [B] replaced; a single one without a scatter, which a kernel cannot hold."""
    if index.shape[0] > 1:
        return to.at[index].set(new)
    return jax.lax.dynamic_update_slice_in_dim(to, new, index[0], 0)


def cached_pass(
    problem: Problem,
    options: VisitOptions,
    seen: list[Seen],
    w: PyTree,
    multipliers: Array,
    orders: tuple[Array, ...],
    groups: tuple[Array, ...],
) -> tuple[PyTree, Array, Array]:
    """One sweep over the blocks of some examples, with the planes at hand.

    Args:
      options: static.
      seen: the buckets; of their multipliers nothing is read.
      multipliers: [N, A] of the slots that are seen.
      orders: one [N_b] a bucket, examples by their rows in it, a multiple of the group size.
      groups: how many groups of each are visited; numbers, not shapes, so that a sweep over few
        examples compiles nothing new.

    Returns:
      (w, multipliers [N, A], the sum of the predicted gains of its visits).
    """
    spans = tuple((0, count) for count in groups)
    return make_visits(problem, options, TURNS, seen, w, multipliers, orders, spans)


def make_visits(
    problem: Problem,
    options: VisitOptions,
    turns: int,
    seen: list[Seen],
    w: PyTree,
    multipliers: Array,
    orders: tuple[Array, ...],
    spans: tuple[tuple[AnyArray, AnyArray], ...],
) -> tuple[PyTree, Array, Array]:
    """Visit some groups of each bucket, the buckets taking turns.

    Args:
      turns, spans: of `interleave`. The rest as in `cached_pass`, which returns the same.
    """
    places = bucket_slices(tuple(bucket.task.outputs for bucket in seen))

    def of_bucket(bucket: Seen, order: Array) -> Callable:
        def body(at: Array, shared: tuple[PyTree, Array], own: Array) -> tuple:
            (w, gain), index = shared, order[at]
            truth = output_of(bucket.task.outputs)
            sets, y_true = rows_at((bucket.sets._replace(multipliers=own), truth), index)
            planes = Planes(bucket.task.inputs, index, sets.outputs, bucket.differences)
            terms = bucket.task.own_terms(index)
            w, new, more = visit(problem, options, w, planes, y_true, sets, terms)
            return (w, gain + more), _write_rows(own, index, new)

        return body

    grouped = [order.reshape(-1, options.group) for order in orders]
    bodies = [of_bucket(*each) for each in zip(seen, grouped, strict=True)]
    start = w, jnp.zeros((), multipliers.dtype)
    (w, gain), own = interleave(spans, turns, bodies, start, [multipliers[own] for own in places])
    return w, jnp.concatenate(own), gain


def sweeps_pass(
    problem: Problem,
    options: VisitOptions,
    task: Task,
    w: PyTree,
    sets: WorkingSets,
    plan: Plan,
    scratch: list,
    one_sweep: Callable = cached_pass,
) -> tuple[PyTree, Array, Array, Array, list]:
    """Cached sweeps over the blocks of some examples, with the planes in some slots.

    They end when they fade (see `VisitOptions`), at the latest as the plan says. How many sweeps
    and how many examples there are is a number, so that one program serves every round.

    Args:
      options: static.
      scratch: of `SweepBuffers`, taken over; what it holds plays no part.
      one_sweep: makes each of them, as `cached_pass` does.

    Returns:
      (w, multipliers [N, K], last_used [N, K], how many sweeps were made, the scratch arrays for
      the next call).
    """
    seen, scratch = see_slots(problem, options, task, sets, plan, scratch)
    start = jnp.concatenate([bucket.sets.multipliers for bucket in seen])

    def sweep(state: tuple) -> tuple:
        number, w, multipliers, first, _ = state
        orders = tuple(order[number] for order in plan.orders)
        w, multipliers, gain = one_sweep(
            problem, options, seen, w, multipliers, orders, plan.groups
        )
        return number + 1, w, multipliers, jnp.where(number == 0, gain, first), gain

    def goes_on(state: tuple) -> Array:
        number, _, _, first, last = state
        return (number < plan.most) & (last > options.fading * first)

    zero, inputs, differences = jnp.zeros((), start.dtype), task.inputs[0], None
    if reads_differences(problem):
        differences = problem.space.differences
    if differences and differences.unpack:
        w = differences.unpack(w, inputs)
    first = jnp.int32(0), w, start, zero, zero + 1
    made, w, moved, _, _ = jax.lax.while_loop(goes_on, sweep, first)
    if differences and differences.pack:
        w = differences.pack(w, inputs)
    visited = _visited(task, options, plan)[:, None]
    moved = merge_multipliers(sets.multipliers, moved, plan.slots)
    multipliers = jnp.where(visited, moved, sets.multipliers)
    last_used = jnp.where(multipliers > 0, plan.clock, sets.last_used)
    return w, multipliers, last_used, made, scratch


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
            own = rows_at(sets, index)
            c = plane_coefficients(own.scales * own.multipliers)
            return problem.space.add_planes(w, rows_at(inputs, index), own.outputs, c), None

        w, _ = jax.lax.scan(body, w, order)
    return w


sweeps_program = program(sweeps_pass, static_argnums=1, donate_argnums=6)
rebuilt_weights = program(weights_of_multipliers)
