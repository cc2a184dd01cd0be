"""A loss of potentials whose forward pass makes one oracle call and whose backward pass makes none.

The gradient of every loss here is a sum of Psi-bar(y) = d score(theta, y) / d theta over a few
outputs, or over marginals: known as soon as the oracle has answered. The forward pass keeps it,
shaped as theta; the backward pass multiplies it by the cotangent. No oracle is differentiated.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.contract import Problem, output_of
from jaxstruct.core.derived_inference import checked_inference
from jaxstruct.core.problem import difference
from jaxstruct.core.transposition import is_linear, scaled
from jaxstruct.core.types import Array, PyTree
from jaxstruct.losses.validation import checked_example


class Loss(NamedTuple):
    """What a loss computes, as functions of (theta, given).

    Fields:
      value: -> l, where no gradient is asked for.
      value_and_slope: -> (l, its slope in theta, shaped as theta; what stands at integers is not
        read).
    """

    value: Callable[[PyTree, PyTree], Array]
    value_and_slope: Callable[[PyTree, PyTree], tuple[Array, PyTree]]


def of_evaluation(evaluate: Callable[[PyTree, PyTree], tuple[Array, PyTree]]) -> Loss:
    """The loss whose value takes the same oracle call as its slope."""
    return Loss(lambda theta, given: evaluate(theta, given)[0], evaluate)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def with_slope(loss: Loss, theta: PyTree, given: PyTree) -> Array:
    """l(theta), whose gradient is the slope that the loss returns.

    Args:
      loss: static.
      theta: the potentials of ONE example; its floating-point leaves have gradients.
      given: what else the loss reads, such as the problem and the true output; it has none.

    Returns:
      A scalar with first derivatives in reverse mode only; JAX raises an error for any other.
    """
    return loss.value(theta, given)


def _forward(loss: Loss, theta: PyTree, given: PyTree) -> tuple[Array, PyTree]:
    value, slope = loss.value_and_slope(theta, given)
    return value, jax.tree.map(lambda leaf, u: u if is_linear(leaf) else None, theta, slope)


def _backward(loss: Loss, slope: PyTree, cotangent: Array) -> tuple[PyTree, None]:
    del loss
    return jax.tree.map(lambda u: (cotangent * u).astype(u.dtype), slope), None


with_slope.defvjp(_forward, _backward)


def _log_loss(theta: PyTree, given: PyTree) -> Array:
    problem, y = given
    return problem.inference.log_loss(theta, y)


def _log_loss_evaluated(theta: PyTree, given: PyTree) -> tuple[Array, PyTree]:
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
    return with_slope(Loss(_log_loss, _log_loss_evaluated), theta, (problem, y))


def _excess(theta: PyTree, given: PyTree) -> tuple[Array, PyTree]:
    problem, y = given
    best = problem.model.decode(theta)
    excess = problem.model.score(theta, best) - problem.model.score(theta, y)
    factor = jnp.where(excess > 0, -1, 0).astype(excess.dtype)
    return jnp.maximum(excess, 0), scaled(difference(problem, theta, y, best), factor)


_PERCEPTRON = of_evaluation(_excess)


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
