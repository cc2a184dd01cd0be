"""All rows on one device: there is nothing to move, and programs run as they are."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from jaxstruct.core.compiler import zeros_to_take_over
from jaxstruct.core.contract import Problem
from jaxstruct.core.types import Array, PyTree
from jaxstruct.solvers.n_slack.oracle_pass import (
    OracleOptions,
    OracleReport,
    PassCounts,
    oracle_program,
)
from jaxstruct.solvers.n_slack.placement import Placement
from jaxstruct.solvers.n_slack.proximal_newton import NewtonResult, newton_program
from jaxstruct.solvers.n_slack.sweeps import rebuilt_weights, sweeps_program
from jaxstruct.solvers.n_slack.task import Task
from jaxstruct.solvers.n_slack.working_sets import WorkingSets
from jaxstruct.solvers.settings import NewtonOptions, VisitOptions


class OneDevice(Placement):
    """A task on the device that JAX computes on, in the order of its buckets."""

    def __init__(
        self, problem: Problem, task: Task, sizes: tuple[int, int], seed: tuple[int, ...] = ()
    ) -> None:
        """As `Placement`; seed: of the random orders, beside those of run and round."""
        terms = jax.tree.map(np.asarray, task.terms)
        super().__init__(problem, task, (task,), terms, sizes, seeds=(seed,))

    def put(self, tree: PyTree) -> PyTree:
        """The same on the device."""
        return jax.device_put(tree)

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """Zeros that a program can take over."""
        return zeros_to_take_over(shape, dtype)

    def call_oracles(
        self, problem: Problem, options: OracleOptions, *given: Any
    ) -> tuple[WorkingSets, OracleReport, PassCounts]:
        """The program of `oracle_pass`."""
        return oracle_program(problem, options, self.task, *given)

    def sweep(
        self, options: VisitOptions, synchronisations: int, *given: Any
    ) -> tuple[PyTree, Array, Array, Array, list]:
        """The program of `sweeps_pass`; nobody waits for another."""
        return sweeps_program(self.planes, options, self.task, *given)

    def newton(
        self, options: NewtonOptions, w: PyTree | None, span: Array, sets: WorkingSets,
        *given: Any,
    ) -> NewtonResult:  # fmt: skip
        """The program of `proximal_newton_pass`; w is made by the one of sweeps."""
        if w is None:  # of the multipliers, without what moves have rounded
            orders = self.every_batch[0]
            w = rebuilt_weights(self.problem, self.task, sets, orders)
        return newton_program(self.problem, options, self.task, w, span, sets, *given)
