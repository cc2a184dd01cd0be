"""The cutting plane algorithm (thesis, algorithms 2 and 3): init, step, and what a step returns.

For people who own their loop; `fit` is the short way in. A step is one round on the host. It moves
w by an exact pass (variant b: propose outputs, insert those that violate, sweep over the planes at
hand), by sweeps alone where all outputs are at hand, or by a proximal Newton step on the dual over
all working sets (variant a). Then, where it is worth it, one oracle call an example at the new w
certifies it and adds the planes that it meets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.compiling import time_part
from jaxstruct.core.types import AnyArray, PyTree
from jaxstruct.solvers.n_slack import rounds
from jaxstruct.solvers.n_slack.oracle_pass import Calls, OracleReport, PassCounts
from jaxstruct.solvers.n_slack.proximal_newton import NEWTON_STEPS
from jaxstruct.solvers.n_slack.run import Info, OneDevice, Run, State, named_slots, own_weights
from jaxstruct.solvers.n_slack.working_sets import (
    WorkingSets,
    empty_working_sets,
    enumerated_program,
    extend,
    is_enumerated,
    widened,
)
from jaxstruct.solvers.objective.certificate import Certificate, ExampleTerms, coordinate_norm
from jaxstruct.solvers.objective.formulations import Formulation
from jaxstruct.solvers.objective.scaling import Scaled, least_multiple, multiple, ray_of
from jaxstruct.solvers.settings import ResolvedSettings

STALL_ROUNDS = 10
"""Block ascent has stalled where so many rounds did not halve the relative gap: at C = 1000 on 20
points that are not separable 3,000 passes left 1e-4, Newton steps reach 1e-9 in about 15."""

FEW_NEW, EVERY = 0.1, 2
"""Where a round still finds planes for more than this part of the examples, they may be what lacks:
of such rounds every second one counts. 1,000 knapsacks of 32 items, C / n = 100, find some in every
round: without a count of these ascent left .55 after 140 rounds."""

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
    gaps = np.full(STALL_ROUNDS, np.inf) if state.gaps is None else state.gaps
    grows = added > FEW_NEW * examples and not is_enumerated(state.sets)
    if grows and state.clock % EVERY:
        return state
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


def is_done(estimate: Certificate, goal: float, settled: float) -> bool:
    """Whether the calls of an exact pass say that the goal is met, or nothing at all."""
    found = estimate.primal_found
    unfinished = found - estimate.dual > goal * abs(found)  # False if either is not a number
    return not unfinished or estimate.violation_found <= settled


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


NEARLY_WHOLE = 0.9
"""A Newton step of so much of its length was hardly cut by the line search."""

LONGER, SHORTER, LONGEST = 3.0, 0.3, 1e8
"""How the proximal step grows after a step that was solved and taken nearly whole, and shrinks
after one that was cut; past the longest its term in the dual is below the rounding of float32."""

MOST = 0.5
"""Of the gap. One sentence of 22 words, C = 100, carries 120 planes: 180 rounds with all slots,
more than 500 with 24. 300 Spanish sentences have few rows that carry so many, and do not ask."""


def enumerated_round(now: rounds.OpenRound, state: State) -> tuple[PyTree, WorkingSets]:
    """Sweeps over all rows and slots at first, later over those that matter."""
    settings, place, w, sets = now.run.settings, now.run.placement, state.weights, state.sets
    every = rounds.every_slot(now)
    gaps = None if state.clock <= settings.warm_passes else state.block_gaps
    if gaps is None or state.slots is None:
        visited = place.real_rows if gaps is None else rounds.covering(settings, gaps)
        count = 1 if named_slots(settings, sets) else settings.cached_sweeps
        return rounds.sweep(now, count, w, sets, visited, every)
    chosen = rounds.covering(settings, gaps)
    widest = rounds.widest_of(now, sets, chosen)
    if len(widest):  # the planes beyond the active slots move here only
        w, sets = rounds.sweep(now, 1, w, sets, widest, every)
    return rounds.sweep(now, settings.cached_sweeps, w, sets, chosen, state.slots)


class Moved(NamedTuple):
    """What a grown round leaves beside w and the sets.

    report: what the calls said of each example, each at the w it met; estimate: of them.
    """

    added: int
    overflow: int
    estimate: Certificate
    gaps: np.ndarray
    report: OracleReport


def cached_sweeps(
    now: rounds.OpenRound, w: PyTree, sets: WorkingSets, gaps: np.ndarray, slots: AnyArray
) -> tuple[PyTree, WorkingSets]:
    """Cached sweeps over the rows of the largest gaps and the slots that matter.

    All slots do where most of the gap is of rows that carry more planes than there are active ones.
    """
    settings, chosen = now.run.settings, rounds.covering(now.run.settings, gaps)
    if named_slots(settings, sets) and MOST * np.sum(gaps) < np.sum(
        gaps[rounds.widest_of(now, sets, chosen)]
    ):
        slots = rounds.every_slot(now)
    return rounds.sweep(now, settings.cached_sweeps, w, sets, chosen, slots)


def grown_round(
    now: rounds.OpenRound, state: State, epsilon: AnyArray, cached: bool = True
) -> tuple[PyTree, WorkingSets, Moved]:
    """The exact pass of algorithm 3 chunk by chunk, then sweeps over the slots that matter.

    Args:
      cached: whether these sweeps are made.
    """
    place, w = now.run.placement, state.weights
    sets = (
        state.sets if now.takes_over else rounds.copy_arrays(state.sets)
    )  # programs take them over
    report = rounds.report_on(now, sets)
    shuffled = rounds.shuffle(now)
    orders = place.join([tuple(jax.device_put(own)) for own in shuffled])
    found = []
    for chunk in rounds.chunks_of(now, shuffled):
        calls = Calls(orders, place.join(chunk.spans), epsilon, now.clock)
        # propose and insert: one oracle call an example of the chunk, what violates enters
        sets, report, counts = rounds.call_oracles(now, "oracle", w, sets, report, calls)
        found.append(counts)
        w, sets = rounds.sweep(now, 1, w, sets, chunk.rows, report.slots)
    estimate, terms = now.certified(report)
    gaps = now.gaps(terms)
    if cached:
        w, sets = cached_sweeps(now, w, sets, gaps, report.slots)
    added, overflow = np.sum(jax.device_get(found), axis=0).tolist()
    return w, sets, Moved(added, overflow, estimate, gaps, report)


def full_round(now: rounds.OpenRound, state: State) -> tuple[State, np.ndarray, np.ndarray]:
    """One proximal Newton step: (state, terms of |w|^2, terms of |Phi beta|^2)."""
    place = now.run.placement
    w, span = (None, state.sets.multipliers) if state.span is None else (state.weights, state.span)
    given = w, span, state.sets, np.asarray(state.sigma, span.dtype), now.clock
    found = time_part(now.seconds, "newton", partial(place.newton, *given))
    solved = int(found.newton_steps) < NEWTON_STEPS
    whole = float(found.length) > NEARLY_WHOLE
    factor = LONGER if solved and whole else 1.0 if whole else SHORTER
    sigma = min(max(state.sigma * factor, 1.0), LONGEST)
    state = State(
        found.weights, found.sets, found.span, sigma, state.clock, None, None, state.gaps, 1
    )
    products = place.own((found.primal_products, found.dual_products))
    return state, *place.gathered(products)


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


def slack_of(place: OneDevice, report: OracleReport) -> np.ndarray:
    """The slacks of all rows of this host, in the order of buckets."""
    return ExampleTerms.of_columns(place.in_buckets(report.numbers)).slack


def _certify(
    now: rounds.OpenRound, state: State, epsilon: AnyArray, products: tuple, own: bool,
    proves: bool = False,
) -> tuple[State, Info]:  # fmt: skip
    """One oracle call an example at w: (state, what it says).

    own: whether nobody else holds the working sets of the state. proves: of `call_oracles`.
    """
    run, place = now.run, now.run.placement
    before = state.sets if own else rounds.copy_arrays(state.sets)  # the program takes them over
    sets, report, counts = rounds.call_all(now, "certify", state.weights, before, epsilon, proves)
    norm = coordinate_norm(place.problem, state.weights, place.task.inputs[0])
    certificate, terms = now.certified(report, *products, norm, place.off_by)
    if state.span is not None and _has_evicted(run, state.sets, sets, counts):
        state = state._replace(span=None)
    gaps = now.gaps(terms) if state.span is None else None
    slots = report.slots if named_slots(run.settings, sets) else None
    state = state._replace(sets=sets, block_gaps=gaps, slots=slots)
    ray = ray_of(run.formulation, place.terms, terms, *products)
    slack = slack_of(place, report)
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
    now, examples = rounds.open_round(run, state.clock, takes_over), run.placement.examples
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
        said = moved.estimate, moved.added, moved.overflow, run.placement.examples
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
    now = rounds.open_round(run, state.clock)
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
    now, place, ray = rounds.open_round(run, state.clock), run.placement, info.ray
    dtype, sets = state.sets.losses.dtype, state.sets
    none_enters = np.asarray(np.inf, dtype)

    def at(c: float) -> Scaled:
        nonlocal sets
        c = float(dtype.type(c))
        w = multiple(state.weights, c)
        sets, report, _ = rounds.call_all(now, "certify", w, sets, none_enters)
        norm = coordinate_norm(place.problem, w, place.task.inputs[0])
        certificate, terms = now.certified(report, *ray.products(c), norm, place.off_by)
        slack = slack_of(place, report)
        return Scaled(c, certificate._replace(scale=c), terms, slack)

    def alike(numbers: Sequence[float]) -> list[float]:
        return place.processes.gather_numbers(numbers)[0].tolist()

    passes = least_multiple(ray, at, wanted, alike)
    return state._replace(sets=sets), passes, now.seconds


def with_capacity(run: Run, state: State, capacity: int) -> State:
    """The same state with more slots an example."""
    place, more = run.placement, capacity - state.sets.losses.shape[1]
    sets = extend(place.own(state.sets), capacity)
    span = None if state.span is None else widened(place.own(state.span), more, (1,))
    return state._replace(sets=place.put(sets), span=place.put(span))
