"""The cutting plane algorithm (thesis, algorithms 2 and 3): init, step, and what a step tells.

For people who own their loop; `fit` is the short way in. A step is one round on the host:
one pass that moves w (variant b: the exact pass and its cached sweeps; variant a: a proximal
Newton step on the dual over all working sets), then one oracle call an example at the new w, which
certifies it and adds the planes that it meets.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.solvers import passes
from jaxstruct.solvers.block_dual import SAFEGUARDS
from jaxstruct.solvers.certificate import Certificate, block_gaps, certify
from jaxstruct.solvers.formulations import Formulation
from jaxstruct.solvers.proximal_newton import NewtonOptions, proximal_newton_pass
from jaxstruct.solvers.working_sets import (
    WorkingSets,
    empty_working_sets,
    enumerated_working_sets,
    grown,
)
from jaxstruct.structures.problem import Problem
from jaxstruct.types import Array, PyTree


class Settings(NamedTuple):
    """How a run works; shape-like, so a change compiles anew.

    Fields:
      variant: "subspace" (algorithm 3, step 10b), "full" (10a, after `warm_passes` of 10b), or
        "auto": full where the working sets hold at most 2^18 slots in all.
      working_sets: "grown" by the oracle (algorithm 3), "enumerated" (every output of a small
        output space at hand from the start), or "auto": enumerated where the problem can.
      capacity: slots an example at the start; doubled when full, up to max_capacity.
      oracle_batch: examples that share one oracle call at one w in an exact pass.
      group: blocks solved side by side, a divisor of oracle_batch; 1 is plain sequential ascent.
      safeguard: what keeps a group an ascent: "line_search" or "box" ("none" is no ascent and is
        there to be studied).
      cached_sweeps: sweeps over the planes at hand in each round; a warm round of enumerated
        working sets that are cut down later makes one. With 0 every round of grown working sets is
        an exact pass alone.
      active: slots an example that later sweeps of enumerated working sets are restricted to,
        chosen anew by every oracle call; 0 for all of them.
      coverage: after the warm rounds a sweep visits the examples of the largest block gaps that
        make up this part of the duality gap.
      block_steps: pairwise steps a visit.
      warm_passes: subspace rounds before the first full one.
      newton: limits of a full step.
      seed: of the order of the examples.
    """

    variant: str = "auto"
    working_sets: str = "auto"
    capacity: int = 8
    max_capacity: int = 512
    oracle_batch: int = 64
    group: int = 16
    safeguard: str = "line_search"
    cached_sweeps: int = 2
    active: int = 8
    coverage: float = 0.99
    block_steps: int = 10
    warm_passes: int = 1
    newton: NewtonOptions = NewtonOptions()
    seed: int = 0

    def visit_options(self) -> passes.VisitOptions:
        """The part that a compiled visit depends on."""
        return passes.VisitOptions(self.group, self.safeguard, self.block_steps)


def check_settings(settings: Settings) -> None:
    """Raise ValueError where a setting does not fit."""
    choices = {
        "variant": ("auto", "subspace", "full"),
        "safeguard": SAFEGUARDS,
        "working_sets": ("auto", "grown", "enumerated"),
    }
    for name, allowed in choices.items():
        if getattr(settings, name) not in allowed:
            raise ValueError(f"{name} is {getattr(settings, name)!r}; choose one of {allowed}")
    least = {
        "oracle_batch": 1,
        "group": 1,
        "block_steps": 1,
        "capacity": 2,
        "max_capacity": 2,
        "cached_sweeps": 0,
        "warm_passes": 0,
        "active": 0,
    }
    for name, bound in least.items():
        if getattr(settings, name) < bound:
            zero_plane = " (the zero plane and one)" if bound == 2 else ""
            got = getattr(settings, name)
            raise ValueError(f"{name} must be at least {bound}{zero_plane}, got {got}")
    if settings.capacity > settings.max_capacity:
        raise ValueError(
            f"capacity {settings.capacity} exceeds max_capacity {settings.max_capacity}"
        )
    if settings.active in (1, 2):
        raise ValueError(f"active must be 0 (all slots) or at least 3, got {settings.active}")
    if not 0 < settings.coverage <= 1:
        raise ValueError(f"coverage must lie in (0, 1], got {settings.coverage}")
    if settings.oracle_batch % settings.group:
        raise ValueError(
            f"group must divide oracle_batch, got {settings.group} and {settings.oracle_batch}"
        )


class State(NamedTuple):
    """What the next step needs.

    Fields:
      weights: w, at which the oracle was last called.
      sets: the working sets with the dual variables beta.
      span: [N, K] with w = Phi span in the full variant; None where the next full step starts from
        beta itself (after a subspace round, or after a plane was evicted).
      sigma: proximal step length of the full variant.
      clock: rounds so far.
      block_gaps: [N] each example's part of the duality gap at the last oracle call, or None.
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
      certificate: primal, dual, violation and the rest, at the new w.
      planes_added: in this round. overflow: examples that had no slot for a violated output.
      oracle_calls: in this round. seconds: of each part, by name.
      slack: [N] slack of every (padded) example at w.
    """

    certificate: Certificate
    planes_added: int
    overflow: int
    oracle_calls: int
    seconds: dict[str, float]
    slack: np.ndarray


@jax.jit
def _enumerated(problem: Problem, task: passes.Task) -> WorkingSets:
    return enumerated_working_sets(problem, task.terms, task.inputs, task.outputs)


_exact = jax.jit(passes.exact_pass, static_argnums=1)
_cached = jax.jit(passes.cached_pass, static_argnums=1)
_oracle = jax.jit(passes.oracle_pass, static_argnums=1)
_rebuilt = jax.jit(passes.weights_of_multipliers)
_restricted = jax.jit(passes.restricted)
_merged = jax.jit(passes.merged)
_newton = jax.jit(proximal_newton_pass, static_argnums=1)


def enumerates(problem: Problem, settings: Settings) -> bool:
    """Whether the working sets hold every output from the start.

    Raises:
      ValueError: enumerated working sets are asked of a problem that cannot list its outputs, or
        of a run without sweeps.
    """
    if settings.working_sets == "enumerated" and problem.all_outputs is None:
        raise ValueError('working_sets is "enumerated", but the problem has no all_outputs')
    chosen = settings.working_sets != "grown" and problem.all_outputs is not None
    if chosen and settings.cached_sweeps == 0 and settings.variant != "full":
        raise ValueError(
            "cached_sweeps is 0, but enumerated working sets move by sweeps alone: give at least 1"
        )
    return chosen


def init(problem: Problem, task: passes.Task, settings: Settings) -> State:
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


def _selected(settings: Settings, state: State) -> np.ndarray:
    """The examples whose block gaps make up `coverage` of the whole, and a few more to fill."""
    gaps = state.block_gaps
    ranked = np.argsort(-gaps, kind="stable")
    total = np.cumsum(gaps[ranked])
    count = int(np.searchsorted(total, settings.coverage * total[-1])) + 1
    count = min(-(-count // settings.group) * settings.group, gaps.shape[0])
    return ranked[:count]


def _subspace(
    problem: Problem,
    task: passes.Task,
    settings: Settings,
    state: State,
    epsilon: Array,
    seconds: dict[str, float],
) -> tuple[State, int, int]:
    """(state, planes added, oracle calls); only warm rounds move w under the oracle."""
    n = task.terms.cap.shape[0]
    random = np.random.default_rng([settings.seed, state.clock])
    clock = jnp.int32(state.clock)
    w, sets, added, calls = state.weights, state.sets, 0, 0
    enumerated = sets.gram.shape[1] == 0
    warm = state.clock <= settings.warm_passes or state.block_gaps is None
    everyone = warm or settings.cached_sweeps == 0  # then exact passes are all there is
    chosen = np.arange(n) if everyone else _selected(settings, state)
    if everyone and not enumerated:
        order = jnp.asarray(random.permutation(n).reshape(-1, settings.oracle_batch), jnp.int32)
        w, sets, counts = _timed(
            seconds,
            "exact",
            lambda: _exact(problem, settings.visit_options(), task, w, sets, order, epsilon, clock),
        )
        added, calls = int(counts.added), n
    sweep = partial(_sweeps, problem, settings, clock, random, seconds)
    if everyone or state.slots is None:
        count = 1 if restricts(settings, state) else settings.cached_sweeps
        w, sets = sweep(count, task, w, sets, chosen)
    else:
        w, sets = _narrow_sweeps(task, settings, w, sets, chosen, state.slots, sweep)
    return state._replace(weights=w, sets=sets, span=None), added, calls


def _narrow_sweeps(
    task: passes.Task,
    settings: Settings,
    w: PyTree,
    sets: WorkingSets,
    chosen: np.ndarray,
    slots: Array,
    sweep: Callable,
) -> tuple[PyTree, WorkingSets]:
    """Sweeps over the active slots, after one over all slots of the blocks that carry many."""
    carried = np.asarray(jnp.sum(sets.multipliers > 0, axis=1))[chosen]
    count = int(np.sum(carried >= settings.active - 2))
    widest = chosen[np.argsort(-carried, kind="stable")]
    count = min(-(-count // settings.group) * settings.group, len(chosen))
    if count:
        w, sets = sweep(1, task, w, sets, widest[:count])
    of_part, part = _restricted(task, sets, slots)
    w, part = sweep(settings.cached_sweeps, of_part, w, part, chosen)
    return w, _merged(sets, part, slots)


def _sweeps(
    problem: Problem,
    settings: Settings,
    clock: Array,
    random: np.random.Generator,
    seconds: dict[str, float],
    count: int,
    task: passes.Task,
    w: PyTree,
    sets: WorkingSets,
    chosen: np.ndarray,
) -> tuple[PyTree, WorkingSets]:
    """Cached sweeps over the chosen examples, each in a new order."""
    order = np.zeros(task.terms.cap.shape[0], np.int32)
    options = settings.visit_options()
    for _ in range(count):
        order[: len(chosen)] = random.permutation(chosen)
        w, sets = _timed(
            seconds,
            "cached",
            partial(
                _cached,
                problem,
                options,
                task,
                w,
                sets,
                jnp.asarray(order),
                jnp.int32(len(chosen) // settings.group),
                clock,
            ),
        )
    return w, sets


def _full(
    problem: Problem, task: passes.Task, settings: Settings, state: State, seconds: dict[str, float]
) -> tuple[State, np.ndarray, np.ndarray]:
    w, span = state.weights, state.span
    if span is None:
        n = task.terms.cap.shape[0]
        order = jnp.arange(n, dtype=jnp.int32).reshape(-1, settings.oracle_batch)
        span = state.sets.multipliers
        w = _timed(seconds, "newton", lambda: _rebuilt(problem, task, state.sets, order))
    sigma = jnp.asarray(state.sigma, span.dtype)
    found = _timed(
        seconds,
        "newton",
        lambda: _newton(
            problem,
            settings.newton,
            task,
            w,
            span,
            state.sets,
            sigma,
            jnp.int32(state.clock),
        ),
    )
    solved = int(found.newton_steps) < settings.newton.newton_steps
    whole = float(found.length) > 0.9
    factor = 3.0 if solved and whole else 1.0 if whole else 0.3
    sigma = min(max(state.sigma * factor, 1.0), 1e8)
    state = State(found.weights, found.sets, found.span, sigma, state.clock, None, None)
    return state, np.asarray(found.primal_products), np.asarray(found.dual_products)


def _entered(sets: WorkingSets) -> int:
    """Planes of enumerated working sets whose multiplier has been positive."""
    return 0 if sets.gram.shape[1] else int(jnp.sum(sets.last_used > 0))


def solves_fully(settings: Settings, state: State) -> bool:
    """Whether the rounds after the warm ones are of the full variant."""
    few = state.sets.losses.size <= 2**18
    return settings.variant == "full" or (settings.variant == "auto" and few)


def restricts(settings: Settings, state: State) -> bool:
    """Whether sweeps after the warm rounds see only the active slots of enumerated sets."""
    enumerated = state.sets.gram.shape[1] == 0
    smaller = 0 < settings.active < state.sets.losses.shape[1]
    return enumerated and smaller and not solves_fully(settings, state)


def _evicted(before: WorkingSets, after: WorkingSets, counts: passes.PassCounts) -> bool:
    """Whether a plane took the slot of another: a span that held it no longer makes its w."""
    if after.gram.shape[1] == 0 or int(counts.added) == 0:
        return False
    grew = jnp.sum(after.occupied) - jnp.sum(before.occupied)
    return int(grew) < int(counts.added)


def step(
    problem: Problem,
    task: passes.Task,
    settings: Settings,
    formulation: Formulation,
    state: State,
    epsilon: float,
) -> tuple[State, Info]:
    """One round; see the module. Planes are added where H(y_hat) > xi_i + epsilon."""
    seconds: dict[str, float] = {}
    n = task.terms.cap.shape[0]
    dtype = state.sets.losses.dtype
    state = state._replace(clock=state.clock + 1)
    entered = _entered(state.sets)
    products: tuple = (None, None)
    added = overflow = calls = 0
    threshold = jnp.asarray(epsilon, dtype)
    if solves_fully(settings, state) and state.clock > settings.warm_passes:
        state, *products = _full(problem, task, settings, state, seconds)
    else:
        state, added, calls = _subspace(problem, task, settings, state, threshold, seconds)
    order = jnp.arange(n, dtype=jnp.int32).reshape(-1, settings.oracle_batch)
    active = settings.active if restricts(settings, state) else 0
    sets, terms, counts, slots = _timed(
        seconds,
        "oracle",
        lambda: _oracle(
            problem,
            active,
            task,
            state.weights,
            state.sets,
            order,
            threshold,
            jnp.int32(state.clock),
        ),
    )
    overflow = int(counts.overflow)
    added += int(counts.added) if sets.gram.shape[1] else _entered(sets) - entered
    certificate = certify(formulation, task.terms, terms, *products)
    info = Info(certificate, added, overflow, calls + n, seconds, np.asarray(terms.slack))
    gaps = block_gaps(formulation, task.terms, terms) if state.span is None else None
    if state.span is not None and _evicted(state.sets, sets, counts):
        state = state._replace(span=None)
    return state._replace(sets=sets, block_gaps=gaps, slots=slots if active else None), info


def with_capacity(state: State, capacity: int) -> State:
    """The same state with more slots an example."""
    old = state.sets.losses.shape[1]
    span = None if state.span is None else jnp.pad(state.span, ((0, 0), (0, capacity - old)))
    return state._replace(sets=grown(state.sets, capacity), span=span)
