"""The margin re-scaled hinge with its maximum smoothed: by entropy, or by the k best outputs.

With s(y) = Delta(y_i, y) + F(y; theta) - F(y_i; theta) the hinge of svm1_margin is max_y s(y), or
max over probabilities p of sum_y p(y) s(y). A strictly concave term makes it smooth:

    entropy  max_p sum_y p(y) s(y) + mu H(p)            = mu log sum_y exp(s(y) / mu)
    top_k    max_p sum_y p(y) s(y) + mu/2 (1 - |p|^2),  p on the k outputs of the largest s
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct import chains, graphs, trees
from jaxstruct.core.checks import check_choice, checked_number, checked_size
from jaxstruct.core.contract import Problem
from jaxstruct.core.types import Array, PyTree
from jaxstruct.losses import output_lists
from jaxstruct.losses.doors import checked_example
from jaxstruct.losses.log_loss import value_and_slope
from jaxstruct.losses.one_call import Loss, of_evaluation, with_slope

SMOOTHINGS = ("entropy", "top_k")


class _Ways(NamedTuple):
    """softmax_margin: (problem, theta, y, temperature) -> l. k_best: (problem, theta, y, k) ->
    (outputs[k], which of them there are); None where the wing has none."""

    softmax_margin: Callable
    k_best: Callable | None


_OF_THETA = {
    chains.ChainTheta: _Ways(chains.softmax_margin, chains.augmented_k_best),
    trees.TreeTheta: _Ways(trees.softmax_margin, trees.augmented_k_best),
    graphs.GraphTheta: _Ways(graphs.softmax_margin, None),
}
_LISTED = _Ways(output_lists.listed_softmax_margin, output_lists.listed_augmented_k_best)


def _ways_of(problem: Problem, theta: PyTree) -> _Ways:
    """What a structure has.

    Raises:
      ValueError: nothing.
    """
    found = _OF_THETA.get(type(theta))
    if found is None and output_lists.is_listed(problem, theta):
        found = _LISTED
    if found is None:
        raise ValueError(
            f"smoothed_hinge serves classes, candidates, chains, trees and graphs, got theta of "
            f"type {type(theta).__name__}: take perturbed, which needs the argmax alone"
        )
    return found


def _onto_simplex(values: Array, real: Array) -> Array:
    """[K] the probabilities nearest to the values among those real; the first is real."""
    ordered = jnp.sort(jnp.where(real, values, -jnp.inf), descending=True)
    ranks = jnp.arange(1, len(values) + 1)
    sums = jnp.cumsum(jnp.where(ordered > -jnp.inf, ordered, 0))
    excess = (sums - 1) / ranks
    count = jnp.sum(ordered > excess)
    return jnp.where(real, jnp.maximum(values - excess[count - 1], 0), 0)


def _top_k(k_best: Callable, k: int, theta: PyTree, given: PyTree) -> tuple[Array, PyTree]:
    problem, y, temperature = given
    outputs, real = k_best(problem, theta, y, k)
    outputs = jax.tree.map(lambda leaf, true: _with_truth(leaf, true, real), outputs, y)
    s = output_lists.augmented_advantages(problem, theta, y, outputs)
    top = jnp.max(jnp.where(real, s, -jnp.inf))
    p = _onto_simplex((s - top) / temperature, real)
    value = jnp.sum(p * s) + temperature / 2 * (1 - jnp.sum(p * p))
    planes = jax.tree.map(lambda a, b: jnp.append(a, b[None].astype(a.dtype), axis=0), outputs, y)
    return value, problem.space.combine(theta, planes, jnp.append(p, -jnp.sum(p)))


def _with_truth(leaf: Array, true: Array, real: Array) -> Array:
    """Outputs with the true one in the places of those that there are not."""
    there = real.reshape(-1, *[1] * true.ndim)
    return jnp.where(there, leaf, true[None].astype(leaf.dtype))


def _entropy(ways: _Ways, theta: PyTree, given: PyTree) -> Array:
    problem, y, temperature = given
    return ways.softmax_margin(problem, theta, y, temperature)


def _entropy_and_slope(ways: _Ways, theta: PyTree, given: PyTree) -> tuple[Array, PyTree]:
    problem, y, temperature = given

    def smoothed(problem: Problem, theta: PyTree, y: PyTree) -> Array:
        return ways.softmax_margin(problem, theta, y, temperature)

    return value_and_slope(smoothed, problem, theta, y)


def smoothed_hinge(
    problem: Problem,
    theta: PyTree,
    y: PyTree,
    smoothing: str = "entropy",
    temperature: float = 1.0,
    k: int = 5,
) -> Array:
    """The hinge of svm1_margin with its maximum smoothed; see the module.

    entropy: l is in [hinge, hinge + mu log |Y|]; with mu = 1 it is the softmax margin, with mu -> 0
    the hinge, with Delta = 0 mu times the log loss of theta / mu. Its gradient is E_p Psi-bar(y) -
    Psi-bar(y_i) by one run of loss-augmented marginals. For classes, candidates and other listed
    outputs with any loss; for chains, trees and graphs (on inputs with plans) with an additive one.

    top_k: l is in [hinge, hinge + mu / 2]; p is sparse, and its gradient sum_k p_k Psi-bar(y_k) -
    Psi-bar(y_i) by one loss-augmented k-best. Where the last of the k has p = 0, l and its gradient
    are those of all outputs, however many k; else of the k best alone, and the gradient jumps where
    they change. For listed outputs, chains and trees; graphs have no k-best.

    Args:
      problem: the structure with its loss Delta.
      theta: problem.model.potentials(w, x) of ONE example. y: its true output, padded.
      smoothing: "entropy" or "top_k".
      temperature: mu > 0, static or traced. k: outputs of top_k, static; fewer if there are fewer.

    Returns:
      A scalar >= 0, up to rounding; convex in theta by entropy, and by top_k where k is enough.

    Raises:
      ValueError: an argument does not fit, or the structure has no such oracle.

    Source: K. Pillutla, V. Roulet, S. Kakade and Z. Harchaoui, "A smoother way to train structured
    prediction models", NeurIPS 2018; K. Gimpel and N. Smith, "Softmax-margin CRFs", NAACL 2010.
    """
    theta, y = checked_example(problem, theta, y)
    check_choice("smoothing", smoothing, SMOOTHINGS)
    k = checked_size("k", k)
    if not isinstance(temperature, jax.Array):
        temperature = checked_number("temperature", temperature, strict=True)
    ways = _ways_of(problem, theta)
    if smoothing == "entropy":
        loss = Loss(partial(_entropy, ways), partial(_entropy_and_slope, ways))
    elif ways.k_best is None:
        raise ValueError(
            'smoothing="top_k" needs the k best outputs, which graphs do not tell: take '
            'smoothing="entropy" on inputs with plans, or perturbed'
        )
    else:
        loss = of_evaluation(partial(_top_k, ways.k_best, k))
    return with_slope(loss, theta, (problem, y, temperature))
