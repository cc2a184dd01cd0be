"""What rounds ask of the devices that a task lies on, where it is more than one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from jaxstruct.core.contract import Problem
from jaxstruct.core.processes import Processes
from jaxstruct.core.types import AnyArray, Array, PyTree
from jaxstruct.solvers.n_slack.task import Task
from jaxstruct.solvers.objective.certificate import ExampleTerms
from jaxstruct.solvers.objective.formulations import Penalty
from jaxstruct.solvers.settings import NewtonOptions, VisitOptions


class Placement(Protocol):
    """Where the rows of a task lie; see `shards.Shards`."""

    task: Task
    parts: tuple[Task, ...]
    first: int
    counts: np.ndarray
    terms: Penalty
    processes: Processes

    @property
    def rows(self) -> int:
        """How many rows the parts of this process have."""
        ...

    def put(self, tree: PyTree) -> PyTree:
        """Arrays over the rows of this process, where the rows are; scalars everywhere."""
        ...

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """Zeros over all rows, where the rows are, which a program can take over."""
        ...

    def join(self, parts: Sequence[PyTree]) -> PyTree:
        """What the host has for each part, as programs take it."""
        ...

    def own(self, tree: PyTree) -> PyTree:
        """Arrays over all rows on the host, the rows of this process alone."""
        ...

    def gathered(self, tree: PyTree) -> PyTree:
        """Arrays over the rows of this process as arrays over all rows, on every host."""
        ...

    def on_hosts(self, terms: ExampleTerms) -> ExampleTerms:
        """What oracle calls said of all rows, on every host."""
        ...

    def in_buckets(self, flat: AnyArray) -> np.ndarray:
        """An array over all rows in the order of buckets, those of this process."""
        ...

    def call_oracles(self, problem: Problem, options: Any, *given: Any, effort: str) -> tuple:
        """`oracle_pass.oracle_pass` on every part."""
        ...

    def sweep(
        self,
        planes: Problem,
        options: VisitOptions,
        synchronisations: int | None,
        *given: Any,
        effort: str,
    ) -> tuple:
        """`sweeps.sweeps_pass` on every part, which meet so often a sweep; see `Settings`."""
        ...

    def newton(self, problem: Problem, options: NewtonOptions, *given: Any, effort: str) -> Any:
        """`proximal_newton.proximal_newton_pass` over all parts, w made of the span."""
        ...
