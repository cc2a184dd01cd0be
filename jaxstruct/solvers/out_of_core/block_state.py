"""`BlockState` and `BlockDetails`: what a training in blocks goes on from, and says at its end."""

from __future__ import annotations

from typing import NamedTuple

from jaxstruct.core.types import PyTree
from jaxstruct.solvers.memory import Memory
from jaxstruct.solvers.out_of_core.plane_cache import Contents


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
