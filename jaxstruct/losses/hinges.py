"""The structured hinge (thesis 3.6), and the margin re-scaled one with its maximum smoothed.

    xi(theta) = max(0, max_{y != y_i} b(Delta) - s(Delta) (F(y_i; theta) - F(y; theta)))

with b and s of the formulations (Delta = Delta(y_i, y)):

    svm1_margin  b = Delta, s = 1        svm2_margin  the same with sqrt(Delta), and 1/2 xi^2
    svm1_slack   b = s = Delta           svm2_slack
    svm1         b = s = 1               svm2

The hinge of svm1_margin is smoothed by entropy, or by the k best outputs. With s(y) = Delta(y_i, y)
+ F(y; theta) - F(y_i; theta) the hinge of svm1_margin is max_y s(y), or max over probabilities p of
sum_y p(y) s(y). A strictly concave term makes it smooth:

    entropy  max_p sum_y p(y) s(y) + mu H(p)            = mu log sum_y exp(s(y) / mu)
    top_k    max_p sum_y p(y) s(y) + mu/2 (1 - |p|^2),  p on the k outputs of the largest s
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

from jaxstruct.core.checks import check_choice, checked_number, checked_size
from jaxstruct.core.contract import Problem, output_of
from jaxstruct.core.derived_inference import checked_inference
from jaxstruct.core.transposition import linear_leaves
from jaxstruct.core.types import Array, PyTree
from jaxstruct.losses.one_call import Loss, of_evaluation, with_slope
from jaxstruct.losses.validation import checked_example
from jaxstruct.solvers.objective.formulations import FORMULATIONS
from jaxstruct.solvers.objective.most_violated import hinge, hinge_terms, oracle_for

NAMES = tuple(name for name in FORMULATIONS if name != "svm0")


def _evaluated_hinge(
    oracle: str, squared: bool, theta: PyTree, given: PyTree
) -> tuple[Array, PyTree]:
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
    evaluated = partial(_evaluated_hinge, oracle_for(problem, chosen), chosen.penalty == 2)
    return with_slope(of_evaluation(evaluated), theta, (problem, terms, y))


SMOOTHINGS = ("entropy", "top_k")


def _onto_simplex(values: Array, real: Array) -> Array:
    """[K] the probabilities nearest to the values among those real; the first is real."""
    ordered = jnp.sort(jnp.where(real, values, -jnp.inf), descending=True)
    ranks = jnp.arange(1, len(values) + 1)
    sums = jnp.cumsum(jnp.where(ordered > -jnp.inf, ordered, 0))
    excess = (sums - 1) / ranks
    count = jnp.sum(ordered > excess)
    return jnp.where(real, jnp.maximum(values - excess[count - 1], 0), 0)


def _top_k(k: int, theta: PyTree, given: PyTree) -> tuple[Array, PyTree]:
    problem, y_true, temperature = given
    y = output_of(y_true)
    outputs, real = problem.inference.augmented_k_best(theta, y_true, k)
    outputs = jax.tree.map(lambda leaf, true: _with_truth(leaf, true, real), outputs, y)
    losses = jax.vmap(problem.model.loss, (None, 0))(y_true, outputs)
    s = losses + problem.space.plane_scores(theta, outputs) - problem.model.score(theta, y)
    top = jnp.max(jnp.where(real, s, -jnp.inf))
    p = _onto_simplex((s - top) / temperature, real)
    value = jnp.sum(p * s) + temperature / 2 * (1 - jnp.sum(p * p))
    planes = jax.tree.map(lambda a, b: jnp.append(a, b[None].astype(a.dtype), axis=0), outputs, y)
    return value, problem.space.combine(theta, planes, jnp.append(p, -jnp.sum(p)))


def _with_truth(leaf: Array, true: Array, real: Array) -> Array:
    """Outputs with the true one in the places of those that there are not."""
    there = real.reshape(-1, *[1] * true.ndim)
    return jnp.where(there, leaf, true[None].astype(leaf.dtype))


def _entropy(theta: PyTree, given: PyTree) -> Array:
    problem, y, temperature = given
    return problem.inference.softmax_margin(theta, y, temperature)


def _entropy_and_slope(theta: PyTree, given: PyTree) -> tuple[Array, PyTree]:
    problem, y, temperature = given
    of_theta = jax.value_and_grad(problem.inference.softmax_margin, allow_int=True)
    return of_theta(theta, y, temperature)


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
    they change. For listed outputs, chains, trees and graphs (on inputs with plans).

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
    if smoothing == "entropy":
        checked_inference(problem, "softmax_margin")
        loss = Loss(_entropy, _entropy_and_slope)
    else:
        checked_inference(problem, "augmented_k_best")
        loss = of_evaluation(partial(_top_k, k))
    return with_slope(loss, theta, (problem, y, temperature))
