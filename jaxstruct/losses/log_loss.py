"""The log loss: -log P(y_i | x) = log Z(theta) - F(y_i; theta), a random field's."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax

from jaxstruct import alignments, chains, graphs, trees
from jaxstruct.core.checks import text_of
from jaxstruct.core.contract import Problem
from jaxstruct.core.types import Array, PyTree
from jaxstruct.losses.doors import checked_example
from jaxstruct.losses.one_call import Loss, with_slope
from jaxstruct.losses.output_lists import is_listed, listed_likelihood

Likelihood = Callable[[Problem, PyTree, PyTree], Array]
"""(problem, theta, y) -> -log P(y | x) of one example, differentiable in theta."""

_OF_THETA = {
    chains.ChainTheta: chains.chain_likelihood,
    trees.TreeTheta: trees.tree_likelihood,
    graphs.GraphTheta: graphs.graph_likelihood,
    alignments.AlignmentTheta: alignments.alignment_likelihood,
}


def _likelihood_of(problem: Problem, theta: PyTree) -> Likelihood:
    """The exact one of a structure.

    Raises:
      ValueError: it has none.
    """
    found = _OF_THETA.get(type(theta))
    if found is not None:
        return found
    if is_listed(problem, theta):
        return listed_likelihood
    raise ValueError(
        f"log_loss knows no log-partition function for theta of type {type(theta).__name__}: give "
        "likelihood=, a function (problem, theta, y) -> -log P, or take structured_hinge, "
        "perceptron or perturbed, which need the argmax alone"
    )


def value_and_slope(likelihood: Likelihood, problem: Problem, theta: PyTree, y: PyTree) -> tuple:
    """(l, its gradient in theta, with something of no meaning at the integers of theta)."""
    of_theta = jax.value_and_grad(lambda theta: likelihood(problem, theta, y), allow_int=True)
    return of_theta(theta)


def _value(likelihood: Likelihood, theta: PyTree, given: PyTree) -> Array:
    problem, y = given
    return likelihood(problem, theta, y)


def _evaluated(likelihood: Likelihood, theta: PyTree, given: PyTree) -> tuple[Array, PyTree]:
    problem, y = given
    return value_and_slope(likelihood, problem, theta, y)


def log_loss(
    problem: Problem, theta: PyTree, y: PyTree, likelihood: Likelihood | None = None
) -> Array:
    """-log P(y_i | x) = log sum_y exp F(y; theta) - F(y_i; theta) of one example.

    Its gradient is E_P Psi-bar(y) - Psi-bar(y_i), marginals less the true parts. One run of the
    forward-backward, inside-outside, pair-forward or elimination algorithm is the oracle call; of
    classes, candidates and other listed outputs a sum over the list. Memory holds one gradient in
    theta and no messages until the backward pass.

    Args:
      problem: made by `multiclass`, `chain`, `weighted_grammar`, `pairwise_alignment`,
        `graph_labelling` (on inputs with plans), `candidates`, or with `oracles.all_outputs`; Delta
        plays no part.
      theta: problem.model.potentials(w, x) of ONE example. y: its true output, padded.
      likelihood: another one in place of the structure's own, a function of a module; for graphs
        without plans `graphs.bethe_likelihood`, `graphs.reweighted_likelihood` (a bound from above)
        or `graphs.pseudo_likelihood`, each with the gradient that it has.

    Returns:
      A scalar, convex in theta where the likelihood is; >= 0 where it is exact.

    Raises:
      ValueError: the structure has no likelihood (`homologue_search`), or theta and y are not of
        one example.

    Source: J. Lafferty, A. McCallum and F. Pereira, "Conditional random fields", ICML 2001.
    """
    theta, y = checked_example(problem, theta, y)
    if likelihood is not None and not callable(likelihood):
        raise ValueError(
            "likelihood must be a function (problem, theta, y) -> -log P, got "
            f"{text_of(likelihood)}: such as jaxstruct.graphs.pseudo_likelihood"
        )
    chosen = likelihood or _likelihood_of(problem, theta)
    return with_slope(
        Loss(partial(_value, chosen), partial(_evaluated, chosen)), theta, (problem, y)
    )
