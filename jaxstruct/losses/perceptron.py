"""The perceptron's loss: l(theta) = max_y F(y; theta) - F(y_i; theta) (slides; Collins 2002)."""

from __future__ import annotations

import jax.numpy as jnp

from jaxstruct.core.contract import Problem, output_of
from jaxstruct.core.problem import difference
from jaxstruct.core.transposition import scaled
from jaxstruct.core.types import Array, PyTree
from jaxstruct.losses.one_call import of_evaluation, with_slope
from jaxstruct.losses.validation import checked_example


def _evaluated(theta: PyTree, given: PyTree) -> tuple[Array, PyTree]:
    problem, y = given
    best = problem.model.decode(theta)
    excess = problem.model.score(theta, best) - problem.model.score(theta, y)
    factor = jnp.where(excess > 0, -1, 0).astype(excess.dtype)
    return jnp.maximum(excess, 0), scaled(difference(problem, theta, y, best), factor)


_PERCEPTRON = of_evaluation(_evaluated)


def perceptron(problem: Problem, theta: PyTree, y: PyTree) -> Array:
    """How much the best output scores above the true one: max_y F(y; theta) - F(y_i; theta).

    Its gradient is Psi-bar(y_hat) - Psi-bar(y_i) with y_hat the decoded output, 0 where none scores
    above y_i. The oracle call is one decode. It asks for no margin and Delta plays no part: theta =
    0 is a minimum, so begin elsewhere or prefer `structured_hinge`. Where the decode is inexact,
    the loss is that of the output found; where that scores below y_i, it is 0.

    Args:
      problem: the structure.
      theta: problem.model.potentials(w, x) of ONE example. y: its true output, padded.

    Returns:
      A scalar >= 0, convex in theta.

    Raises:
      ValueError: theta and y are not of one example.

    Source: M. Collins, "Discriminative training methods for hidden Markov models", EMNLP 2002.
    """
    theta, y = checked_example(problem, theta, output_of(y))
    return with_slope(_PERCEPTRON, theta, (problem, y))
