"""How a run of `fit` chooses, round by round: what enters, what is certified, when slots grow."""

from __future__ import annotations

import math

from jaxstruct.solvers.loop.host_loop import Rules, RunState
from jaxstruct.solvers.n_slack.state import Info
from jaxstruct.solvers.objective.certificate import Certificate


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
