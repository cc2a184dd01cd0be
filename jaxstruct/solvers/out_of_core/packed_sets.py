"""Working sets at rest: the planes of some examples one after the other, without empty slots.

While a block of examples is not visited its working sets need no slots for planes to come. Of grown
ones all planes stay, of enumerated ones, whose planes can be listed again, multipliers alone.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np

from jaxstruct.core.buckets import bucket_slices
from jaxstruct.core.compiler import to_take_over
from jaxstruct.core.contract import output_of
from jaxstruct.core.types import Array, PyTree
from jaxstruct.solvers.n_slack.working_sets import WorkingSets, is_enumerated

NUMBERS = ("losses", "scales", "bounds", "multipliers", "norms")
"""The floats of a plane."""


class Packed(NamedTuple):
    """M planes of a block, in the order of its rows and slots, slot 0 left out.

    Fields:
      counts: [N] how many of each row. slots: [M] where each stood; of enumerated sets, which have
        places for all, alone: grown ones are put side by side.
      numbers: [M, 5] the floats of `NUMBERS`, of enumerated sets [M, 1] the multipliers.
      last_used: [M] int32.
      outputs: the leaves of all buckets, [M_b, ...] in the narrowest integers; () of enumerated.
      gram: one [sum of squared counts] a bucket; () of enumerated sets.
    """

    counts: np.ndarray
    slots: np.ndarray
    numbers: np.ndarray
    last_used: np.ndarray
    outputs: tuple[np.ndarray, ...]
    gram: tuple[np.ndarray, ...]

    @property
    def enumerated(self) -> bool:
        """Whether multipliers alone are here."""
        return self.numbers.shape[1] == 1

    @property
    def carried(self) -> np.ndarray:
        """[M] the multipliers."""
        return self.numbers[:, 0 if self.enumerated else NUMBERS.index("multipliers")]

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in jax.tree.leaves(self))


class Amendment(NamedTuple):
    """New multipliers of some rows, whose planes are those that were packed.

    Fields:
      rows: [m] rising. occupied, multipliers, last_used: [m, K] their slots.
      gained: how many more planes there are, and how many more that carry.
    """

    rows: np.ndarray
    occupied: np.ndarray
    multipliers: np.ndarray
    last_used: np.ndarray
    gained: tuple[int, int]


def amended(packed: Packed, new: Amendment) -> Packed:
    """The same planes with new multipliers; of enumerated sets more of them may be held."""
    every = np.repeat(np.arange(len(packed.counts)), packed.counts)
    mine = np.isin(every, new.rows)
    numbers, last_used = packed.numbers.copy(), packed.last_used.copy()
    slots = np.arange(new.occupied.shape[1])
    if not packed.enumerated:
        held = new.occupied & (slots > 0)
        numbers[mine, NUMBERS.index("multipliers")] = new.multipliers[held]
        last_used[mine] = new.last_used[held]
        return packed._replace(numbers=numbers, last_used=last_used)
    held = (new.last_used > 0) & (slots > 0)
    row, slot = np.nonzero(held)
    rows = np.concatenate([every[~mine], new.rows[row]])
    whole = np.concatenate([packed.slots[~mine].astype(np.int64), slot])
    order = np.lexsort((whole, rows))
    return packed._replace(
        counts=np.bincount(rows, minlength=len(packed.counts)).astype(np.int32),
        slots=narrowed(whole[order]),
        numbers=np.concatenate([numbers[~mine], new.multipliers[held][:, None]])[order],
        last_used=np.concatenate([last_used[~mine], new.last_used[held]])[order],
    )


def narrowed(leaf: np.ndarray) -> np.ndarray:
    """The same integers in int8 or int16 where these hold them."""
    low, high = int(leaf.min(initial=0)), int(leaf.max(initial=0))
    for dtype in (np.int8, np.int16):
        if np.iinfo(dtype).min <= low and high <= np.iinfo(dtype).max:
            return leaf.astype(dtype)
    return leaf


def pack(sets: WorkingSets) -> Packed:
    """The planes at hand."""
    enumerated = is_enumerated(sets)
    held = np.asarray(sets.last_used) > 0 if enumerated else np.array(sets.occupied)
    held = held & (np.arange(held.shape[1]) > 0)
    counts = held.sum(axis=1).astype(np.int32)
    last_used = np.asarray(sets.last_used)[held]
    if enumerated:
        slots = narrowed(np.nonzero(held)[1])
        numbers = np.asarray(sets.multipliers)[held][:, None]
        return Packed(counts, slots, numbers, last_used, (), ())
    numbers = np.stack([np.asarray(getattr(sets, name))[held] for name in NUMBERS], axis=1)
    outputs, gram = [], []
    for own, part, block in zip(bucket_slices(sets.outputs), sets.outputs, sets.gram, strict=True):
        mine = held[own]
        outputs += [narrowed(np.asarray(leaf)[mine]) for leaf in jax.tree.leaves(part)]
        gram.append(np.asarray(block)[mine[:, :, None] & mine[:, None, :]])
    slots = np.zeros(0, np.int8)
    return Packed(counts, slots, numbers, last_used, tuple(outputs), tuple(gram))


def unpack_enumerated(packed: Packed, sets: WorkingSets) -> WorkingSets:
    """The working sets of a block, just listed, with its multipliers."""
    shape, dtype = sets.losses.shape, sets.losses.dtype
    rows = np.repeat(np.arange(shape[0]), packed.counts)
    multipliers, last_used = np.zeros(shape, dtype), np.zeros(shape, np.int32)
    multipliers[rows, packed.slots] = packed.numbers[:, 0]
    last_used[rows, packed.slots] = packed.last_used
    return sets._replace(
        multipliers=jax.device_put(multipliers), last_used=jax.device_put(last_used)
    )


def unpack(packed: Packed, outputs: tuple[PyTree, ...], capacity: int, dtype: str) -> WorkingSets:
    """The working sets of a block in slots 1, 2, ..

    Args:
      outputs: the true ones, by bucket, which slot 0 and empty slots hold. capacity: slots of an
        example, more than it has planes.
    """
    own, counts, outputs = bucket_slices(outputs), packed.counts, output_of(outputs)
    places = np.arange(capacity)[None] - 1
    held = (places >= 0) & (places < counts[:, None])

    def filled(values: np.ndarray, kind: str) -> Array:
        whole = np.zeros(held.shape, kind)
        whole[held] = values
        return to_take_over(whole)

    def outputs_of(leaf: Array, mine: np.ndarray) -> Array:
        whole = np.repeat(np.asarray(leaf)[:, None], capacity, axis=1)
        whole[mine] = next(leaves)
        return to_take_over(whole)

    leaves, parts, blocks = iter(packed.outputs), [], []
    for rows, part, gram in zip(own, outputs, packed.gram, strict=True):
        mine = held[rows]
        parts.append(jax.tree.map(lambda leaf, mine=mine: outputs_of(leaf, mine), part))
        block = np.zeros((*mine.shape, capacity), dtype)
        block[mine[:, :, None] & mine[:, None, :]] = gram
        blocks.append(to_take_over(block))
    numbers = zip(NUMBERS, packed.numbers.T, strict=True)
    return WorkingSets(
        outputs=tuple(parts),
        gram=tuple(blocks),
        occupied=to_take_over(held | (places < 0)),
        last_used=filled(packed.last_used, "int32"),
        **{name: filled(values, dtype) for name, values in numbers},
    )
