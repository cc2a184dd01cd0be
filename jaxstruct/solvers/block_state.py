"""What a training in blocks goes on from, where its planes are, and what it says at its end."""

from __future__ import annotations

from typing import Any, NamedTuple

from jaxstruct.core.types import PyTree
from jaxstruct.solvers.memory import Memory


class Held(NamedTuple):
    """The packed working sets of a block.

    Fields:
      packed: where they are in memory, a `Packed`. name: of the file, where they are in one.
      digest: of the file, which ends in it; "" where nobody will ask.
      planes, carrying: how many there are, and how many with a multiplier.
      amendment: an `Amendment` of what is newer than the file, or None.
    """

    packed: Any
    name: str
    digest: str
    planes: int
    carrying: int
    amendment: Any = None

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return 0 if self.packed is None else self.packed.nbytes


Contents = tuple[Held | None, ...]
"""What a cache held at some moment, by block; None of blocks that have no planes yet."""


class BlockState(NamedTuple):
    """What a callback sees of a run; multipliers and planes lie in its cache.

    Fields:
      weights: w of the dual variables. clock: rounds so far. capacity: slots an example.
      planes: what the cache holds, where a checkpoint may ask for it; () elsewhere.
    """

    weights: PyTree
    clock: int
    capacity: int
    planes: Contents = ()


class BlockDetails(NamedTuple):
    """What `fit_in_blocks` says besides. blocks: how many there were. memory: as predicted."""

    blocks: int
    memory: Memory
