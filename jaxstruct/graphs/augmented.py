"""Labelled graphs whose scores are raised by an additive loss: F(y) + Delta(y_i, y)."""

from __future__ import annotations

from jaxstruct.core.contract import Problem
from jaxstruct.core.transposition import scaled
from jaxstruct.core.types import Array
from jaxstruct.graphs.likelihood import graph_likelihood
from jaxstruct.graphs.losses import node_costs
from jaxstruct.graphs.theta import GraphTheta


def augmented_theta(problem: Problem, theta: GraphTheta, y_true: Array) -> GraphTheta:
    """theta whose score is F(y) + Delta(y_true, y).

    Args:
      problem: made by `graph_labelling`, with an additive loss. theta: of one input. y_true: [V].

    Raises:
      ValueError: the loss is not additive.
    """
    decode = problem.oracles.loss_augmented_decode
    if decode is None:
        raise ValueError(
            'the loss of the graphs does not add up over nodes: take loss="hamming", '
            '"normalised_hamming" or [S, S] costs'
        )
    (tables,) = decode.args
    costs = node_costs(tables.loss, y_true).astype(theta.nodes.dtype)
    return theta._replace(nodes=theta.nodes + costs)


def softmax_margin(problem: Problem, theta: GraphTheta, y_true: Array, temperature: Array) -> Array:
    """mu log sum_y exp((Delta(y_true, y) + F(y) - F(y_true)) / mu) of one graph with a plan.

    Args:
      problem, theta, y_true: as `augmented_theta`. temperature: mu > 0.

    Raises:
      ValueError: the loss is not additive, or theta has no plan.
    """
    raised = augmented_theta(problem, theta, y_true)
    return temperature * graph_likelihood(problem, scaled(raised, 1 / temperature), y_true)
