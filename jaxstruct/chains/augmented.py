"""Chains whose scores are raised by an additive loss: F(y) + Delta(y_i, y)."""

from __future__ import annotations

import jax.numpy as jnp

from jaxstruct.chains.label_parts import ChainTheta
from jaxstruct.chains.likelihood import chain_likelihood
from jaxstruct.chains.losses import position_costs
from jaxstruct.chains.oracles.additive_loss import loss_augmented
from jaxstruct.chains.oracles.k_best import k_best
from jaxstruct.chains.structure import chain_potentials
from jaxstruct.core.contract import Problem
from jaxstruct.core.transposition import scaled
from jaxstruct.core.types import Array


def augmented_theta(problem: Problem, theta: ChainTheta, y_true: Array) -> ChainTheta:
    """theta whose score is F(y) + Delta(y_true, y).

    Args:
      problem: made by `chain`, with an additive loss. theta: of one input. y_true: [T] labels.

    Raises:
      ValueError: the problem is no chain, or its loss is not additive.
    """
    potentials, length = chain_potentials(problem, theta)
    decode = problem.oracles.loss_augmented_decode
    if decode is None:
        raise ValueError(
            'the loss of the chain does not add up over positions: take loss="hamming", '
            '"normalised_hamming" or [S, S] costs'
        )
    (tables,) = decode.args
    costs = position_costs(tables.loss, y_true, length)
    one = jnp.ones((), theta.emissions.dtype)
    raised = loss_augmented(potentials, y_true, length, costs, one)
    return theta._replace(emissions=raised.emissions)


def softmax_margin(problem: Problem, theta: ChainTheta, y_true: Array, temperature: Array) -> Array:
    """mu log sum_y exp((Delta(y_true, y) + F(y) - F(y_true)) / mu) of one chain.

    Args:
      problem, theta, y_true: as `augmented_theta`. temperature: mu > 0.
    """
    raised = augmented_theta(problem, theta, y_true)
    return temperature * chain_likelihood(problem, scaled(raised, 1 / temperature), y_true)


def augmented_k_best(problem: Problem, theta: ChainTheta, y_true: Array, k: int) -> tuple:
    """([k, T] the label sequences of the largest F + Delta, [k] whether there is one).

    Args:
      problem, theta, y_true: as `augmented_theta`. k: static.
    """
    raised = augmented_theta(problem, theta, y_true)
    found = k_best(*chain_potentials(problem, raised), k)
    return found.labels, found.score > -jnp.inf
