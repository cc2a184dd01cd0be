"""Which variant of algorithm 3 a round is of, and which slots its sweeps see."""

from __future__ import annotations

import jax
import numpy as np

from jaxstruct.solvers.n_slack.state import State
from jaxstruct.solvers.n_slack.working_sets import WorkingSets, is_enumerated
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
