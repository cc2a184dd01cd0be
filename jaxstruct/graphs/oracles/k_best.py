"""The k best labellings of a graph, by variable elimination or of all; exact samples.

Elimination finds the best labelling of any set that says which labels each node may have, and the
best one but for a given one (`best_other`). So the k best follow by branching: a set without the
labelling y that was taken of it before, whose best one is y', splits at the first node where the
two differ into the labellings with the label of y' there, without y', and those without that label,
without y. Two calls a labelling, whatever the size of the graph (Yanover and Weiss, "Finding the M
most probable configurations using loopy belief propagation", NIPS 2003; Nilsson 1998).

Samples are from p(y) = exp(F(y) - log Z): sums forward, draws backward.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.batch_last import of_one_example
from jaxstruct.core.branching import k_best_by_branching
from jaxstruct.core.checks import checked_size
from jaxstruct.core.scores import draw, largest, noise
from jaxstruct.core.semiring import Sums
from jaxstruct.core.types import Array
from jaxstruct.graphs.elimination import Elimination
from jaxstruct.graphs.oracles.enumeration import all_scores, numbered
from jaxstruct.graphs.oracles.variable_elimination import (
    best_labelling,
    best_other,
    checked_plan,
    chosen_kernel,
)
from jaxstruct.graphs.potentials import PADDING, GraphPotentials, Labelled, checked_potentials


class _Set(NamedTuple):
    """A set of labellings.

    Fields:
      best: its best one. allowed: [V, S] which labels each node may have.
      taken: [V] the labelling that is not in the set; PADDING throughout where there is none.
    """

    best: Labelled
    allowed: Array
    taken: Array


def _branches(potentials: GraphPotentials, plan: Elimination, parent: _Set) -> _Set:
    """The two sets into which a set falls without its best labelling."""
    labels, taken = parent.best.labels, parent.taken
    V, S = parent.allowed.shape
    node = jnp.argmax(labels != taken)
    at = (jnp.arange(V) == node)[:, None]
    label = (jnp.arange(S) == labels[node])[None]
    allowed = parent.allowed[None] & jnp.stack([~(at & label), ~at | label])

    def of_set(allowed: Array, taken: Array) -> _Set:
        nodes = jnp.where(allowed, potentials.nodes, -jnp.inf)
        return _Set(best_other(potentials._replace(nodes=nodes), plan, taken), allowed, taken)

    return jax.vmap(of_set)(allowed, jnp.stack([taken, labels]))


def k_best_labellings(potentials: GraphPotentials, plan: Elimination, k: int) -> Labelled:
    """The k labellings of the largest scores, the best first, exact.

    Args:
      potentials: of one graph. plan: of the same edges in the same order.
      k: how many, at least 1, a Python integer.

    Returns:
      `Labelled`: labels [k, V], all distinct, and their F [k], falling up to rounding. The first is
      that of `best_labelling`, the best k - 1 are the first of the best k. Ties go to the set that
      was made first, then as in `best_other`. Where there are fewer than k labellings that are
      allowed the score is -inf and the labels are PADDING.

    Raises:
      ValueError: k < 1; as `best_labelling`.
    """
    k, best = checked_size("k", k), best_labelling(potentials, plan)
    whole = _Set(
        best, jnp.ones(jnp.shape(potentials.nodes), bool), jnp.full_like(best.labels, PADDING)
    )
    found = k_best_by_branching(whole, partial(_branches, potentials, plan), k)
    there = (found.score > -jnp.inf)[:, None]
    return found._replace(labels=jnp.where(there, found.labels, PADDING))


def k_best_of_all(potentials: GraphPotentials, k: int) -> Labelled:
    """The k labellings of the largest scores of one small graph by enumeration, exact.

    Args:
      potentials: as in `best_of_all`. k: how many, at least 1, a Python integer.

    Returns:
      As `k_best_labellings`; ties go to the lexicographically lowest labelling, so that the first
      is that of `best_of_all`.

    Raises:
      ValueError: k < 1; as `all_scores`.
    """
    k = checked_size("k", k)
    potentials = checked_potentials(potentials)
    top, number = largest(all_scores(potentials), k)
    labels = numbered(potentials.nodes, potentials.number_of_nodes, number)
    return Labelled(jnp.where((top > -jnp.inf)[:, None], labels, PADDING), top)


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
