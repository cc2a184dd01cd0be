"""Working sets at rest: packed planes of all blocks of a training, in memory as long as they fit.

While a block of examples is not visited its working sets need no slots for planes to come. Of grown
ones all planes stay, of enumerated ones, whose planes can be listed again, multipliers alone. Those
that memory does not hold lie in files. A file is written once under a name of its own and never
changed, so that what the cache held after a round is a few references, and stays as long as
somebody asks for it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from jaxstruct.core.archive import Archive, DamagedFile, Schema, dump
from jaxstruct.core.buckets import bucket_slices
from jaxstruct.core.compiler import to_take_over
from jaxstruct.core.contract import output_of
from jaxstruct.core.plain_values import from_plain, record_of, to_plain
from jaxstruct.core.types import Array, PyTree
from jaxstruct.solvers.block_state import Contents, Held
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


PLANES = Schema("file of planes", "jaxstruct-planes", 2, "fit_in_blocks")
_RECORDS = {"planes": record_of(Packed)}
FILE = re.compile(r"planes_(\d{6,})_(\d+)\.npz")
"""The name of a file: the numbers of its block and of its writing."""


class PlaneCache:
    """The packed working sets of all blocks."""

    def __init__(
        self, blocks: int, folder: str | os.PathLike, most: int, lasting: bool = False
    ) -> None:
        """Nothing of any block yet.

        Args:
          folder: for the files. most: bytes in memory.
          lasting: whether files that were replaced stay until `keep_only`, and have a digest.
        """
        self._held: list[Held | None] = [None] * blocks
        self._folder, self._most, self.lasting = Path(folder), most, lasting
        self._written = max((int(found[2]) for found in self._files()), default=0)
        self._synced: set[str] = set()

    @property
    def contents(self) -> Contents:
        """What is there now."""
        return tuple(self._held)

    @property
    def planes(self) -> np.ndarray:
        """[blocks] how many planes each has."""
        return np.array([0 if held is None else held.planes for held in self._held])

    @property
    def carrying(self) -> np.ndarray:
        """[blocks] how many planes with a multiplier each has."""
        return np.array([0 if held is None else held.carrying for held in self._held])

    def put(self, number: int, packed: Packed) -> None:
        """Keep the working sets of a block in place of those before."""
        before, self._held[number] = self._held[number], None
        held = Held(packed, "", "", len(packed.last_used), int(np.sum(packed.carried > 0)))
        others = sum(0 if other is None else other.size for other in self._held)
        if others + held.size > self._most:
            held = self._in_file(number, held)._replace(packed=None)
        self._held[number] = held
        if before is not None and before.name and not self.lasting:
            (self._folder / before.name).unlink()

    def take(self, number: int) -> Packed | None:
        """Those of a block; None before there are any."""
        held = self._held[number]
        return None if held is None else self._whole(held)

    def _whole(self, held: Held) -> Packed:
        packed = held.packed or self._read(held, sealed=False)
        return packed if held.amendment is None else amended(packed, held.amendment)

    def amend(self, number: int, new: Amendment) -> None:
        """New multipliers of some rows of a block, whose planes stay as they are."""
        held = self._held[number]
        assert held is not None, "a block is put before it is amended"
        planes, carrying = held.planes + new.gained[0], held.carrying + new.gained[1]
        held = held._replace(planes=planes, carrying=carrying)
        if held.packed is None:
            self._held[number] = held._replace(amendment=new)
        else:
            packed = amended(held.packed, new)
            self._held[number] = held._replace(packed=packed, name="", digest="")

    def put_back(self, contents: Contents) -> None:
        """Have what a cache of this folder held.

        Raises:
          DamagedFile: a file is not there, or not as it was written.
        """
        for held in contents:
            try:
                if held is not None:
                    self._read(held, sealed=True)
            except (OSError, ValueError) as error:
                raise DamagedFile(f"planes of a checkpoint: {error}") from error
        self._held = list(contents)

    def in_files(self, contents: Contents) -> Contents:
        """The same, all of them in files that are on the disk."""
        return tuple(held and self._on_disk(number, held) for number, held in enumerate(contents))

    def _on_disk(self, number: int, held: Held) -> Held:
        """The same in a file, as it is now."""
        filed = held
        if not held.name or held.amendment is not None:
            filed = self._in_file(number, held._replace(packed=self._whole(held), amendment=None))
            if held.packed is None:
                filed = filed._replace(packed=None)
            if self._held[number] is held:
                self._held[number] = filed
        self._sync(filed.name)
        return filed

    def keep_only(self, names: Iterable[str]) -> None:
        """Remove all files but those of these names."""
        kept = set(names)
        for found in self._files():
            if found[0] not in kept:
                (self._folder / found[0]).unlink(missing_ok=True)
                self._synced.discard(found[0])

    def _files(self) -> list[re.Match]:
        """The names of all files of a cache in the folder."""
        if not self._folder.is_dir():
            return []
        names = (path.name for path in self._folder.iterdir())
        return [found for name in names if (found := FILE.fullmatch(name))]

    def _in_file(self, number: int, held: Held) -> Held:
        """The same, in a file as well."""
        arrays: dict[str, np.ndarray] = {}
        header = {"planes": to_plain(held.packed, "planes", arrays, _RECORDS)}
        self._written += 1
        name = f"planes_{number:06}_{self._written}.npz"
        path = self._folder / name
        try:
            with open(path, "x+b") as stream:
                digest = dump(stream, PLANES, header, arrays, sealed=self.lasting)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return held._replace(name=name, digest=digest)

    def _sync(self, name: str) -> None:
        """Have a file on the disk, whatever happens to the machine."""
        if name not in self._synced:
            with open(self._folder / name, "r+b") as stream:
                os.fsync(stream.fileno())
            self._synced.add(name)

    def _read(self, held: Held, sealed: bool) -> Packed:
        """What lies in a file; sealed: whether it is compared with its digest."""
        archive = Archive(PLANES, self._folder / held.name)
        archive.read(sealed=sealed)
        if archive.digest != held.digest and sealed:
            raise archive.damaged("is of another checkpoint")
        with archive.refusing():
            return from_plain(archive.header["planes"], archive.arrays, _RECORDS)


def names_in(contents: Sequence[Held | None]) -> set[str]:
    """The files that some contents lie in."""
    return {held.name for held in contents if held is not None and held.name}
