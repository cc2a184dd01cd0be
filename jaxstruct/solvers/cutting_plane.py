"""The cutting plane algorithm (thesis, algorithms 2 and 3): init, step, and what a step tells.

For people who own their loop; `fit` is the short way in. A step is one round on the host:
one pass that moves w (variant b: the exact pass and its cached sweeps; variant a: a proximal
Newton step on the dual over all working sets), then, where it is worth it, one oracle call an
example at the new w, which certifies it and adds the planes that it meets.
"""

from __future__ import annotations

import math
import time
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.contract import Problem
from jaxstruct.core.types import Array, PyTree
from jaxstruct.solvers import passes
from jaxstruct.solvers.certificate import Certificate, block_gaps, certify, coordinate_norm
from jaxstruct.solvers.formulations import Formulation
from jaxstruct.solvers.most_violated import oracle_for
from jaxstruct.solvers.programs import counted_jit
from jaxstruct.solvers.proximal_newton import proximal_newton_pass
from jaxstruct.solvers.settings import Settings, check_settings, enumerates, fitted
from jaxstruct.solvers.task import Task, batches_of, bucket_slices
from jaxstruct.solvers.working_sets import (
    WorkingSets,
    empty_working_sets,
    enumerated_working_sets,
    grown,
    is_enumerated,
)


class State(NamedTuple):
    """What the next step needs.

    Fields:
      weights: w of the dual variables (or, in the full variant, of span).
      sets: the working sets with the dual variables beta.
      span: [N, K] with w = Phi span in the full variant; None where the next full step starts from
        beta itself (after a subspace round, or after a plane was evicted).
      sigma: proximal step length of the full variant.
      clock: rounds so far.
      block_gaps: [N] each example's part of the duality gap at its last oracle call, or None.
      slots: [N, active] slots that the last oracle call chose for restricted sweeps, or None.
    """

    weights: PyTree
    sets: WorkingSets
    span: Array | None
    sigma: float
    clock: int
    block_gaps: np.ndarray | None
    slots: Array | None = None


class Info(NamedTuple):
    """What a person wants to see of a step.

    Fields:
      certificate: primal, dual, violation and the rest at the new w, or None in a round that was
        not certified.
      estimate: the same numbers from the oracle calls of the exact pass, each at the w it met, so
        proof of nothing; the certificate where there is one.
      planes_added: in this round. overflow: examples that had no slot for a violated output.
      oracle_calls: in this round, of single examples; those of weight 0 and rows of padding, which
        the oracle sees too, are not counted. seconds: of each part, by name.
      slack: [N] slack of every row of the task at w, or None as the certificate.
    """

    certificate: Certificate | None
    estimate: Certificate
    planes_added: int
    overflow: int
    oracle_calls: int
    seconds: dict[str, float]
    slack: np.ndarray | None


_enumerated = counted_jit(enumerated_working_sets)
_sweeps = counted_jit(passes.sweeps_pass, static_argnums=1)
_oracle = counted_jit(passes.oracle_pass, static_argnums=1, donate_argnums=(4, 5))
_rebuilt = counted_jit(passes.weights_of_multipliers)
_fitting = counted_jit(passes.fitting)
_newton = counted_jit(proximal_newton_pass, static_argnums=1)
_restricting = jax.jit(passes.restricted_inputs)  # for its shapes only
_nothing_told = jax.jit(passes.nothing_told, static_argnums=(0, 1, 2))
_copied = jax.jit(partial(jax.tree.map, jnp.copy))


def init(problem: Problem, task: Task, settings: Settings) -> State:
    """The state before the first step: w = 0, empty working sets."""
    check_settings(settings)
    dtype = jnp.result_type(*jax.tree.leaves(problem.initial_weights))
    if enumerates(problem, settings):
        sets = _enumerated(problem, task)
    else:
        sets = empty_working_sets(task.outputs, settings.capacity, dtype)
    return State(jax.tree.map(jnp.copy, problem.initial_weights), sets, None, 30.0, 0, None)


def _timed(seconds: dict[str, float], name: str, run: Any) -> Any:
    start = time.perf_counter()
    result = jax.block_until_ready(run())
    seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - start
    return result


def in_order(task: Task, settings: Settings) -> tuple[Array, ...]:
    """One [batches, B] a bucket: its rows as they come."""
    sizes = [own.stop - own.start for own in bucket_slices(task.outputs)]
    return tuple(
        jnp.arange(size, dtype=jnp.int32).reshape(batches_of(size, settings.oracle_batch))
        for size in sizes
    )


def whole(orders: tuple[Array, ...]) -> tuple[tuple[np.int32, np.int32], ...]:
    """Spans that cover every batch."""
    return tuple((np.int32(0), np.int32(order.shape[0])) for order in orders)


class _Round(NamedTuple):
    """The fixed side of one round: what every part of it is called with."""

    problem: Problem
    task: Task
    settings: Settings
    formulation: Formulation
    oracle: str
    clock: np.int32
    random: np.random.Generator
    seconds: dict[str, float]
    restricts: bool

    def oracle_options(self, active: int) -> passes.OracleOptions:
        return passes.OracleOptions(self.oracle, active)


def _round(
    problem: Problem, task: Task, settings: Settings, formulation: Formulation, clock: int
) -> _Round:
    settings = fitted(problem, settings, settings.oracle_batch)
    return _Round(
        problem, task, settings, formulation, oracle_for(problem, formulation), np.int32(clock),
        np.random.default_rng([settings.seed, clock]), {}, _restricts(problem, task),
    )  # fmt: skip


def _examples(task: Task) -> int:
    """How many have a weight: the oracle calls of a pass."""
    return int(np.sum(np.asarray(task.terms.cap) > 0))


def _covering(parts: np.ndarray, coverage: float) -> np.ndarray:
    """The rows of the largest parts that make up `coverage` of their sum."""
    ranked = np.argsort(-parts, kind="stable")
    total = np.cumsum(parts[ranked])
    return ranked[: int(np.searchsorted(total, coverage * total[-1])) + 1]


def _plan(now: _Round, chosen: np.ndarray, count: int) -> passes.Plan:
    """Sweeps over the chosen rows, each in a new order; other rows fill the last group."""
    group, orders, groups = now.settings.group, [], []
    wanted = np.zeros(now.task.terms.cap.shape[0], bool)
    wanted[chosen] = True
    for own in bucket_slices(now.task.outputs):
        inside, others = np.flatnonzero(wanted[own]), np.flatnonzero(~wanted[own])
        size = -(-len(inside) // group) * group
        rows = np.concatenate([inside, others]).astype(np.int32)
        rows = np.tile(rows, (count, 1))
        now.random.permuted(rows[:, :size], axis=1, out=rows[:, :size])
        orders.append(rows)
        groups.append(np.int32(size // group))
    return passes.Plan(tuple(orders), tuple(groups))


def _whole_groups(now: _Round, chosen: np.ndarray) -> np.ndarray:
    """The chosen rows of each bucket up to a multiple of the group, so that none fills in."""
    group, kept = now.settings.group, []
    for own in bucket_slices(now.task.outputs):
        inside = chosen[(chosen >= own.start) & (chosen < own.stop)]
        kept.append(inside[: len(inside) // group * group])
    return np.concatenate(kept)


def _restricts(problem: Problem, task: Task) -> bool:
    """Whether the structure can cut the inputs of some bucket down to the planes at hand."""
    if problem.space.restricted_inputs is None:
        return False
    planes = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct((leaf.shape[0], 1, *leaf.shape[1:]), leaf.dtype),
        task.outputs,
    )
    inputs, _ = _restricting.eval_shape(problem, task.inputs, planes)
    return jax.tree.structure(inputs) != jax.tree.structure(task.inputs)


def _swept(
    now: _Round, count: int, w: PyTree, sets: WorkingSets, chosen: np.ndarray, slots: Array
) -> tuple[PyTree, WorkingSets]:
    """Sweeps over the chosen rows and over the named slots, or over all where none are named."""
    if count == 0 or not chosen.size:
        return w, sets
    plans = [chosen]
    if now.restricts and count > 1:
        fits = np.asarray(_fitting(now.problem, now.task, sets, slots))
        easy = _whole_groups(now, chosen[fits[chosen]])
        plans = [np.setdiff1d(chosen, easy, assume_unique=True), easy]
    w, multipliers, last_used = _timed(
        now.seconds, "sweeps",
        partial(
            _sweeps, now.problem, now.settings.visit_options(), now.task, w, sets, slots,
            tuple(_plan(now, rows, count) for rows in plans), now.clock,
        ),
    )  # fmt: skip
    return w, sets._replace(multipliers=multipliers, last_used=last_used)


def _widest(settings: Settings, sets: WorkingSets, chosen: np.ndarray) -> np.ndarray:
    """The chosen rows that carry nearly as many planes as there are active slots."""
    carried = np.asarray(jnp.sum(sets.multipliers > 0, axis=1))[chosen]
    return chosen[carried >= settings.active - 2]


def _enumerated_round(now: _Round, state: State) -> tuple[PyTree, WorkingSets]:
    """Sweeps over all rows and slots at first, later over those that matter."""
    settings, w, sets = now.settings, state.weights, state.sets
    n = sets.losses.shape[0]
    every = jnp.zeros((n, 0), jnp.int32)
    if state.clock <= settings.warm_passes or state.block_gaps is None or state.slots is None:
        warm = state.clock <= settings.warm_passes or state.block_gaps is None
        chosen = np.arange(n) if warm else _covering(state.block_gaps, settings.coverage)
        count = 1 if named_slots(settings, sets) else settings.cached_sweeps
        return _swept(now, count, w, sets, chosen, every)
    chosen = _covering(state.block_gaps, settings.coverage)
    widest = _widest(settings, sets, chosen)
    if len(widest):  # the planes beyond the active slots move here only
        w, sets = _swept(now, 1, w, sets, widest, every)
    return _swept(now, settings.cached_sweeps, w, sets, chosen, state.slots)


class _Moved(NamedTuple):
    """What a grown round leaves beside w and the sets."""

    added: int
    overflow: int
    estimate: Certificate
    gaps: np.ndarray


def _shuffled(now: _Round) -> list[np.ndarray]:
    """One [batches, B] a bucket: its rows in a random order."""
    orders = in_order(now.task, now.settings)
    return [now.random.permutation(order.size).reshape(order.shape) for order in orders]


def _chunk(now: _Round, orders: list[np.ndarray], number: int) -> tuple[tuple, np.ndarray]:
    """(batches by bucket, rows) of one of the chunks of an exact pass."""
    chunks, spans, rows = now.settings.chunks, [], []
    for order, own in zip(orders, bucket_slices(now.task.outputs), strict=True):
        count = order.shape[0]
        first, last = (count * (number + side) // chunks for side in (0, 1))
        spans.append((np.int32(first), np.int32(last)))
        rows.append(order[first:last].reshape(-1) + own.start)
    return tuple(spans), np.concatenate(rows)


def _grown_round(now: _Round, state: State, epsilon: Array) -> tuple[PyTree, WorkingSets, _Moved]:
    """The exact pass of algorithm 3 chunk by chunk, then sweeps over the slots that matter."""
    settings, w = now.settings, state.weights
    sets = _copied(state.sets)  # the program takes its buffers over
    active = named_slots(settings, sets)
    told = _nothing_told(sets.losses.shape[0], active, sets.losses.dtype)
    shuffled = _shuffled(now)
    orders = tuple(jnp.asarray(order, jnp.int32) for order in shuffled)
    found = []
    for number in range(settings.chunks):
        spans, chosen = _chunk(now, shuffled, number)
        if not chosen.size:
            continue
        sets, told, counts = _timed(
            now.seconds, "oracle",
            partial(
                _oracle, now.problem, now.oracle_options(active), now.task, w, sets, told, orders,
                spans, epsilon, now.clock,
            ),
        )  # fmt: skip
        found.append(counts)
        w, sets = _swept(now, 1, w, sets, chosen, told.slots)
    gaps = block_gaps(now.formulation, now.task.terms, told.terms)
    chosen = _covering(gaps, settings.coverage)
    w, sets = _swept(now, settings.cached_sweeps, w, sets, chosen, told.slots)
    estimate = certify(now.formulation, now.task.terms, told.terms)
    added, overflow = np.sum(jax.device_get(found), axis=0).tolist()
    return w, sets, _Moved(added, overflow, estimate, gaps)


def _full(now: _Round, state: State) -> tuple[State, np.ndarray, np.ndarray]:
    settings, w, span = now.settings, state.weights, state.span
    if span is None:
        orders = in_order(now.task, settings)
        span = state.sets.multipliers
        w = _timed(
            now.seconds, "newton",
            lambda: _rebuilt(now.problem, now.task, state.sets, orders),
        )  # fmt: skip
    sigma = jnp.asarray(state.sigma, span.dtype)
    found = _timed(
        now.seconds, "newton",
        lambda: _newton(
            now.problem, settings.newton, now.task, w, span, state.sets, sigma, now.clock
        ),
    )  # fmt: skip
    solved = int(found.newton_steps) < settings.newton.newton_steps
    whole = float(found.length) > 0.9
    factor = 3.0 if solved and whole else 1.0 if whole else 0.3
    sigma = min(max(state.sigma * factor, 1.0), 1e8)
    state = State(found.weights, found.sets, found.span, sigma, state.clock, None, None)
    return state, np.asarray(found.primal_products), np.asarray(found.dual_products)


def _entered(sets: WorkingSets) -> int:
    """Planes of enumerated working sets whose multiplier has been positive."""
    return int(jnp.sum(sets.last_used > 0)) if is_enumerated(sets) else 0


def solves_fully(settings: Settings, sets: WorkingSets) -> bool:
    """Whether the rounds after the warm ones are of the full variant."""
    if settings.variant != "auto":
        return settings.variant == "full"
    if is_enumerated(sets):
        return sets.losses.size <= 2**18
    integers = sum(leaf.size for leaf in jax.tree.leaves(sets.outputs))
    return integers * settings.capacity <= 2**16 * sets.losses.shape[1]


def named_slots(settings: Settings, sets: WorkingSets) -> int:
    """How many active slots an example oracle calls name for sweeps; 0 where these see all."""
    smaller = settings.active < sets.losses.shape[1]
    return settings.active if smaller and not solves_fully(settings, sets) else 0


def _evicted(before: WorkingSets, after: WorkingSets, counts: passes.PassCounts) -> bool:
    """Whether a plane took the slot of another: a span that held it no longer makes its w."""
    if is_enumerated(after) or int(counts.added) == 0:
        return False
    grew = jnp.sum(after.occupied) - jnp.sum(before.occupied)
    return int(grew) < int(counts.added)


def _certified(
    now: _Round, state: State, epsilon: Array, products: tuple
) -> tuple[State, Certificate, np.ndarray, passes.PassCounts]:
    """One oracle call an example at w: (state, certificate, slack, counts)."""
    active = named_slots(now.settings, state.sets)
    before = _copied(state.sets)  # the program takes its buffers over
    told = _nothing_told(before.losses.shape[0], active, before.losses.dtype)
    orders = in_order(now.task, now.settings)
    sets, told, counts = _timed(
        now.seconds, "certify",
        lambda: _oracle(
            now.problem, now.oracle_options(active), now.task, state.weights, before, told,
            orders, whole(orders), epsilon, now.clock,
        ),
    )  # fmt: skip
    norm = coordinate_norm(now.problem, state.weights, now.task.inputs[0])
    certificate = certify(now.formulation, now.task.terms, told.terms, *products, norm)
    gaps = block_gaps(now.formulation, now.task.terms, told.terms) if state.span is None else None
    if state.span is not None and _evicted(state.sets, sets, counts):
        state = state._replace(span=None)
    state = state._replace(sets=sets, block_gaps=gaps, slots=told.slots if active else None)
    return state, certificate, np.asarray(told.terms.slack), counts


def _is_done(estimate: Certificate, goal: float, settled: float) -> bool:
    """Whether the calls of an exact pass say that the goal is met, or nothing at all."""
    unfinished = estimate.gap > goal * abs(estimate.primal)  # False if either is not a number
    return not unfinished or estimate.violation <= settled


def step(
    problem: Problem,
    task: Task,
    settings: Settings,
    formulation: Formulation,
    state: State,
    epsilon: float,
    goal: float = math.inf,
    settled: float = -math.inf,
) -> tuple[State, Info]:
    """One round; see the module.

    Args:
      problem, task, settings, formulation: the fixed side of the run.
      state: of `init` or of the last step.
      epsilon: planes are added where H(y_hat) > xi_i + epsilon.
      goal, settled: a round of grown working sets in the subspace variant is certified where its
        estimated relative gap is at most goal, its estimated violation at most settled, or its
        turn has come (`settings.certify_every`); any other round always is.
    """
    state = state._replace(clock=state.clock + 1)
    now = _round(problem, task, settings, formulation, state.clock)
    settings, examples = now.settings, _examples(task)
    threshold = jnp.asarray(epsilon, state.sets.losses.dtype)
    entered, enumerated = _entered(state.sets), is_enumerated(state.sets)
    products: tuple = (None, None)
    fully = solves_fully(settings, state.sets)
    added = overflow = calls = 0
    estimate = certificate = slack = None
    if fully and state.clock > settings.warm_passes:
        state, *products = _full(now, state)
    elif enumerated:
        w, sets = _enumerated_round(now, state)
        state = state._replace(weights=w, sets=sets, span=None)
    else:
        w, sets, moved = _grown_round(now, state, threshold)
        state = state._replace(weights=w, sets=sets, span=None, block_gaps=moved.gaps)
        added, overflow, estimate, calls = moved.added, moved.overflow, moved.estimate, examples
    due = state.clock % settings.certify_every == 0
    if fully or due or estimate is None or _is_done(estimate, goal, settled):
        state, certificate, slack, counts = _certified(now, state, threshold, products)
        overflow, calls = int(counts.overflow), calls + examples
        added += _entered(state.sets) - entered if enumerated else int(counts.added)
    info = Info(
        certificate, estimate if certificate is None else certificate, added, overflow, calls,
        now.seconds, slack,
    )  # fmt: skip
    return state, info


def certified(
    problem: Problem,
    task: Task,
    settings: Settings,
    formulation: Formulation,
    state: State,
    epsilon: float,
) -> tuple[State, Info]:
    """A certificate of the state as it is, w untouched; the planes that its calls meet are added.

    For a state that the last `step` did not certify, of the subspace variant.

    Args:
      as in `step`.
    """
    now = _round(problem, task, settings, formulation, state.clock)
    threshold = jnp.asarray(epsilon, state.sets.losses.dtype)
    state, certificate, slack, counts = _certified(now, state, threshold, (None, None))
    added, overflow = int(counts.added), int(counts.overflow)
    info = Info(certificate, certificate, added, overflow, _examples(task), now.seconds, slack)
    return state, info


def with_capacity(state: State, capacity: int) -> State:
    """The same state with more slots an example."""
    old = state.sets.losses.shape[1]
    span = None if state.span is None else jnp.pad(state.span, ((0, 0), (0, capacity - old)))
    return state._replace(sets=grown(state.sets, capacity), span=span)
