"""The slack of one example as a loss of its potentials, with a subgradient.

    l = xi = max(0, max_y b(Delta) - s(Delta) (F(y_i) - F(y)))     linear slack
    l = 1/2 xi^2                                                   squared slack

with b and s of `formulations`. Where y_hat attains a positive maximum, s (Psi-bar(y_hat) -
Psi-bar(y_i)) is a subgradient of xi in theta, Psi-bar(y) being d score(., y) / d theta.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxstruct.core.contract import Problem
from jaxstruct.core.problem import difference
from jaxstruct.core.transposition import scaled
from jaxstruct.core.types import Array, PyTree
from jaxstruct.solvers.objective.formulations import Formulation, Penalty, penalty, power_of_loss
from jaxstruct.solvers.objective.most_violated import most_violated


class Hinge(NamedTuple):
    """The loss of one example.

    Fields:
      value: l of the output that was found. bound: at least l; the value of an exact oracle.
      slope: a subgradient in theta, shaped as theta, its integers in place.
    """

    value: Array
    bound: Array
    slope: PyTree


def hinge_terms(formulation: Formulation, dtype: str | np.dtype) -> Penalty:
    """The numbers of a formulation for `hinge`; C and the dual play no part."""
    terms = penalty(formulation, 1.0, np.ones(1), 1, str(np.dtype(dtype)))
    return terms._replace(cap=jnp.ones((), dtype), ridge=jnp.zeros((), dtype))


def hinge(
    problem: Problem, oracle: str, squared: bool, terms: Penalty, theta: PyTree, y: PyTree
) -> Hinge:
    """The slack of ONE example, by one search for the most violated output.

    Args:
      problem: the structure. oracle: static, of `oracle_for`.
      squared: static, whether the slack is squared. terms: of `hinge_terms`.
      theta, y: the potentials and the true output.
    """
    found = most_violated(problem, oracle, terms, theta, y)
    slack, bound = (jnp.maximum(value, 0) for value in (found.value, found.bound))
    factor = jnp.where(found.value > 0, -power_of_loss(found.loss, terms.scale_power), 0)
    if squared:
        factor, slack, bound = factor * slack, slack * slack / 2, bound * bound / 2
    return Hinge(slack, bound, scaled(difference(problem, theta, y, found.output), factor))
