"""What rounds ask of the devices that a task lies on, where it is more than one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from jaxstruct.core.contract import Problem
from jaxstruct.core.types import AnyArray, PyTree
from jaxstruct.solvers.settings import VisitOptions
from jaxstruct.solvers.task import Task


class Placement(Protocol):
    """Where the rows of a task lie; see `shards.Shards`."""

    task: Task
    parts: tuple[Task, ...]

    def put(self, tree: PyTree) -> PyTree:
        """Arrays over all rows, where the rows are; scalars everywhere."""
        ...

    def join(self, parts: Sequence[PyTree]) -> PyTree:
        """What the host has for each part, as programs take it."""
        ...

    def in_buckets(self, flat: AnyArray) -> np.ndarray:
        """An array over all rows in the order of buckets."""
        ...

    def call_oracles(self, problem: Problem, options: Any, *given: Any, effort: str) -> tuple:
        """`oracle_pass.oracle_pass` on every part."""
        ...

    def sweep(
        self, planes: Problem, options: VisitOptions, meetings: int, *given: Any, effort: str
    ) -> tuple:
        """`sweeps.sweeps_pass` on every part, which meet so often a sweep."""
        ...
