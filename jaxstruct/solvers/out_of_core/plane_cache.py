"""The cache: packed working sets of all blocks of a training, in memory as long as they fit.

The others lie in files. A file is written once under a name of its own and never changed, so that
what the cache held after a round is a few references, and stays as long as somebody asks for it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from jaxstruct.core.archive import Archive, DamagedFile, Schema, dump
from jaxstruct.core.plain_values import from_plain, record_of, to_plain
from jaxstruct.solvers.block_state import Contents, Held
from jaxstruct.solvers.out_of_core.packed_sets import Amendment, Packed, amended

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
            if held is not None:
                self._check(held)
        self._held = list(contents)

    def in_files(self, contents: Contents) -> Contents:
        """The same, all of them in files that are on the disk."""
        found = []
        for number, held in enumerate(contents):
            found.append(None if held is None else self._on_disk(number, held))
        return tuple(found)

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

    def _check(self, held: Held) -> None:
        try:
            self._read(held, sealed=True)
        except (OSError, ValueError) as error:
            raise DamagedFile(f"planes of a checkpoint: {error}") from error


def names_in(contents: Sequence[Held | None]) -> set[str]:
    """The files that some contents lie in."""
    return {held.name for held in contents if held is not None and held.name}
