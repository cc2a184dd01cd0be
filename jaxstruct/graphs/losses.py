"""Losses of graph labellings: Delta(y_true, y) over the nodes of one graph.

    hamming             sum_v [y_v != y_true_v]
    normalised_hamming  the same over the number of nodes
    zero_one            [some label is wrong]
    costs [S, S]        sum_v costs[y_true_v, y_v]; a row of zeros leaves nodes of that label out

All but zero_one add up over nodes, so that a loss-augmented labelling is one plain labelling.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxstruct.core.checks import as_numbers, text_of
from jaxstruct.core.static import static
from jaxstruct.core.types import Array

NAMES = ("hamming", "normalised_hamming", "zero_one")


@static
class GraphLossKind:
    """What a program of a loss depends on.

    Fields:
      by_size: whether costs are divided by the number of nodes.
      whole: whether the loss is zero-one, of the labelling as a whole.
    """

    by_size: bool
    whole: bool


class GraphLoss(NamedTuple):
    """One loss.

    Fields:
      costs: [S, S] what label y costs in place of y_true, 0 on the diagonal.
      kind: static.
    """

    costs: Array
    kind: GraphLossKind

    @property
    def additive(self) -> bool:
        """Whether it is a sum over nodes."""
        return not self.kind.whole


def graph_loss(loss: str | np.ndarray, labels: int, dtype: str) -> GraphLoss:
    """The loss that a name or a table of costs stands for.

    Raises:
      ValueError: an unknown name, or costs that are not [S, S], finite, >= 0, 0 on the diagonal.
    """
    if isinstance(loss, str):
        if loss not in NAMES:
            raise ValueError(
                f"loss is {text_of(loss)}; choose one of {NAMES}, or an [S, S] matrix of costs"
            )
        kind = GraphLossKind(loss == "normalised_hamming", loss == "zero_one")
        return GraphLoss(jnp.asarray(1 - np.eye(labels), dtype), kind)
    costs = as_numbers("loss", loss, f"a name of {NAMES} or [{labels}, {labels}] costs")
    if costs.shape != (labels, labels) or not np.isfinite(costs).all() or (costs < 0).any():
        raise ValueError(
            f"loss must be [S, S] = [{labels}, {labels}] finite costs >= 0, got shape {costs.shape}"
        )
    if np.diagonal(costs).any():
        raise ValueError("loss must be 0 on its diagonal: a right label costs nothing")
    return GraphLoss(jnp.asarray(costs, dtype), GraphLossKind(False, False))


def node_costs(loss: GraphLoss, y_true: Array) -> Array:
    """[V, S] what each label would cost at each node, 0 on padding; of an additive loss."""
    real = y_true >= 0
    costs = jnp.where(real[:, None], loss.costs[jnp.maximum(y_true, 0)], 0)
    return costs / jnp.maximum(jnp.sum(real), 1) if loss.kind.by_size else costs


def delta(loss: GraphLoss, y_true: Array, y: Array) -> Array:
    """Delta(y_true, y) of labellings [V] with -1 on padding."""
    real = y_true >= 0
    costs = loss.costs[jnp.maximum(y_true, 0), jnp.maximum(y, 0)]
    costs = jnp.where(real, costs, 0)
    if loss.kind.whole:
        return jnp.max(costs, initial=0)
    total = jnp.sum(costs)
    return total / jnp.maximum(jnp.sum(real), 1) if loss.kind.by_size else total
