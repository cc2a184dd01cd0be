"""Losses of graph labellings: Delta(y_true, y) over the nodes of one graph.

    hamming             sum_v [y_v != y_true_v]
    normalised_hamming  the same over the number of nodes (the sum of their weights)
    zero_one            [some label is wrong]
    costs [S, S]        sum_v costs[y_true_v, y_v]; a row of zeros leaves nodes of that label out

All but zero_one add up over nodes, so that a loss-augmented labelling is one plain labelling. In
these a node may weigh more or less than 1: its true label is then given as y_v + S c, which stands
for label y_v with the weight of class c. Outputs that are found are plain labels, c = 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxstruct.core.checks import checked_size, text_of
from jaxstruct.core.contract import Truth
from jaxstruct.core.loss_functions import cheapest, sum_of_costs
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.scores import positive_or_one
from jaxstruct.core.spec import costs
from jaxstruct.core.types import Array, Static
from jaxstruct.graphs.inputs import store_of

NAMES = ("hamming", "normalised_hamming", "zero_one")


class GraphLoss(NamedTuple):
    """One loss.

    Fields:
      costs: [S, S] what label y costs in place of y_true, 0 on the diagonal.
      weights: [W] of the classes of nodes, 1 first.
      by_size: whether costs are divided by the number of nodes.
      whole: whether it is zero-one, of the labelling as a whole.
    """

    costs: Array
    weights: Array
    by_size: Static
    whole: Static

    @property
    def additive(self) -> bool:
        """Whether it is a sum over nodes."""
        return not self.whole.value


def graph_loss(
    loss: str | np.ndarray, labels: int, dtype: str, node_weights: Sequence[float] = ()
) -> GraphLoss:
    """The loss that a name or a table of costs stands for.

    Args:
      loss: see the module. labels: S. node_weights: of the classes 1, 2, .. of nodes.

    Raises:
      ValueError: an unknown name, costs that are not [S, S], finite, >= 0, 0 on the diagonal, or
        weights that are not finite and >= 0, or that are given with zero_one.
    """
    weights = jnp.asarray(_checked_weights(loss, node_weights), dtype)
    if not isinstance(loss, str):
        table = costs("loss", loss, "S S", {"S": labels}, f"; or give a name of {NAMES}")
        return GraphLoss(jnp.asarray(table, dtype), weights, Static(False), Static(False))
    if loss not in NAMES:
        raise ValueError(
            f"loss is {text_of(loss)}; choose one of {NAMES}, or an [S, S] matrix of costs"
        )
    by_size, whole = Static(loss == "normalised_hamming"), Static(loss == "zero_one")
    return GraphLoss(jnp.asarray(1 - np.eye(labels), dtype), weights, by_size, whole)


def _checked_weights(loss: str | np.ndarray, node_weights: Sequence[float]) -> np.ndarray:
    """[W] with the 1 of class 0 in front."""
    weights = costs("node_weights", node_weights, "classes")
    if weights.size and isinstance(loss, str) and loss == "zero_one":
        raise ValueError(
            'node_weights: loss="zero_one" is of the labelling as a whole; take "hamming", '
            '"normalised_hamming" or costs'
        )
    return np.append(1.0, weights)


def weighted_labels(
    labels: Sequence[np.ndarray] | Ragged, classes: Sequence[np.ndarray] | Ragged, S: int
) -> Ragged:
    """True labels with the weights of their nodes in the loss: y_v + S c_v.

    They are for what trains by a loss (`fit`, `fit_in_blocks`). Likelihoods read the labels alone;
    the perceptrons, which count an output as wrong where it is not equal, need plain labels.

    Args:
      labels: [V] integers 0..S-1 of each graph. classes: [V] of each graph, the class of each node:
        0 for the weight 1, c for `node_weights[c - 1]` of `graph_labelling`. S: labels.

    Returns:
      A store of outputs to train on.

    Raises:
      ValueError: labels are out of range, classes are negative, or both are not of one shape.
    """
    S = checked_size("S", S, 2)
    y = store_of("labels", labels, "nodes", within=range(S))
    c = store_of("classes", classes, "nodes", ("labels", y.lengths), within=range(2**31))
    return Ragged((y.rows.astype(np.int64) + S * c.rows.astype(np.int64)), y.offsets, -1)


def plain_labels(loss: GraphLoss, y: Array | Truth) -> Array:
    """Labels 0..S-1 without the classes of their nodes; -1 on padding."""
    labels: Any = y.output if isinstance(y, Truth) else y
    if len(loss.weights) == 1:
        return labels
    return jnp.where(labels >= 0, labels % len(loss.costs), labels)


def _weights_of(loss: GraphLoss, y_true: Array) -> Array:
    """[V] the weight of each node, 0 on padding."""
    classes = jnp.minimum(jnp.maximum(y_true, 0) // len(loss.costs), len(loss.weights) - 1)
    return jnp.where(y_true >= 0, loss.weights[classes], 0)


def node_costs(loss: GraphLoss, y_true: Array | Truth) -> Array:
    """[V, S] what each label would cost at each node, 0 on padding; of an additive loss.

    Of several possible true labels, a `Truth` with bool [V, S] beside it, the cheapest counts.
    """
    y, possible = y_true if isinstance(y_true, Truth) else (y_true, None)
    weights = _weights_of(loss, y)
    rows = loss.costs[jnp.maximum(plain_labels(loss, y), 0)]
    if possible is not None:
        rows = jnp.where((y >= 0)[:, None], cheapest(loss.costs, possible), 0)
    costs = weights[:, None] * rows
    return costs / positive_or_one(jnp.sum(weights)) if loss.by_size.value else costs


def delta(loss: GraphLoss, y_true: Array | Truth, y: Array) -> Array:
    """Delta(y_true, y) of labellings [V] with -1 on padding."""
    if isinstance(y_true, Truth):
        return sum_of_costs(node_costs(loss, y_true), plain_labels(loss, y))
    weights = _weights_of(loss, y_true)
    labels = jnp.maximum(plain_labels(loss, y_true), 0)
    costs = weights * loss.costs[labels, jnp.maximum(plain_labels(loss, y), 0)]
    if loss.whole.value:
        return jnp.max(costs, initial=0)
    total = jnp.sum(costs)
    return total / positive_or_one(jnp.sum(weights)) if loss.by_size.value else total
