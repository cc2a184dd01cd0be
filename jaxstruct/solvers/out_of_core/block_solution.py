"""`BlockState` and `BlockSolution`: what a training in blocks goes on from, and what it returns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jaxstruct.core.types import PyTree
from jaxstruct.solvers.loop.status import Status
from jaxstruct.solvers.loop.trace import Statistics, Trace
from jaxstruct.solvers.memory import Memory
from jaxstruct.solvers.objective.certificate import Certificate
from jaxstruct.solvers.out_of_core.plane_cache import Contents
from jaxstruct.solvers.solution import description, summary


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


class BlockSolution(NamedTuple):
    """The result of `fit_in_blocks`; the fields are those of `Solution`, without its state.

    Fields:
      weights: w of the best primal found. status, message: how it ended.
      primal, dual, gap: best P, best D and P - D.
      certificate: of the last certified round, over all examples. slack: [n] its xi_i.
      blocks: how many there were. memory: what was foretold.
      statistics: counts and times. formulation, C: what was solved.
    """

    weights: PyTree
    status: Status
    message: str
    primal: float
    dual: float
    gap: float
    certificate: Certificate
    slack: np.ndarray
    blocks: int
    memory: Memory
    statistics: Statistics
    formulation: str
    C: float

    def __repr__(self) -> str:
        """One line without the arrays."""
        return summary(self, self.statistics.passes, self.statistics.planes_kept)

    def __str__(self) -> str:
        """A few lines: how it ended, the certificate, counts and seconds by part."""
        return description(self)

    @property
    def trace(self) -> Trace:
        """The course of the training, a row a round, as a table; it can be printed and saved."""
        return self.statistics.history
