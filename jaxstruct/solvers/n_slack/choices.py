"""How a run of `fit` chooses, round by round: which variant of algorithm 3, which slots sweeps see,
what enters, what is certified, when slots grow."""

from __future__ import annotations

import math

import jax
import numpy as np

from jaxstruct.solvers.loop.host_loop import Rules, RunState
from jaxstruct.solvers.n_slack.state import Info, State
from jaxstruct.solvers.n_slack.working_sets import WorkingSets, is_enumerated
from jaxstruct.solvers.objective.certificate import Certificate
from jaxstruct.solvers.objective.formulations import Formulation
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


def named_slots(settings: ResolvedSettings, sets: WorkingSets) -> int:
    """How many active slots an example oracle calls name for sweeps; 0 where these see all."""
    return settings.active if settings.active < sets.losses.shape[1] else 0


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
