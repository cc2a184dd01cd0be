"""Working sets S_i: cutting planes stored as outputs, in padded arrays (DESIGN of the package).

Slot 0 of every example is the slack slot (y = y_i, phi = 0, b = 0): it holds what is left
of the cap. A plane costs one output, four numbers and one row of its example's Gram block.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.buckets import bucket_slices, rows_at
from jaxstruct.core.compiling import program
from jaxstruct.core.contract import Problem, output_of
from jaxstruct.core.device import on_device
from jaxstruct.core.types import AnyArray, Array, PyTree
from jaxstruct.solvers.objective.formulations import Penalty, power_of_loss


class WorkingSets(NamedTuple):
    """The working sets of N examples with K slots each, bucket after bucket.

    Fields:
      outputs: one pytree of [N_b, K, ...] integers a bucket. gram: one array a bucket, [N_b, K, K]
        <phi_i(y_k), phi_i(y_l)>, or [N_b, 0, 0] where columns are computed as needed. (In the
        working sets of one bucket, see `bucket_of`, these two themselves.)
      losses: [N, K] Delta(y_i, y).
      scales, bounds: [N, K] s and b of the canonical form, less s times the known margin; 0 in
        slot 0 and in empty slots.
      multipliers: [N, K] beta; 0 in slot 0 and in empty slots (alpha = scales * multipliers).
      norms: [N, K] |phi_i(y_k)|^2.
      occupied: [N, K] bool.
      last_used: [N, K] int32, the last pass in which beta was positive.
    """

    outputs: PyTree
    losses: Array
    scales: Array
    bounds: Array
    multipliers: Array
    norms: Array
    gram: PyTree
    occupied: Array
    last_used: Array


class Proposal(NamedTuple):
    """One example's most violated output and where it goes.

    Fields:
      output: pytree; loss, scale, bound: scalars of the canonical form. norm: |phi(y)|^2.
      gram_row: [K] its inner products with the slots, after it took its own.
      slot: int32, K (out of range, dropped by scatters) where nothing is added.
      overflow: bool, violated but every slot carries a positive multiplier.
    """

    output: PyTree
    loss: Array
    scale: Array
    bound: Array
    norm: Array
    gram_row: Array
    slot: Array
    overflow: Array


class PlaneLookup(NamedTuple):
    """An output y of one example, and the planes at hand.

    Fields:
      products: [K] <delta Psi(y_k), delta Psi(y)>; 0 in empty slots. squared: |delta Psi(y)|^2.
      known: bool, y is a plane at hand.
    """

    products: Array
    squared: Array
    known: Array


def bucket_of(sets: WorkingSets, number: int) -> WorkingSets:
    """The working sets of one bucket, its outputs and Gram blocks no longer in tuples.

    These two, the large ones, are by bucket so that nothing is copied here.
    """
    own = bucket_slices(sets.outputs)[number]
    plain = jax.tree.map(lambda leaf: leaf[own], sets._replace(outputs=(), gram=()))
    return plain._replace(outputs=sets.outputs[number], gram=sets.gram[number])


def join_buckets(parts: list[WorkingSets]) -> WorkingSets:
    """The buckets of `bucket_of` together again."""
    outputs, gram = zip(*((part.outputs, part.gram) for part in parts), strict=True)
    plain = [part._replace(outputs=(), gram=()) for part in parts]
    whole = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *plain)
    return whole._replace(outputs=outputs, gram=gram)


def empty_working_sets(outputs: tuple[PyTree, ...], capacity: int, dtype: str) -> WorkingSets:
    """Working sets that hold the slack slot only; outputs are the true ones y_i, by bucket."""
    own = bucket_slices(outputs)
    n = own[-1].stop

    def zeros(*shape: int) -> Array:  # made by NumPy, so that nothing compiles; one buffer each
        return jax.device_put(np.zeros(shape or (n, capacity), dtype))

    def repeated(leaf: Array) -> Array:
        return jax.device_put(np.repeat(np.asarray(leaf)[:, None], capacity, axis=1))

    return WorkingSets(
        outputs=jax.tree.map(repeated, output_of(outputs)),
        losses=zeros(),
        scales=zeros(),
        bounds=zeros(),
        multipliers=zeros(),
        norms=zeros(),
        gram=tuple(zeros(o.stop - o.start, capacity, capacity) for o in own),
        occupied=jax.device_put(np.tile(np.arange(capacity) == 0, (n, 1))),
        last_used=jax.device_put(np.zeros((n, capacity), np.int32)),
    )


def enumerated_working_sets(
    problem: Problem, terms: Penalty, inputs: tuple[PyTree, ...], outputs: tuple[PyTree, ...]
) -> WorkingSets:
    """Working sets that hold every output from the start, for small output spaces.

    No plane is ever searched, added or evicted, and Gram columns are computed as needed; a plane
    counts as added once its multiplier has been positive.
    """
    parts = zip(inputs, outputs, strict=True)
    return join_buckets([_enumerate(problem, terms, x, y) for x, y in parts])


enumerated_program = program(enumerated_working_sets)


def _enumerate(problem: Problem, terms: Penalty, inputs: PyTree, outputs: PyTree) -> WorkingSets:
    everything, truth = jax.vmap(problem.oracles.all_outputs)(outputs), output_of(outputs)
    losses = jax.vmap(jax.vmap(problem.model.loss, (None, 0)))(outputs, everything)
    losses = losses.astype(terms.cap.dtype)  # one that counts errors may be of integers
    planes = jnp.arange(losses.shape[1]) > 0
    scales = jnp.where(planes, power_of_loss(losses, terms.scale_power), 0)
    bounds = power_of_loss(losses, terms.bound_power)
    if problem.model.known is not None:
        values = jax.vmap(problem.space.plane_scores)(
            jax.vmap(problem.model.known)(inputs), everything
        )
        bounds = bounds - scales * (values[:, :1] - values)
    return WorkingSets(
        outputs=everything,
        losses=losses,
        scales=scales,
        bounds=jnp.where(planes, bounds, 0),
        multipliers=jnp.zeros_like(losses),
        norms=scales**2 * jax.vmap(problem.space.plane_norms)(inputs, truth, everything),
        gram=jnp.zeros((losses.shape[0], 0, 0), losses.dtype),
        occupied=jnp.ones_like(losses, bool),
        last_used=jnp.zeros(losses.shape, jnp.int32),
    )


def is_enumerated(sets: WorkingSets) -> bool:
    """Whether the working sets hold every output, their Gram columns computed as needed."""
    return sets.gram[0].shape[1] == 0


def widened(leaf: Array, more: int, axes: tuple[int, ...]) -> Array:
    """The array with `more` zeros at the end of some axes, made by NumPy: nothing compiles."""
    pad = [(0, more if axis in axes else 0) for axis in range(leaf.ndim)]
    return on_device(np.pad(np.asarray(leaf), pad))


def extend(sets: WorkingSets, capacity: int) -> WorkingSets:
    """The same working sets with more slots."""
    old = sets.losses.shape[1]

    def widen(leaf: Array) -> Array:
        return widened(leaf, capacity - old, (1,))

    gram = tuple(widened(block, capacity - old, (1, 2)) for block in sets.gram)
    return jax.tree.map(widen, sets._replace(gram=()))._replace(gram=gram)


def _free_slot(own: WorkingSets) -> tuple[Array, Array]:
    """(slot, found): the first empty slot, else the least recently used one with beta = 0."""
    capacity = own.norms.shape[0]
    idle = own.occupied & (own.multipliers <= 0) & (jnp.arange(capacity) > 0)
    age = jnp.where(~own.occupied, -1, jnp.where(idle, own.last_used, jnp.iinfo(jnp.int32).max))
    return jnp.argmin(age).astype(jnp.int32), jnp.any(~own.occupied | idle)


def propose(
    terms: Penalty, own: WorkingSets, lookup: PlaneLookup, y: PyTree, loss: Array, violated: Array
) -> Proposal:
    """Where the output y of ONE example goes, and whether it is new.

    Args:
      terms: the formulation's numbers.
      own: the working set of this example (no leading axis), of which outputs, losses and Gram
        block are not read.
      lookup: y and the planes at hand.
      y, loss: the most violated output and its loss.
      violated: bool, H(y) > xi_i + epsilon.
    """
    capacity = own.norms.shape[0]
    fresh = violated & ~lookup.known
    free, found = _free_slot(own)
    slot = jnp.where(fresh & found, free, capacity)
    slots = jnp.arange(capacity)
    scale = power_of_loss(loss, terms.scale_power)
    norm = scale * (scale * lookup.squared)
    row = jnp.where(slots == slot, scale * lookup.squared, own.scales * lookup.products)
    return Proposal(
        output=y,
        loss=loss,
        scale=scale,
        bound=power_of_loss(loss, terms.bound_power),
        norm=norm,
        gram_row=jnp.where(slots > 0, scale * row, 0),
        slot=slot,
        overflow=fresh & ~found,
    )


def insert(sets: WorkingSets, index: Array, proposals: Proposal, clock: Array) -> WorkingSets:
    """Write one proposal an example into the working sets (dropped where slot = K).

    Args:
      sets: of one bucket (or any subset of its examples).
      index: [B] rows of `sets`.
      proposals: with a leading axis [B].
      clock: the number of the pass.
    """
    at, rows = (index, proposals.slot), proposals.gram_row

    def put(leaf: Array, value: AnyArray) -> Array:
        return leaf.at[at].set(jnp.asarray(value, leaf.dtype), mode="drop")

    gram = put(sets.gram, rows).at[index, :, proposals.slot].set(rows, mode="drop")
    return sets._replace(
        outputs=jax.tree.map(put, sets.outputs, proposals.output),
        losses=put(sets.losses, proposals.loss),
        scales=put(sets.scales, proposals.scale),
        bounds=put(sets.bounds, proposals.bound),
        norms=put(sets.norms, proposals.norm),
        occupied=put(sets.occupied, True),
        last_used=put(sets.last_used, clock),
        gram=gram,
    )


def plane_coefficients(z: Array) -> Array:
    """[B, K] c with sum_k c_k Psi(x, y_k) = sum_k z_k delta Psi(y_k): slot 0 takes the sum."""
    planes = jnp.arange(z.shape[1]) > 0
    z = jnp.where(planes, z, 0)
    return jnp.where(planes, -z, jnp.sum(z, axis=1, keepdims=True))


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
    rank = jnp.where(jnp.arange(rank.shape[1]) == 0, jnp.inf, rank)
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
    part = jax.tree.map(lambda leaf: leaf[at, slots], sets._replace(gram=None))
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
