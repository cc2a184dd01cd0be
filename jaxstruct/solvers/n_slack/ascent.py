"""How a training goes round by round, over one run or its blocks: thresholds, growth, proofs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from jaxstruct.solvers.loop.host_loop import Method, Round, Rules, RunState, searched
from jaxstruct.solvers.n_slack.run import Info
from jaxstruct.solvers.objective.scaling import Scaled
from jaxstruct.solvers.settings import ResolvedSettings


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


def primal_of(now: RunState) -> float:
    """The best certified primal, or before there is one the last estimate."""
    return now.best.primal if math.isfinite(now.best.primal) else now.estimate


def wants_growth(info: Info, n: int) -> bool:
    """Whether too many of n examples had no slot for a violated output."""
    return info.overflow > 0.02 * n or (info.overflow > 0 and info.planes_added < info.overflow)


class Ascent(NamedTuple):
    """What a training says to `method_of`; states are its own, with weights and a clock.

    Fields:
      rules, min_margin, settings: of the run.
      n: how many examples there are. weighted: how many of them have a weight.
      step: (state, threshold, goal=, settled=) -> (state, Info), one round.
      certify: (state, threshold) -> (state, Info), of the state as it is.
      search: (state, Info, wanted) -> (state, passes, seconds), of `least_multiple`.
      prove: (state, threshold, Info) -> (state, Info), by an oracle that proves more, or None.
      capacity: state -> slots an example. grow: (state, capacity) -> state.
      reach: state -> the longest |phi| of the planes at hand.
    """

    rules: Rules
    min_margin: float
    settings: ResolvedSettings
    n: int
    weighted: int
    step: Callable[..., tuple[Any, Info]]
    certify: Callable[[Any, float], tuple[Any, Info]]
    search: Callable[[Any, Info, float], tuple[Any, list[Scaled], dict[str, float]]]
    prove: Callable[[Any, float, Info], tuple[Any, Info]] | None
    capacity: Callable[[Any], int]
    grow: Callable[[Any, int], Any]
    reach: Callable[[Any], float]

    def round_of(self, state: Any, info: Info) -> tuple[Any, Round]:
        """The state after a round, and the round as the host loop sees it."""
        full = self.capacity(state) >= self.settings.max_capacity
        estimate = info.estimate
        return state, Round(
            certificate=info.certificate,
            primal=estimate.primal,
            dual=estimate.dual,
            planes_added=info.planes_added,
            oracle_calls=info.oracle_calls,
            clock=state.clock,
            seconds=info.seconds,
            weights=state.weights,
            slack=info.slack,
            stuck=bool(full and info.overflow and not info.planes_added),
            least_margin=self.min_margin * self.reach(state) if self.rules.hard else 0.0,
            info=info,
            state=state,
        )


def method_of(ascent: Ascent) -> Method:
    """The training as the host loop runs it."""
    rules = ascent.rules

    def step(now: RunState) -> tuple[Any, Round]:
        primal = primal_of(now)
        threshold = threshold_of(rules, primal)
        goal, settled = worth_certifying(rules, primal, threshold, now.state.clock)
        return ascent.round_of(*ascent.step(now.state, threshold, goal=goal, settled=settled))

    def certify(now: RunState) -> tuple[Any, Round]:
        return ascent.round_of(*ascent.certify(now.state, threshold_of(rules, primal_of(now))))

    def prove(now: RunState, found: Round) -> tuple[Any, Round]:
        if ascent.prove is None or found.info.ray is None:  # w = 0
            return now.state, found._replace(planes_added=0, oracle_calls=0)
        threshold = threshold_of(rules, primal_of(now))
        return ascent.round_of(*ascent.prove(now.state, threshold, found.info))

    def rescale(now: RunState, found: Round, wanted: float) -> tuple[Any, Round]:
        search = ascent.search(now.state, found.info, wanted)
        return search[0], searched(found, ascent.weighted, *search)

    def adapt(state: Any, found: Round) -> Any:
        capacity, most = ascent.capacity(state), ascent.settings.max_capacity
        if capacity >= most or not wants_growth(found.info, ascent.n):
            return state
        return ascent.grow(state, min(2 * capacity, most))

    return Method(step, certify, adapt, rescale, prove if ascent.prove else None)
