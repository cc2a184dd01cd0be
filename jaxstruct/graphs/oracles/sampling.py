"""Exact samples of labellings from p(y) = exp(F(y) - log Z): sums forward, draws backward."""

from __future__ import annotations

from jaxstruct.core.batch_last import of_one_example
from jaxstruct.core.draws import draw, noise
from jaxstruct.core.semiring import Sums
from jaxstruct.core.types import Array
from jaxstruct.graphs.elimination import Elimination
from jaxstruct.graphs.oracles.enumeration import all_scores, numbered
from jaxstruct.graphs.oracles.variable_elimination import checked_plan, chosen_kernel
from jaxstruct.graphs.potentials import GraphPotentials, checked_potentials


def _kernel(potentials: GraphPotentials, plan: Elimination, noise: Array) -> Array:
    return chosen_kernel(Sums(), potentials, plan, noise).labels


_of_one = of_one_example(_kernel)


def sample_labelling(potentials: GraphPotentials, plan: Elimination, key: Array) -> Array:
    """One labelling drawn from p(y) = exp(F(y) - log Z), by variable elimination.

    Args:
      potentials: of one graph. plan: of the same edges in the same order.
      key: a random key of its own for every labelling.

    Returns:
      [V] int32 labels with PADDING beyond the last node. Forbidden labellings are never drawn;
      where all are forbidden, the labels are some labels. Probabilities are exact up to the
      rounding of sums.

    Raises:
      ValueError: as `best_labelling`.
    """
    potentials, plan = checked_plan(potentials, plan)
    nodes = potentials.nodes
    return _of_one(potentials, plan, noise(key, nodes.shape, nodes.dtype))


def sample_of_all(potentials: GraphPotentials, key: Array) -> Array:
    """One labelling of a small graph drawn from p(y), by enumeration.

    Args:
      potentials: as in `best_of_all`. key: a random key of its own for every labelling.

    Returns:
      As `sample_labelling`.

    Raises:
      ValueError: as `all_scores`.
    """
    potentials = checked_potentials(potentials)
    number = draw(key, all_scores(potentials))
    return numbered(potentials.nodes, potentials.number_of_nodes, number)
