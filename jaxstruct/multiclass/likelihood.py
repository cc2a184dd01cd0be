"""The conditional likelihood of one class: multinomial logistic regression.

    P(y | x) = exp(F(x, y; w)) / sum_r exp(F(x, r; w))

with Psi(x, y) = Phi(x) (x) Lambda(y), as the slides have it ("Factor Graph for Classification").
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxstruct.core.contract import Problem
from jaxstruct.core.types import Array


def class_likelihood(problem: Problem, theta: Array, y: Array) -> Array:
    """-log P(y | x) = log sum_r exp(F(x, r) - F(x, y)) of one input.

    Args:
      problem: made by `multiclass` or `kernel_multiclass`; its losses play no part.
      theta: [k] the scores of the classes, problem.model.potentials(w, x).
      y: int32 scalar, the true class.

    Returns:
      A scalar >= 0, convex in theta.

    Raises:
      ValueError: theta is none of a multiclass problem.

    Source: slides, "Multi-class logistic regression".
    """
    del problem
    if not isinstance(theta, jax.Array) or theta.ndim != 1:
        raise ValueError(
            f"theta must be the scores [k] of a multiclass problem, got {type(theta).__name__}: "
            "give the likelihood of its own structure"
        )
    return jax.nn.logsumexp(theta - jnp.take(theta, y))
