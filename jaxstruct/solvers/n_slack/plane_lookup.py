"""Outputs that an oracle found, held against the planes at hand.

Working sets have many slots, most of them empty: only the tiles of slots that some example
of a batch has filled are read.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.contract import Problem
from jaxstruct.core.transposition import gram_columns
from jaxstruct.core.types import Array, PyTree
from jaxstruct.solvers.n_slack.working_sets import Meeting, WorkingSets

TILE = 8
"""Slots an example that one turn of a loop reads."""


class Batch(NamedTuple):
    """Some examples of one bucket.

    Fields:
      index: [B] their rows. x, y_true: [B] inputs and true outputs. theta: [B] their potentials.
    """

    index: Array
    x: PyTree
    y_true: PyTree
    theta: PyTree


def _same_outputs(outputs: PyTree, y: PyTree) -> Array:
    """[B, J] whether the outputs [B, J] are y [B]."""

    def equal(leaf: Array, one: Array) -> Array:
        same = leaf == one[:, None]
        return jnp.all(same.reshape(*same.shape[:2], -1), axis=2)

    return jnp.all(jnp.stack(jax.tree.leaves(jax.tree.map(equal, outputs, y))), axis=0)


def filled_slots(occupied: Array) -> Array:
    """int32: the slots up to the last one that any of B examples [B, K] has filled."""
    return jnp.max(jnp.where(occupied, jnp.arange(occupied.shape[1]) + 1, 0))


def scores_at_hand(problem: Problem, sets: WorkingSets, batch: Batch) -> Array:
    """[B, K] F of every output of working sets that are full, as enumerated ones are."""
    outputs = jax.tree.map(lambda leaf: leaf[batch.index], sets.outputs)
    return jax.vmap(problem.space.plane_scores)(batch.theta, outputs)


def meet(problem: Problem, sets: WorkingSets, batch: Batch, y: PyTree) -> tuple[Array, Meeting]:
    """(F [B, K] of the planes at hand, 0 in empty slots; the outputs y [B] against them)."""
    slots, filled = sets.losses.shape[1], filled_slots(sets.occupied[batch.index])
    tile = min(TILE, slots)
    column = gram_columns(problem.space.plane_gram, batch.x, batch.y_true, y)
    held = sets.occupied[batch.index]
    nothing = jnp.zeros(held.shape, sets.losses.dtype)

    def look(at: Array, found: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        first = jnp.minimum(at * tile, slots - tile)
        place = first + jnp.arange(tile)
        outputs = jax.tree.map(lambda leaf: leaf[batch.index[:, None], place], sets.outputs)
        inside = held[:, place]
        scores = jax.vmap(problem.space.plane_scores)(batch.theta, outputs)
        known = jnp.any(_same_outputs(outputs, y) & inside, axis=1)

        def put(to: Array, part: Array) -> Array:
            part = part.astype(to.dtype)
            return jax.lax.dynamic_update_slice_in_dim(to, part, first, axis=1)

        products = jnp.where(inside, column(outputs), 0)
        return put(found[0], scores), put(found[1], products), found[2] | known

    start = nothing, nothing, jnp.zeros(held.shape[0], bool)
    scores, products, known = jax.lax.fori_loop(0, -(-filled // tile), look, start)
    squared = column(jax.tree.map(lambda leaf: leaf[:, None], y))[:, 0]
    return scores, Meeting(products, squared.astype(products.dtype), known)
