"""The structured hinge: margin and slack re-scaled (thesis 3.6), by levels or additive.

    xi(theta) = max(0, max_{y != y_i} b(Delta) - s(Delta) (F(y_i; theta) - F(y; theta)))

with b and s of the formulations (Delta = Delta(y_i, y)):

    svm1_margin  b = Delta, s = 1        svm2_margin  the same with sqrt(Delta), and 1/2 xi^2
    svm1_slack   b = s = Delta           svm2_slack
    svm1         b = s = 1               svm2
"""

from __future__ import annotations

from functools import partial

import jax.numpy as jnp

from jaxstruct.core.checks import check_choice
from jaxstruct.core.contract import Problem
from jaxstruct.core.transposition import linear_leaves
from jaxstruct.core.types import Array, PyTree
from jaxstruct.losses.one_call import of_evaluation, with_slope
from jaxstruct.losses.validation import checked_example
from jaxstruct.solvers.objective.formulations import FORMULATIONS
from jaxstruct.solvers.objective.hinges import hinge, hinge_terms
from jaxstruct.solvers.objective.most_violated import oracle_for

NAMES = tuple(name for name in FORMULATIONS if name != "svm0")


def _evaluated(oracle: str, squared: bool, theta: PyTree, given: PyTree) -> tuple[Array, PyTree]:
    problem, terms, y = given
    found = hinge(problem, oracle, squared, terms, theta, y)
    return found.value, found.slope


def structured_hinge(
    problem: Problem, theta: PyTree, y: PyTree, formulation: str = "svm1_margin"
) -> Array:
    """The slack of one example as a loss of its potentials; see the module.

    Its gradient is s(Delta(y_hat)) (Psi-bar(y_hat) - Psi-bar(y_i)), times xi where the slack is
    squared, y_hat being the most violated output: a subgradient at ties, 0 where xi = 0. One search
    for y_hat is the oracle call, by the way that `fit` goes: a loss-augmented decode, all levels of
    the loss in one program, or for slack re-scaling without levels at most 16 decodes. Where the
    oracle is inexact (`Bounded`), xi is that of the output found, at most the true one, and the
    gradient is a subgradient up to that difference: xi(theta') >= xi(theta) + <gradient, theta' -
    theta> still holds for the true xi(theta'). `inference="relaxed"` of graphs is its own loss.

    Args:
      problem: the structure with its loss Delta.
      theta: problem.model.potentials(w, x) of ONE example; use jax.vmap or `mean_loss` for many.
      y: the true output as the problem has it, padded.
      formulation: "svm1_margin", "svm1_slack", "svm1", "svm2_margin", "svm2_slack" or "svm2".

    Returns:
      A scalar >= 0, convex in theta, in its dtype.

    Raises:
      ValueError: the formulation is none of these, the structure has no oracle for it, or theta and
        y are not of one example.

    Source: thesis 3.6 and algorithm 3; JMLR 2005, section 2.2.
    """
    check_choice("formulation", formulation, NAMES)
    theta, y = checked_example(problem, theta, y)
    chosen = FORMULATIONS[formulation]
    terms = hinge_terms(chosen, jnp.result_type(*linear_leaves(theta)))
    evaluated = partial(_evaluated, oracle_for(problem, chosen), chosen.penalty == 2)
    return with_slope(of_evaluation(evaluated), theta, (problem, terms, y))
