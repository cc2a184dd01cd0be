"""The log loss: -log P(y_i | x) = log Z(theta) - F(y_i; theta), a random field's."""

from __future__ import annotations

import jax

from jaxstruct.core.contract import Problem
from jaxstruct.core.derived_inference import checked_inference
from jaxstruct.core.types import Array, PyTree
from jaxstruct.losses.one_call import Loss, with_slope
from jaxstruct.losses.validation import checked_example


def _value(theta: PyTree, given: PyTree) -> Array:
    problem, y = given
    return problem.inference.log_loss(theta, y)


def _evaluated(theta: PyTree, given: PyTree) -> tuple[Array, PyTree]:
    problem, y = given
    return jax.value_and_grad(problem.inference.log_loss, allow_int=True)(theta, y)


def log_loss(problem: Problem, theta: PyTree, y: PyTree) -> Array:
    """-log P(y_i | x) = log sum_y exp F(y; theta) - F(y_i; theta) of one example.

    Its gradient is E_P Psi-bar(y) - Psi-bar(y_i), marginals less the true parts. One run of the
    forward-backward, inside-outside, pair-forward or elimination algorithm is the oracle call; of
    classes, candidates and other listed outputs a sum over the list. Memory holds one gradient in
    theta and no messages until the backward pass.

    Args:
      problem: a structure with `inference.log_loss`: classes, chains, trees, alignments,
        candidates, sets of labels, graphs (on inputs with plans, or by `graphs.with_log_loss` with
        an approximation), and any with `oracles.all_outputs`; Delta plays no part.
      theta: problem.model.potentials(w, x) of ONE example. y: its true output, padded.

    Returns:
      A scalar, convex in theta where `inference.facts.convex`; >= 0 where it is exact. Where
      P(y_i | x) = 0, since constraints forbid y_i or x has no output at all, it is +inf and its
      gradient is 0: `problem.check(x, y)` refuses such examples before a training.

    Raises:
      ValueError: the structure has no log loss, or theta and y are not of
        one example.

    Source: J. Lafferty, A. McCallum and F. Pereira, "Conditional random fields", ICML 2001.
    """
    theta, y = checked_example(problem, theta, y)
    checked_inference(problem, "log_loss")
    return with_slope(Loss(_value, _evaluated), theta, (problem, y))
