"""Iterated conditional modes, steepest first: a labelling that no change of one node improves."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.batch_last import batch_size, of_one_example
from jaxstruct.core.types import Array
from jaxstruct.graphs.oracles.layout import (
    Layout,
    at_ends,
    first_argmax,
    laid_out,
    minus,
    padded_labels,
    score,
    summed_at,
)
from jaxstruct.graphs.potentials import GraphPotentials, Labelled, checked_potentials, score_labels

CHANGES = 8
"""Changes of a node, at most so many times the number of nodes."""
LITTLE = 1e-6
"""A gain below it, relative to the scores of the node, is rounding."""


class _State(NamedTuple):
    labels: Array
    turn: Array
    done: Array


def _conditional(layout: Layout, labels: Array) -> Array:
    """[V, S, B] what each label of a node would score, the labels of all others given."""
    V, high, low = len(labels), at_ends(labels, layout.high), at_ends(labels, layout.low)
    into_low = jnp.take_along_axis(layout.pairs, high[:, None, None], axis=2)[:, :, 0]
    into_high = jnp.take_along_axis(layout.pairs, low[:, None, None], axis=1)[:, 0]
    met = summed_at(V, layout.low, into_low) + summed_at(V, layout.high, into_high)
    return layout.nodes + met


def _change(layout: Layout, state: _State) -> _State:
    """The one change of the largest gain, if there is a gain."""
    V = layout.nodes.shape[0]
    scores = _conditional(layout, state.labels)
    best = jnp.max(scores, axis=1)
    own = jnp.take_along_axis(scores, state.labels[:, None], axis=1)[:, 0]
    gains = jnp.where(own > -jnp.inf, minus(best, own), jnp.inf)
    gains = jnp.where(layout.real & (best > -jnp.inf), gains, -jnp.inf)
    node = first_argmax(gains, 0)
    gain = jnp.max(gains, axis=0)
    size = jnp.take_along_axis(jnp.abs(jnp.where(best > -jnp.inf, best, 0)), node[None], axis=0)[0]
    worth = (gain > LITTLE * jnp.maximum(1, size)) & ~state.done
    here = worth[None] & (jnp.arange(V)[:, None] == node[None])
    labels = jnp.where(here, first_argmax(scores, 1), state.labels)
    return _State(labels, state.turn + 1, state.done | ~worth)


def _kernel(potentials: GraphPotentials) -> Labelled:
    layout = laid_out(potentials, batch_size(potentials))
    V, _, B = layout.nodes.shape

    def unfinished(state: _State) -> Array:
        return (state.turn < CHANGES * V) & ~jnp.all(state.done)

    start = first_argmax(layout.nodes, 1)
    first = _State(start, jnp.int32(0), jnp.zeros(B, bool))
    labels = jax.lax.while_loop(unfinished, lambda state: _change(layout, state), first).labels
    return Labelled(padded_labels(layout, labels), score(layout, labels))


def _score(found: Labelled, potentials: GraphPotentials) -> Array:
    return score_labels(potentials, found.labels)


_of_one = of_one_example(_kernel, _score)


def conditional_modes(potentials: GraphPotentials) -> Labelled:
    """A labelling that no change of a single node improves, from the best labels of the nodes.

    Each turn makes the one change that gains most.

    Args:
      potentials: of one graph.

    Returns:
      `Labelled`: a lower bound of max F only. Ties go to the lowest node, then to the lowest label.
      A forbidden labelling is left where some single change of a node that is barred by its
      neighbours is allowed; where none helps the score is -inf. Under `vmap`, nested or not, one
      batched program runs for all graphs. The derivative of the score counts what the labels use.

    Raises:
      ValueError: as `graph_potentials`.

    Source: J. Besag, "On the statistical analysis of dirty pictures", Journal of the Royal
    Statistical Society B 48, 1986.
    """
    return _of_one(checked_potentials(potentials))
