"""Losses of potentials whose forward pass calls the oracle and whose backward pass does not.

The gradient of every loss here is a sum of Psi-bar(y) = d score(theta, y) / d theta over a few
outputs, or over marginals: known as soon as the oracle has answered. The forward pass keeps it,
shaped as theta; the backward pass multiplies it by the cotangent. No oracle is differentiated.

Beside log loss and perceptron the perturbed loss, Fenchel-Young by perturb-and-MAP:

    l(theta) = 1/M sum_m max_y F(y; theta + sigma Z_m) - F(y_i; theta + sigma Z_m)

with Z_m of independent Gumbel numbers of mean 0, one for every entry of every table of potentials.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.checks import checked_number, checked_size, text_of
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


def _noisy(theta: PyTree, key: Array, scale: Array) -> PyTree:
    """theta + sigma Z; integers pass through."""
    leaves, structure = jax.tree.flatten(theta)
    keys = jax.random.split(key, len(leaves))

    def moved(leaf: Array, key: Array) -> Array:
        if not is_linear(leaf):
            return leaf
        noise = jax.random.gumbel(key, leaf.shape, leaf.dtype) - np.euler_gamma
        return leaf + (scale * noise).astype(leaf.dtype)

    moves = [moved(leaf, key) for leaf, key in zip(leaves, keys, strict=True)]
    return jax.tree.unflatten(structure, moves)


def _evaluated(theta: PyTree, given: PyTree) -> tuple[Array, PyTree]:
    problem, y, keys, scale = given

    def of_sample(key: Array) -> tuple[Array, PyTree]:
        noisy = _noisy(theta, key, scale)
        best = problem.model.decode(noisy)
        return problem.model.score(noisy, best) - problem.model.score(noisy, y), best

    excess, best = jax.vmap(of_sample)(keys)
    shares = jnp.where(excess > 0, 1 / keys.shape[0], 0).astype(excess.dtype)
    planes = jax.tree.map(lambda a, b: jnp.append(a, b[None].astype(a.dtype), axis=0), best, y)
    shares_and_truth = jnp.append(shares, -jnp.sum(shares))
    slope = problem.space.combine(theta, planes, shares_and_truth)
    return jnp.mean(jnp.maximum(excess, 0)), slope


_PERTURBED = of_evaluation(_evaluated)


def _checked_key(key: Array) -> Array:
    """One key of jax.random.

    Raises:
      ValueError: it is none, or several.
    """
    wanted = "key must be ONE key of jax.random, as of jax.random.key(0)"
    dtype, shape = getattr(key, "dtype", None), getattr(key, "shape", None)
    typed = dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key)
    if not typed and (dtype != np.uint32 or shape is None or len(shape) != 1):
        raise ValueError(f"{wanted}, got {text_of(key)}: jax.random.split makes one an example")
    if typed and shape != ():
        raise ValueError(f"{wanted}, got keys of shape {shape}: use jax.vmap over examples")
    return key


def perturbed(
    problem: Problem, theta: PyTree, y: PyTree, key: Array, samples: int = 8, scale: float = 1.0
) -> Array:
    """The mean perceptron loss under noisy potentials: an estimate of a Fenchel-Young loss.

    What it estimates: E_Z [max_y F(y; theta + sigma Z)] - F(y_i; theta), without bias, since Z has
    mean 0 and enters both terms. That is the Fenchel-Young loss of theta and y_i up to a constant
    of y_i; it is convex and smooth in theta, and its gradient E [Psi-bar(y_hat(theta + sigma Z))] -
    Psi-bar(y_i) is estimated without bias, too. For a fixed key l is exactly the mean written in
    the module, and the gradient exactly its (sub)gradient.

    The model behind it is perturb-and-MAP, not P(y | x) = exp(F) / Z. Both are one for classes:
    with sigma = 1, E l is `log_loss`. For chains and graphs, where every label of every position or
    node has noise of its own, E l with sigma = 1 is at least `log_loss` (tables that positions
    share, such as transitions, are moved alike for all of them). For trees and alignments, whose
    tables are shared throughout, it is noise of the model's weights, and no such bound holds.

    All samples are decoded in one batched call. Where the decode is inexact, a sample whose output
    scores below y_i counts as y_i.

    Args:
      problem: the structure; Delta plays no part.
      theta: problem.model.potentials(w, x) of ONE example. y: its true output, padded.
      key: of jax.random, another one for every example and every step.
      samples: M >= 1, static; memory holds M noisy theta. scale: sigma > 0, static or traced.

    Returns:
      A scalar >= 0.

    Raises:
      ValueError: an argument does not fit.

    Source: Q. Berthet, M. Blondel, O. Teboul, M. Cuturi, J.-P. Vert and F. Bach, "Learning with
    differentiable perturbed optimizers", NeurIPS 2020; G. Papandreou and A. Yuille,
    "Perturb-and-MAP random fields", ICCV 2011; for the bound T. Hazan and T. Jaakkola, "On the
    partition function and random maximum a-posteriori perturbations", ICML 2012.
    """
    theta, y = checked_example(problem, theta, output_of(y))
    keys = jax.random.split(_checked_key(key), checked_size("samples", samples))
    if not isinstance(scale, jax.Array):
        scale = checked_number("scale", scale, strict=True)
    return with_slope(_PERTURBED, theta, (problem, y, keys, scale))
