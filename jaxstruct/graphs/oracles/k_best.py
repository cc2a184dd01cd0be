"""The k best labellings of a graph: by variable elimination, or of all of them.

Elimination finds the best labelling of any set of labellings that says which labels each node may
have, and the best one but for that (`best_other`). The k best follow by splitting sets: of all sets
the one with the largest second best is split at a node where its two best differ, into the
labellings with the label of the second there and those without. Two calls a labelling, whatever the
size of the graph (Yanover and Weiss, "Finding the M most probable configurations using loopy belief
propagation", NIPS 2003; Nilsson 1998).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.checks import checked_size
from jaxstruct.core.largest import filled_up, largest
from jaxstruct.core.types import Array
from jaxstruct.graphs.elimination import Elimination
from jaxstruct.graphs.oracles.enumeration import all_scores, labelling
from jaxstruct.graphs.oracles.variable_elimination import best_labelling, best_other
from jaxstruct.graphs.potentials import PADDING, GraphPotentials, Labelled, checked_potentials


class _Sets(NamedTuple):
    """k sets of labellings, disjoint.

    Fields:
      allowed: [k, V, S] which labels each node may have.
      first: [k, V] the best of each set. second: [k] the best but for that.
    """

    allowed: Array
    first: Array
    second: Labelled


def _second(
    potentials: GraphPotentials, plan: Elimination, allowed: Array, first: Array
) -> Labelled:
    """The best of a set of labellings but for one."""
    nodes = jnp.where(allowed, potentials.nodes, -jnp.inf)
    return best_other(potentials._replace(nodes=nodes), plan, first)


def _split(sets: _Sets, which: Array, new: Array) -> tuple[_Sets, Labelled]:
    """A set in two: set `which` without the label that its second best has where the two best
    differ first, set `new` with it; and that second best. Nothing changes where there is none."""
    first = sets.first[which]
    found = jax.tree.map(lambda leaf: leaf[which], sets.second)
    there = found.score > -jnp.inf
    V, S = sets.allowed.shape[1:]
    node = jnp.argmax(found.labels != first)
    label = jnp.arange(S) == found.labels[node]
    at = (jnp.arange(V) == node)[:, None]
    allowed = sets.allowed[which]
    without = allowed & ~(at & label[None] & there)
    with_it = allowed & (~at | label[None])
    masks = sets.allowed.at[which].set(without).at[new].set(with_it)
    return sets._replace(allowed=masks, first=sets.first.at[new].set(found.labels)), found


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
    V, S = potentials.nodes.shape
    asked, k = k, min(checked_size("k", k), S**V)
    best = best_labelling(potentials, plan)
    every = jnp.ones((k, V, S), bool)
    second = _second(potentials, plan, every[0], best.labels)
    sets = _Sets(
        every,
        jnp.broadcast_to(best.labels[None], (k, V)),
        Labelled(
            jnp.broadcast_to(second.labels[None], (k, V)),
            jnp.where(jnp.arange(k) == 0, second.score, -jnp.inf),
        ),
    )

    def turn(sets: _Sets, new: Array) -> tuple[_Sets, Labelled]:
        which = jnp.argmax(sets.second.score)
        sets, found = _split(sets, which, new)
        both = jnp.stack([which, new])
        own = jax.vmap(_second, (None, None, 0, 0))(
            potentials, plan, sets.allowed[both], sets.first[both]
        )
        score = jnp.where(found.score > -jnp.inf, own.score, -jnp.inf)
        labels = sets.second.labels.at[both].set(own.labels)
        second = Labelled(labels, sets.second.score.at[both].set(score))
        return sets._replace(second=second), found

    _, rest = jax.lax.scan(turn, sets, jnp.arange(1, k))
    labels = jnp.concatenate([best.labels[None], rest.labels])
    scores = jnp.concatenate([best.score[None], rest.score])
    labels = jnp.where((scores > -jnp.inf)[:, None], labels, PADDING)
    return Labelled(*filled_up(asked, labels, scores))


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
    V, S = potentials.nodes.shape
    scores = all_scores(potentials)
    top, number = largest(scores, k)
    real = (jnp.arange(V) < potentials.number_of_nodes)[None] & (top > -jnp.inf)[:, None]
    return Labelled(jnp.where(real, labelling(number, V, S), PADDING), top)
