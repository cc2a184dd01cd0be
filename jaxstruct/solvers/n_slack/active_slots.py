"""Working sets cut down to the slots that matter, for sweeps that touch little."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxstruct.core.buckets import rows_at
from jaxstruct.core.types import Array
from jaxstruct.solvers.n_slack.working_sets import WorkingSets
from jaxstruct.solvers.objective.formulations import Penalty


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


def restrict(
    terms: Penalty, sets: WorkingSets, index: Array, slots: Array
) -> tuple[Penalty, WorkingSets]:
    """Working sets of some examples cut down to some slots, the multipliers of the others frozen.

    A frozen sum m_f takes its share of the cap, and under a ridge r lowers every b by r m_f, so
    that an ascent of the part is one of the whole.

    Args:
      terms: the formulation's numbers, cap and ridge [B] of the examples.
      sets: of one bucket. index: [B] the examples.
      slots: [B, A], slot 0 first; 0 in another place stands for no slot; A = 0 for all slots.
    """
    if slots.shape[1] == 0:
        return terms, rows_at(sets, index)
    at = index[:, None]
    part = jax.tree.map(lambda leaf: leaf[at, slots], sets._replace(gram=sets.losses))
    real = (slots > 0) | (jnp.arange(slots.shape[1]) == 0)[None]
    part = part._replace(occupied=part.occupied & real)
    columns = (slots[:, :, None], slots[:, None, :]) if sets.gram.shape[1] else ()
    gram = sets.gram[at[:, :, None], *columns] if columns else sets.gram[index]
    mass = jnp.sum(sets.multipliers[index], axis=1)
    frozen = jnp.maximum(mass - jnp.sum(part.multipliers, axis=1), 0)
    planes = jnp.arange(slots.shape[1]) > 0
    pull = jnp.where(planes, (terms.ridge * frozen)[:, None], 0)
    cap = jnp.where(jnp.isfinite(terms.cap), jnp.maximum(terms.cap - frozen, 0), terms.cap)
    return terms._replace(cap=cap), part._replace(bounds=part.bounds - pull, gram=gram)


def merge_multipliers(multipliers: Array, part: Array, slots: Array) -> Array:
    """[B, K] multipliers, those of some slots [B, A] replaced by `part`; `part` itself if A = 0."""
    if slots.shape[1] == 0:
        return part
    return multipliers.at[jnp.arange(slots.shape[0])[:, None], slots].set(part)
