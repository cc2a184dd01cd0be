"""Where the rows of a task lie, and what rounds ask of the devices there.

On one device there is nothing to move, and programs run as they are; `mesh.Shards` overrides what
is different where the rows lie over several.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import jax
import numpy as np

from jaxstruct.core.buckets import bucket_slices
from jaxstruct.core.compiler import zeros_to_take_over
from jaxstruct.core.contract import Problem, of_planes
from jaxstruct.core.processes import ALONE, Processes
from jaxstruct.core.types import AnyArray, Array, PyTree
from jaxstruct.solvers.n_slack.oracle_pass import oracle_program
from jaxstruct.solvers.n_slack.proximal_newton import NewtonResult, newton_program
from jaxstruct.solvers.n_slack.state import State
from jaxstruct.solvers.n_slack.sweeps import rebuilt_weights, sweeps_program
from jaxstruct.solvers.n_slack.task import Task, by_size, sized_rows
from jaxstruct.solvers.objective.certificate import Certificate, ExampleTerms, roundings_of_rows
from jaxstruct.solvers.objective.formulations import Penalty
from jaxstruct.solvers.settings import NewtonOptions, VisitOptions


class OneDevice:
    """A task on the device that JAX computes on, in the order of its buckets.

    Fields:
      problem: where the programs of all devices find it. planes: the same as `of_planes`.
      task: on the devices. parts: what each device of this host has, as the host plans by it.
      first: the number of the first of these parts among those of all hosts.
      seeds: beside seed and clock, of the random orders of each part.
      terms: cap and ridge of all rows, on the host. examples: how many of them have a weight.
      processes: those that train together.
      sized: of `sized_rows`, a list for each part. slices: which rows of a part a bucket has.
      each: rows of a part. rows: of the parts of this host.
      batches: [K, B] how many batches of each bucket hold examples, of the parts of all hosts.
    """

    def __init__(
        self, problem: Problem, task: Task, sizes: tuple[int, int], seed: tuple[int, ...] = ()
    ) -> None:
        """All rows here. sizes: of `batch_and_group`. seed: of random orders, beside others."""
        terms = jax.tree.map(np.asarray, task.terms)
        self._hold(problem, task, (task,), terms, sizes, ALONE, 0, (seed,))

    def _hold(
        self, problem: Problem, task: Task, parts: tuple[Task, ...], terms: Penalty,
        sizes: tuple[int, int], processes: Processes, first: int, seeds: Sequence[tuple[int, ...]],
    ) -> None:  # fmt: skip
        self.problem, self.planes = problem, of_planes(problem, sizes[1])
        self.task, self.parts, self.terms = task, parts, terms
        self.processes, self.first, self.seeds = processes, first, seeds
        self.examples = int(np.sum(terms.cap > 0))
        self.sized = [sized_rows(part, *sizes) for part in parts]
        self.slices = bucket_slices(parts[0].outputs)
        self.each = self.slices[-1].stop
        self.rows = self.each * len(parts)
        own = [[-(-bucket.examples // bucket.shape[1]) for bucket in part] for part in self.sized]
        self.batches = np.concatenate([np.array(each) for each in processes.gather(own)])

    def place_of(self, part: int) -> int:
        """The first of all rows that one of the parts holds."""
        return (self.first + part) * self.each

    def of_part(self, rows: np.ndarray, part: int) -> np.ndarray:
        """Those of some rows that one of the parts holds, as it counts them."""
        own = rows - self.place_of(part)
        return own[(own >= 0) & (own < self.each)]

    @cached_property
    def real_rows(self) -> np.ndarray:
        """The rows that are no padding, of the parts of this host."""
        return np.concatenate(
            [
                self.place_of(part) + own.start + np.arange(bucket.examples)
                for part, buckets in enumerate(self.sized)
                for own, bucket in zip(self.slices, buckets, strict=True)
            ]
        )

    @cached_property
    def every_batch(self) -> tuple[PyTree, PyTree]:
        """(orders, spans) of `Calls` of all examples, outputs of about one size side by side."""
        orders, spans = [], []
        for part, buckets in enumerate(self.sized):
            orders.append(tuple(jax.device_put(by_size(buckets, None))))
            used = self.batches[self.first + part]
            spans.append(tuple((np.int32(0), np.int32(count)) for count in used))
        return self.join(orders), self.join(spans)

    @cached_property
    def off_by(self) -> np.ndarray:
        """[N] of `roundings_of_rows`: the parts of all hosts are of the same shapes."""
        own = roundings_of_rows(self.parts[0].inputs, self.parts[0].outputs)
        return np.tile(own, self.terms.cap.shape[0] // len(own))

    # The programs, on every part; given: what they take after the task.

    def call_oracles(self, problem: Problem, options: Any, *given: Any) -> tuple:
        """`oracle_pass.oracle_pass`."""
        return oracle_program(problem, options, self.task, *given)

    def sweep(self, options: VisitOptions, synchronisations: int, *given: Any) -> tuple:
        """`sweeps.sweeps_pass` on parts that meet so often a sweep."""
        return sweeps_program(self.planes, options, self.task, *given)

    def newton(
        self, options: NewtonOptions, w: PyTree | None, span: Array, sets: Any, *given: Any
    ) -> NewtonResult:
        """`proximal_newton.proximal_newton_pass`; w: None to be made of the span, which is that of
        the multipliers then: of these, without what moves have rounded."""
        if w is None:
            w = rebuilt_weights(self.problem, self.task, sets, self.every_batch[0])
        return newton_program(self.problem, options, self.task, w, span, sets, *given)

    # What moves arrays between host and devices, and between orders of rows.

    def put(self, tree: PyTree) -> PyTree:
        """Arrays over the rows of this host, where the rows are; scalars everywhere."""
        return jax.device_put(tree)

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """Zeros over all rows, where the rows are, which a program can take over."""
        return zeros_to_take_over(shape, dtype)

    def join(self, parts: Sequence[PyTree]) -> PyTree:
        """What the host has for each of its parts, as programs take it."""
        return parts[0]

    def own(self, tree: PyTree) -> PyTree:
        """Arrays over all rows in NumPy, the rows of this host alone."""
        return jax.tree.map(np.asarray, tree)

    def gathered(self, tree: PyTree) -> PyTree:
        """Arrays over the rows of this host as arrays over all rows, on every host."""
        return tree

    def on_hosts(self, terms: ExampleTerms) -> ExampleTerms:
        """What oracle calls said of all rows, where every host can read it."""
        return terms

    def agreed(self, certificate: Certificate) -> Certificate:
        """The certificate of one host: they round sums differently, but decide alike."""
        return certificate

    def in_buckets(self, flat: AnyArray) -> np.ndarray:
        """[N, ...] an array over all rows in the order of buckets, those of this host."""
        return np.asarray(flat)

    def begin(self, states: Sequence[State]) -> State:
        """The state of all parts, from one of each."""
        return states[0]

    def place(self, state: State) -> State:
        """A state in the order of buckets, where the rows are."""
        return state

    def taken(self, tree: PyTree) -> PyTree:
        """Arrays that are on all devices, or over the rows, as they are, on one device."""
        return tree

    def end(self, state: State) -> State:
        """A state in the order of buckets, on one device; the rows of this host."""
        return state
