"""The cutting plane algorithm (thesis, algorithms 2 and 3): init, step, and what a step returns.

For people who own their loop; `fit` is the short way in. A step is one round on the host:
one pass that moves w (variant b: the exact pass and its cached sweeps; variant a: a proximal
Newton step on the dual over all working sets), then, where it is worth it, one oracle call an
example at the new w, which certifies it and adds the planes that it meets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.types import AnyArray
from jaxstruct.solvers.loop.host_loop import Rules, RunState
from jaxstruct.solvers.n_slack.oracle_pass import PassCounts
from jaxstruct.solvers.n_slack.rounds import (
    OpenRound,
    call_all,
    copy_arrays,
    enumerated_round,
    full_round,
    grown_round,
    open_round,
)
from jaxstruct.solvers.n_slack.run import Info, Run, State, named_slots, own_weights
from jaxstruct.solvers.n_slack.working_sets import (
    WorkingSets,
    empty_working_sets,
    enumerated_program,
    extend,
    is_enumerated,
    widened,
)
from jaxstruct.solvers.objective.certificate import Certificate, coordinate_norm
from jaxstruct.solvers.objective.formulations import Formulation
from jaxstruct.solvers.objective.scaling import Scaled, least_multiple, multiple, ray_of
from jaxstruct.solvers.settings import ResolvedSettings

STALL_ROUNDS = 10
"""Block ascent has stalled where so many rounds did not halve the relative gap: at C = 1000 on 20
points that are not separable 3,000 passes left 1e-4, Newton steps reach 1e-9 in about 15."""

FEW_NEW = 0.1
"""Where a round still finds planes for more than this part of the examples, they are what lacks."""

MOST_SLOTS, MOST_INTEGERS = 2**18, 2**16
"""Enumerated slots in all, and integers of grown outputs a slot, that Newton steps are tried on. On
more they take seconds where a sweep takes tens of milliseconds (CLINC150, 2.3 million slots)."""

FEW_INTEGERS, FAR = 2**13, 1e-2
"""With more integers a slot than these a run below this relative gap makes no first Newton step: 80
homologue pairs need a few rounds more there, and compiling it took 20 seconds. 1,000 shortest paths
of 40 edges, C / n = 100, stall at .4: 500 rounds of ascent left .011, 82 with Newton steps .001."""


def may_solve_fully(settings: ResolvedSettings, sets: WorkingSets) -> bool:
    """Whether a run may make full rounds: its settings say so, or their size allows it."""
    if settings.variant != "auto":
        return settings.variant == "full"
    if is_enumerated(sets):
        return sets.losses.size <= MOST_SLOTS
    return _integers(sets) <= MOST_INTEGERS


def _integers(sets: WorkingSets) -> float:
    """Of outputs, a slot of all examples."""
    return sum(leaf.size for leaf in jax.tree.leaves(sets.outputs)) / sets.losses.shape[1]


def with_gap(state: State, gap: float, added: int, examples: int) -> State:
    """The state with the relative gap of its round, the oldest of the last ones forgotten.

    Args:
      gap: of this round. added: planes that it found. examples: of how many.
    """
    none = np.full(STALL_ROUNDS, np.inf)
    if added > FEW_NEW * examples and not is_enumerated(state.sets):
        return state._replace(gaps=none)
    gaps = none if state.gaps is None else state.gaps
    return state._replace(gaps=np.append(gaps[1:], gap))


def solves_fully(settings: ResolvedSettings, formulation: Formulation, state: State) -> bool:
    """Whether the round of this clock is of the full variant: from the stall of block ascent on.

    Without a slack there is no cap, and block ascent crawls from the first round on.
    """
    if settings.variant == "full":
        return state.clock > settings.warm_passes
    if not may_solve_fully(settings, state.sets):
        return False
    if state.full or (formulation.penalty == 0 and state.clock > settings.warm_passes):
        return True
    gaps, grown = state.gaps, not is_enumerated(state.sets)
    if gaps is None or (grown and _integers(state.sets) > FEW_INTEGERS and gaps[-1] < FAR):
        return False
    return bool(np.isfinite(gaps[0]) and gaps[-1] > gaps[0] / 2)


def threshold_of(rules: Rules, primal: float) -> float:
    """Planes are added above this violation: small enough for the gap that is wanted.

    Args:
      rules: when the run ends. primal: of `primal_of`.
    """
    wanted = math.inf if rules.epsilon is None else rules.epsilon
    if rules.tolerance is None:
        return wanted
    scale = 1.0 if rules.hard or not math.isfinite(primal) else min(1.0, primal / rules.C)
    return min(wanted, rules.tolerance * scale / 4)


def worth_certifying(
    rules: Rules, primal: float, threshold: float, clock: int
) -> tuple[float, float]:
    """The estimated relative gap and the violation at which a round is; any in the last round.

    The violation counts for the rule of epsilon, and while a hard margin is not met.

    Args:
      rules: when the run ends. primal: of `primal_of`. threshold: of `threshold_of`.
      clock: rounds so far.
    """
    if clock + 1 >= rules.max_passes:
        return math.inf, math.inf
    if rules.hard and not math.isfinite(primal):
        return -math.inf, threshold
    goal = -math.inf if rules.tolerance is None else 1.5 * rules.tolerance
    return goal, -math.inf if rules.epsilon is None else rules.epsilon


def is_done(estimate: Certificate, goal: float, settled: float) -> bool:
    """Whether the calls of an exact pass say that the goal is met, or nothing at all."""
    found = estimate.primal_found
    unfinished = found - estimate.dual > goal * abs(found)  # False if either is not a number
    return not unfinished or estimate.violation_found <= settled


def primal_of(now: RunState) -> float:
    """The best certified primal, or before there is one the last estimate."""
    return now.best.primal if math.isfinite(now.best.primal) else now.estimate


def wants_growth(info: Info, n: int) -> bool:
    """Whether too many of n examples had no slot for a violated output."""
    return info.overflow > 0.02 * n or (info.overflow > 0 and info.planes_added < info.overflow)


def init(run: Run) -> State:
    """The state before the first step: w = 0, empty working sets.

    Args:
      run: of `prepare_run`.
    """
    problem, settings, states = run.problem, run.settings, []
    dtype = jnp.result_type(*jax.tree.leaves(problem.initial_weights))
    for part in run.placement.parts:
        if settings.enumerated:
            sets = enumerated_program(problem, part.terms, part.inputs, part.outputs)
        else:
            sets = empty_working_sets(part.outputs, settings.capacity, str(dtype))
        states.append(State(own_weights(problem), sets, None, 30.0, 0, None))
    return run.placement.begin(states)


def _count_entered(run: Run, sets: WorkingSets) -> int:
    """Planes of enumerated working sets whose multiplier has been positive."""
    if not is_enumerated(sets):
        return 0
    return int(run.placement.processes.total(np.sum(run.placement.own(sets.last_used) > 0)))


def _has_evicted(run: Run, before: WorkingSets, after: WorkingSets, counts: PassCounts) -> bool:
    """Whether a plane took the slot of another: a span that held it no longer makes its w."""
    if is_enumerated(after) or int(counts.added) == 0:
        return False
    place = run.placement
    held = [
        int(place.processes.total(np.sum(place.own(sets.occupied)))) for sets in (before, after)
    ]
    return held[1] - held[0] < int(counts.added)


def _certify(
    now: OpenRound, state: State, epsilon: AnyArray, products: tuple, own: bool,
    proves: bool = False,
) -> tuple[State, Info]:  # fmt: skip
    """One oracle call an example at w: (state, what it says).

    own: whether nobody else holds the working sets of the state. proves: of `call_oracles`.
    """
    run, place = now.run, now.run.placement
    before = state.sets if own else copy_arrays(state.sets)  # the program takes them over
    sets, report, counts = call_all(now, "certify", state.weights, before, epsilon, proves)
    norm = coordinate_norm(place.problem, state.weights, place.task.inputs[0])
    certificate, terms = now.certified(report, *products, norm, place.off_by)
    if state.span is not None and _has_evicted(run, state.sets, sets, counts):
        state = state._replace(span=None)
    gaps = now.gaps(terms) if state.span is None else None
    slots = report.slots if named_slots(run.settings, sets) else None
    state = state._replace(sets=sets, block_gaps=gaps, slots=slots)
    ray = ray_of(run.formulation, place.terms, terms, *products)
    slack = place.in_buckets(report.terms.slack)
    added, overflow = int(counts.added), int(counts.overflow)
    found = certificate, certificate, added, overflow, place.examples, now.seconds, slack, ray
    return state, Info(*found)


def relative_gap(certificate: Certificate) -> float:
    """(P - D) / |P| over what the oracle found; infinite where P is."""
    found = certificate.primal_found
    gap = (found - certificate.dual) / abs(found) if found and math.isfinite(found) else math.inf
    return gap if math.isfinite(gap) else math.inf


def step(
    run: Run,
    state: State,
    epsilon: float,
    *,
    goal: float = math.inf,
    settled: float = -math.inf,
    takes_over: bool = False,
) -> tuple[State, Info]:
    """One round; see the module.

    Args:
      run: of `prepare_run`.
      state: of `init` or of the last step.
      epsilon: planes are added where H(y_hat) > xi_i + epsilon.
      goal, settled: a round of grown working sets in the subspace variant is certified where its
        estimated relative gap is at most goal, its estimated violation at most settled, or its
        turn has come (`settings.certify_every`); any other round always is.
      takes_over: whether the working sets of `state` may be used up, which nobody may read then;
        otherwise they are copied.

    Returns:
      (state, info); `info.certificate` is None in a round that was not certified.
    """
    state = state._replace(clock=state.clock + 1)
    now, examples = open_round(run, state.clock, takes_over), run.placement.examples
    threshold = np.asarray(epsilon, state.sets.losses.dtype)
    entered, enumerated = _count_entered(run, state.sets), is_enumerated(state.sets)
    products = (None, None)
    fully = solves_fully(run.settings, run.formulation, state)
    info = None
    if fully:
        state, *found = full_round(now, state)
        products = tuple(found)
    elif enumerated:
        w, sets = enumerated_round(now, state)
        state = state._replace(weights=w, sets=sets, span=None)
    else:
        w, sets, moved = grown_round(now, state, threshold)
        state = state._replace(weights=w, sets=sets, span=None, block_gaps=moved.gaps)
        said = moved.estimate, moved.added, moved.overflow, moved.calls
        info = Info(None, *said, now.seconds, None)
    due = state.clock % run.settings.certify_every == 0
    if fully or due or info is None or is_done(info.estimate, goal, settled):
        own = not fully and (takes_over or not enumerated)
        state, proved = _certify(now, state, threshold, products, own)
        added = _count_entered(run, state.sets) - entered if enumerated else proved.planes_added
        calls = proved.oracle_calls
        if info is not None:
            added, calls = added + info.planes_added, calls + info.oracle_calls
        info = proved._replace(planes_added=added, oracle_calls=calls)
    return with_gap(state, relative_gap(info.estimate), info.planes_added, examples), info


def certify_state(
    run: Run,
    state: State,
    epsilon: float,
    products: tuple[np.ndarray | None, np.ndarray | None] = (None, None),
    proves: bool = False,
) -> tuple[State, Info]:
    """A certificate of the state as it is, w untouched; the planes that its calls meet are added.

    For a state that the last `step` did not certify, of the subspace variant, or whose w is
    somebody's own.

    Args:
      products: terms of |w|^2 and of |sum beta phi|^2, where w is another one.
      proves: whether the oracle that proves more is called, where there is one. The rest as in
        `step`.
    """
    now = open_round(run, state.clock)
    threshold = np.asarray(epsilon, state.sets.losses.dtype)
    return _certify(now, state, threshold, products, False, proves)


def least_multiple_of(
    run: Run, state: State, info: Info, wanted: float
) -> tuple[State, list[Scaled], dict[str, float]]:
    """Certificates of multiples of w, until P of one is at most wanted or none can be.

    Args:
      run: of `prepare_run`. state, info: of the last `step`, which was certified; the working sets
        of the state may be used up.

    Returns:
      (the same state, the passes in order, their seconds by part).
    """
    if info.ray is None:
        return state, [], {}
    now, place, ray = open_round(run, state.clock), run.placement, info.ray
    dtype, sets = state.sets.losses.dtype, state.sets
    none_enters = np.asarray(np.inf, dtype)

    def at(c: float) -> Scaled:
        nonlocal sets
        c = float(dtype.type(c))
        w = multiple(state.weights, c)
        sets, report, _ = call_all(now, "certify", w, sets, none_enters)
        norm = coordinate_norm(place.problem, w, place.task.inputs[0])
        certificate, terms = now.certified(report, *ray.products(c), norm, place.off_by)
        slack = place.in_buckets(report.terms.slack)
        return Scaled(c, certificate._replace(scale=c), terms, slack)

    def alike(numbers: Sequence[float]) -> list[float]:
        return place.processes.gather_numbers(numbers)[0].tolist()

    passes = least_multiple(ray, at, wanted, alike)
    return state._replace(sets=sets), passes, now.seconds


def with_capacity(state: State, capacity: int) -> State:
    """The same state with more slots an example."""
    old = state.sets.losses.shape[1]
    span = None if state.span is None else widened(state.span, capacity - old, (1,))
    return state._replace(sets=extend(state.sets, capacity), span=span)
