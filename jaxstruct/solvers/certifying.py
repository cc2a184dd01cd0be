"""`certify`: what is proven of weights of one's own."""

from __future__ import annotations

import math
import textwrap
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.checks import text_of
from jaxstruct.core.contract import Problem
from jaxstruct.core.status import MESSAGES, Status
from jaxstruct.core.types import PyTree
from jaxstruct.solvers.fit import Training, train
from jaxstruct.solvers.loop.host_loop import in_callers_order
from jaxstruct.solvers.n_slack import cutting_plane
from jaxstruct.solvers.n_slack.run import State
from jaxstruct.solvers.objective.certificate import Certificate, coordinate_norm, proven
from jaxstruct.solvers.objective.formulations import Formulation, Objective
from jaxstruct.solvers.prepare import checked_rules, open_run
from jaxstruct.solvers.settings import Settings
from jaxstruct.solvers.solution import WIDTH, Solution
from jaxstruct.solvers.validation.checks import FINEST, check_weights
from jaxstruct.solvers.validation.oracle_rules import confirm

DEFAULTS = Settings()
SHARE = 0.1
"""Of the tolerance: how close the dual is brought to the optimum where the weights are not."""


class Certified(NamedTuple):
    """What is proven of weights w: attained >= optimum >= dual, up to certificate.rounding.

    P(w) exceeds the optimum by at least primal - attained and by at most gap.

    Fields:
      status: CONVERGED where the gap, with its rounding, is within the tolerance; NOT_OPTIMAL where
        training has solved the problem and the gap is not; otherwise how the training ended.
      message: the status in words.
      certificate: of w; its dual is the best that training found.
      slack: [n] xi_i = max(0, max_y H_i(y)) at w. attained: the smallest primal met, P(w) included.
    """

    status: Status
    message: str
    certificate: Certificate
    slack: np.ndarray
    attained: float

    @property
    def primal(self) -> float:
        """P(w); of svm0 that of w times certificate.scale."""
        return self.certificate.primal

    @property
    def dual(self) -> float:
        """The best D of the planes met."""
        return self.certificate.dual

    @property
    def gap(self) -> float:
        """P(w) - D."""
        return self.certificate.gap

    @property
    def violation(self) -> float:
        """max_i max_y H_i(y) - xi_i, with xi_i the slack over the planes met."""
        return self.certificate.violation

    def __str__(self) -> str:
        """A few lines without arrays."""
        return "\n".join(
            [
                *textwrap.wrap(f"{self.status}: {self.message}", WIDTH),
                f"primal {self.primal:.6g}, dual {self.dual:.6g}, gap {self.gap:.6g} (rounding "
                f"{self.certificate.rounding:.1e}), violation {self.violation:.3g}",
                f"smallest primal met {self.attained:.6g}, {len(self.slack)} examples",
            ]
        )


def _status(solution: Solution, found: Certificate, attained: float, tolerance: float) -> Status:
    if math.isnan(found.primal) or not math.isfinite(found.dual):
        return Status.NOT_FINITE
    if found.missed > 0 or solution.status is Status.WRONG_ORACLE:
        return Status.WRONG_ORACLE
    within = proven(found.gap, found.rounding, tolerance * abs(found.primal))
    if within is not False:
        return Status.CONVERGED if within else Status.ROUNDING
    allowance = tolerance * abs(found.primal_found)
    if found.oracle == "bounded" and found.primal_found - found.dual <= allowance:
        return Status.INEXACT_ORACLE
    if solution.status.solved or found.primal_found - attained > allowance + found.rounding:
        return Status.NOT_OPTIMAL
    stopped = solution.status is Status.STOPPED  # it was within, until the multipliers' rounding
    return Status.ROUNDING if stopped else solution.status


def certify(
    problem: Problem,
    weights: PyTree,
    inputs: PyTree,
    outputs: PyTree,
    formulation: str | Formulation = "svm1_margin",
    C: float = 1.0,
    *,
    tolerance: float = 1e-3,
    example_weights: np.ndarray | None = None,
    settings: Settings = DEFAULTS,
    max_passes: int = 500,
) -> Certified:
    """How far weights of one's own are from the optimum of a formulation: P(w) >= optimum >= D.

    P(w) = 1/2 |w|^2 + (C/n) sum_i v_i xi_i for svm1, + (C/2n) sum_i v_i xi_i^2 for svm2, with
    xi_i = max(0, max_y H_i(y)) of one oracle call an example at w; for svm0 1/2 |w|^2 / m^2 with m
    the least margin, infinite where w does not separate. D is the best dual of `fit`, which trains
    until it proves w, or lies within a tenth of the tolerance of the optimum. Rounding is counted
    as there.

    Args:
      weights: w, a pytree as problem.initial_weights, from wherever it comes.
      tolerance: w is proven where P(w) - D <= tolerance |P(w)|; greater than 0.
      problem, inputs, outputs, formulation, C, example_weights, settings, max_passes: of `fit`.

    Returns:
      A Certified.

    Raises:
      ValueError: as `fit`; or weights are of another problem, or are no coordinates (coefficients
        of kernel values), whose |w|^2 does not follow from them.
    """
    if tolerance is None:
        raise ValueError(f"tolerance must be a number greater than 0, got {text_of(tolerance)}")
    given = problem, formulation, C, tolerance, None, max_passes
    formulation, rules = checked_rules(*given, settings=settings)
    check_weights(problem, weights)
    weights = jax.tree.map(jnp.asarray, weights)
    objective = Objective(problem, inputs, outputs, formulation, C, example_weights)
    run = open_run(objective, settings)
    norm = coordinate_norm(problem, weights, run.task.inputs[0])
    if norm is None:
        raise ValueError(
            "weights of this problem are no coordinates, but coefficients of kernel values, so "
            "that |w|^2 does not follow from them: certify takes weights of primal features"
        )

    def at_weights(state: State, proves: bool) -> tuple[Certificate, np.ndarray]:
        state = state._replace(weights=weights, span=None)
        products = np.array([norm]), np.zeros(1)  # of D nothing is asked here
        info: Any = cutting_plane.certify_state(run, state, 0.0, products, proves)[1]
        return info.certificate, in_callers_order(info.slack, run.rows)

    # P(w) needs one pass; D does not depend on w, so a training raises it until it proves them.
    first, _ = at_weights(cutting_plane.init(run), False)
    allowance = tolerance * abs(first.primal)
    finest = FINEST[str(jnp.result_type(*jax.tree.leaves(weights)))]
    solution = train(
        Training(run, rules._replace(tolerance=max(SHARE * tolerance, finest))),
        lambda seen: proven(first.primal - seen.dual, first.rounding, allowance),
    )
    last, slack = at_weights(solution.state, True)
    certificate = last._replace(
        dual=solution.dual,
        relaxed_gap=last.relaxed_gap + last.dual - solution.dual,
        margin_bound=solution.certificate.margin_bound,
        rounding=max(last.rounding, solution.certificate.rounding),
    )
    attained = min(certificate.primal, solution.primal)
    status = _status(solution, certificate, attained, tolerance)
    status = confirm(status, problem, formulation, run.sample, weights)
    return Certified(status, MESSAGES[status], certificate, slack, attained)
