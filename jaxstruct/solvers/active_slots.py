"""Working sets cut down to the slots that matter, for sweeps that touch little."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxstruct.solvers.formulations import Penalty
from jaxstruct.solvers.working_sets import WorkingSets
from jaxstruct.types import Array


def active_slots(own: WorkingSets, gradient: Array, active: int) -> Array:
    """[B, A] the slots that matter most: 0, the steepest, carriers that lag it, then violators.

    A slot that carries nothing and whose gradient is further below the lowest carrier than that is
    below the steepest is left out, however few there are; 0 stands in its place.

    Args:
      own: B working sets. gradient: [B, K] of the dual in each slot.
      active: A.
    """
    if active == 0:
        return jnp.zeros((gradient.shape[0], 0), jnp.int32)
    steepest = jnp.max(jnp.where(own.occupied, gradient, -jnp.inf), axis=1, keepdims=True)
    carries = own.multipliers > 0
    rank = jnp.where(carries, 2 * steepest - gradient, gradient)  # a carrier's is above steepest
    rank = jnp.where(gradient >= steepest, jnp.finfo(rank.dtype).max, rank)
    rank = jnp.where(own.occupied, rank, -jnp.inf)
    rank = rank.at[:, 0].set(jnp.inf)
    slots = jax.lax.top_k(rank, active)[1].astype(jnp.int32)
    lowest = jnp.min(jnp.where(carries, gradient, jnp.inf), axis=1, keepdims=True)
    lowest = jnp.minimum(lowest, gradient[:, :1])
    useful = own.occupied & (carries | (gradient >= 2 * lowest - steepest))
    return jnp.where(jnp.take_along_axis(useful, slots, axis=1), slots, 0)


def _picked(leaf: Array, slots: Array) -> Array:
    index = slots.reshape(*slots.shape, *[1] * (leaf.ndim - 2))
    return jnp.take_along_axis(leaf, index, axis=1)


def restricted(terms: Penalty, sets: WorkingSets, slots: Array) -> tuple[Penalty, WorkingSets]:
    """Working sets cut down to some slots, the mass of the others frozen.

    A frozen mass m_f takes its share of the cap, and under a ridge r lowers every b by r m_f, so
    that an ascent of the part is one of the whole.

    Args:
      terms: the formulation's numbers, cap and ridge [N].
      sets: N working sets, `outputs` a tuple of buckets.
      slots: [N, A], slot 0 first; 0 in another place stands for no slot.
    """
    n, capacity = sets.losses.shape
    plain = sets._replace(gram=sets.losses, outputs=())
    part = jax.tree.map(lambda leaf: _picked(leaf, slots), plain)
    real = (slots > 0) | (jnp.arange(slots.shape[1]) == 0)[None]
    part = part._replace(occupied=part.occupied & real)
    gram = sets.gram
    if gram.shape[1]:
        flat = (slots[:, :, None] * capacity + slots[:, None, :]).reshape(n, -1)
        gram = jnp.take_along_axis(gram.reshape(n, -1), flat, axis=1)
        gram = gram.reshape(n, slots.shape[1], slots.shape[1])
    outputs, start = [], 0
    for bucket in sets.outputs:
        size = jax.tree.leaves(bucket)[0].shape[0]
        own = slots[start : start + size]
        outputs.append(jax.tree.map(lambda leaf, own=own: _picked(leaf, own), bucket))
        start += size
    frozen = jnp.maximum(jnp.sum(sets.multipliers, axis=1) - jnp.sum(part.multipliers, axis=1), 0)
    planes = jnp.arange(slots.shape[1]) > 0
    pull = jnp.where(planes, (terms.ridge * frozen)[:, None], 0)
    cap = jnp.where(jnp.isfinite(terms.cap), jnp.maximum(terms.cap - frozen, 0), terms.cap)
    part = part._replace(bounds=part.bounds - pull, gram=gram, outputs=tuple(outputs))
    return terms._replace(cap=cap), part


def merged(sets: WorkingSets, part: WorkingSets, slots: Array) -> WorkingSets:
    """The multipliers of restricted working sets written back."""
    at = (jnp.arange(slots.shape[0])[:, None], slots)
    return sets._replace(
        multipliers=sets.multipliers.at[at].set(part.multipliers),
        last_used=sets.last_used.at[at].set(part.last_used),
    )
