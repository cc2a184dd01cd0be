"""Validation of what losses take: a problem, the potentials and the output of one example."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxstruct.core.checks import text_of
from jaxstruct.core.contract import Problem, output_of
from jaxstruct.core.transposition import linear_leaves
from jaxstruct.core.types import PyTree


def checked_problem(problem: Problem) -> Problem:
    """The problem.

    Raises:
      ValueError: it is none.
    """
    if not isinstance(problem, Problem):
        raise ValueError(
            f"problem must be a jaxstruct.Problem, got {text_of(problem)}: such as "
            "jaxstruct.chains.chain(..) or what make_problem returns"
        )
    return problem


def _shapes(tree: PyTree) -> str:
    return text_of([tuple(leaf.shape) for leaf in jax.tree.leaves(tree)])


def checked_example(problem: Problem, theta: PyTree, y: PyTree) -> tuple[PyTree, PyTree]:
    """(theta, y) of ONE example as arrays of JAX.

    Raises:
      ValueError: problem is none; theta has no floating-point leaf; theta and y are not such that
        problem.model.score(theta, y) is a scalar, as where they have a batch axis.
    """
    checked_problem(problem)
    theta, y = jax.tree.map(jnp.asarray, (theta, y))
    if not linear_leaves(theta):
        raise ValueError(
            f"theta must hold floating-point potentials, got {text_of(theta)}: give what "
            "problem.model.potentials(w, x) returns"
        )
    try:
        score = jax.eval_shape(problem.model.score, theta, output_of(y))
        fits = score.shape == ()
    except Exception as error:
        raise _not_one_example(theta, y) from error
    if not fits:
        raise _not_one_example(theta, y)
    return theta, y


def _not_one_example(theta: PyTree, y: PyTree) -> ValueError:
    return ValueError(
        f"theta and y must be those of ONE example of the problem, got leaves of shapes "
        f"{_shapes(theta)} and {_shapes(y)}: take theta of problem.model.potentials(w, x) and its "
        "y, with jax.vmap or mean_loss over a batch"
    )
