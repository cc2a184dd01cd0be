"""A run of the cutting plane algorithm: its state, where its rows lie, and what stays as it is.

On one device there is nothing to move, and programs run as they are; `mesh.Shards` overrides what
is different where the rows lie over several.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.buckets import bucket_slices
from jaxstruct.core.compiler import to_take_over
from jaxstruct.core.contract import Problem, of_planes, output_of
from jaxstruct.core.processes import ALONE, Processes
from jaxstruct.core.types import AnyArray, Array, PyTree
from jaxstruct.solvers.n_slack.oracle_pass import oracle_program
from jaxstruct.solvers.n_slack.proximal_newton import NewtonResult, newton_program
from jaxstruct.solvers.n_slack.sweeps import SweepBuffers, rebuilt_weights, sweeps_program
from jaxstruct.solvers.n_slack.task import Task, by_size, sized_rows
from jaxstruct.solvers.n_slack.working_sets import WorkingSets
from jaxstruct.solvers.objective.certificate import Certificate, ExampleTerms, roundings_of_rows
from jaxstruct.solvers.objective.formulations import Formulation, Penalty
from jaxstruct.solvers.objective.scaling import Ray
from jaxstruct.solvers.settings import ResolvedSettings, Settings, VisitOptions, enumerates
from jaxstruct.solvers.validation.oracle_rules import Sample


class State(NamedTuple):
    """What the next step needs.

    Fields:
      weights: w of the dual variables (or, in the full variant, of span).
      sets: the working sets with the dual variables beta.
      span: [N, K] with w = Phi span in the full variant; None where the next full step starts from
        beta itself (after a subspace round, or after a plane was evicted).
      sigma: proximal step length of the full variant.
      clock: rounds so far.
      block_gaps: [N] each example's part of the duality gap at its last oracle call, or None.
      slots: [N, active] slots that the last oracle call chose for restricted sweeps, or None.
      gaps: [STALL_ROUNDS] the relative gaps of the last rounds, infinite before there were any.
      full: whether the full variant has taken over, where the variant is chosen by the run.
    """

    weights: PyTree
    sets: WorkingSets
    span: Array | None
    sigma: float
    clock: int
    block_gaps: np.ndarray | None
    slots: Array | None = None
    gaps: np.ndarray | None = None
    full: int = 0


class Info(NamedTuple):
    """What a person wants to see of a step.

    Fields:
      certificate: primal, dual, violation and the rest at the new w, or None in a round that was
        not certified.
      estimate: the same numbers from the oracle calls of the exact pass, each at the w it met, so
        proof of nothing; the certificate where there is one.
      planes_added: in this round. overflow: examples that had no slot for a violated output.
      oracle_calls: in this round, of single examples; those of weight 0 and rows of padding, which
        the oracle sees too, are not counted. seconds: of each part, by name.
      slack: [N] slack of every row of the task at w, or None as the certificate.
      ray: for the multiples of w, or None: see `cutting_plane.least_multiple_of`.
    """

    certificate: Certificate | None
    estimate: Certificate
    planes_added: int
    overflow: int
    oracle_calls: int
    seconds: dict[str, float]
    slack: np.ndarray | None
    ray: Ray | None = None


def own_weights(problem: Problem) -> PyTree:
    """The initial weights in buffers of their own, which programs take over."""
    return jax.tree.map(partial(jax.device_put, may_alias=False), problem.initial_weights)


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
        self,
        problem: Problem,
        task: Task,
        sizes: tuple[int, int],
        seeds: Sequence[tuple[int, ...]] = ((),),
        parts: tuple[Task, ...] | None = None,
        terms: Penalty | None = None,
        processes: Processes = ALONE,
        first: int = 0,
    ) -> None:
        """All rows here, but for the arguments of a mesh. sizes: of `batch_and_group`."""
        self.problem, self.planes = problem, of_planes(problem, sizes[1])
        self.task, self.parts = task, parts or (task,)
        self.terms = jax.tree.map(np.asarray, task.terms) if terms is None else terms
        self.processes, self.first, self.seeds = processes, first, seeds
        self.examples = int(np.sum(self.terms.cap > 0))
        self.sized = [sized_rows(part, *sizes) for part in self.parts]
        self.slices = bucket_slices(self.parts[0].outputs)
        self.each = self.slices[-1].stop
        self.rows = self.each * len(self.parts)
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

    def call_oracles(self, options: Any, *given: Any) -> tuple:
        """`oracle_pass.oracle_pass`."""
        return oracle_program(self.problem, options, self.task, *given)

    def sweep(self, options: VisitOptions, synchronisations: int, *given: Any) -> tuple:
        """`sweeps.sweeps_pass` on parts that meet so often a sweep."""
        return sweeps_program(self.planes, options, self.task, *given)

    def newton(self, w: PyTree | None, span: Array, sets: Any, *given: Any) -> NewtonResult:
        """`proximal_newton.proximal_newton_pass`; w: None to be made of the span, which is that of
        the multipliers then: of these, without what moves have rounded."""
        if w is None:
            w = rebuilt_weights(self.problem, self.task, sets, self.every_batch[0])
        return newton_program(self.problem, self.task, w, span, sets, *given)

    # What moves arrays between host and devices, and between orders of rows.

    def put(self, tree: PyTree) -> PyTree:
        """Arrays over the rows of this host, where the rows are; scalars everywhere."""
        return jax.device_put(tree)

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """Zeros over all rows, where the rows are, which a program can take over."""
        return to_take_over(np.zeros(shape, dtype))

    def join(self, parts: Sequence[PyTree]) -> PyTree:
        """What the host has for each of its parts, as programs take it."""
        return parts[0]

    def own(self, tree: PyTree) -> PyTree:
        """Arrays over all rows in NumPy, the rows of this host alone."""
        return jax.tree.map(np.asarray, tree)

    def gathered(self, tree: PyTree) -> PyTree:
        """Arrays over the rows of this host as arrays over all rows, on every host."""
        return tree

    def on_hosts(self, numbers: AnyArray) -> ExampleTerms:
        """What oracle calls said of all rows, where every host can read it."""
        return ExampleTerms.of_columns(numbers)

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


FEW_OUTPUTS = 32
"""Enumerated working sets of no more slots are swept whole, by one program."""

ENUMERATED, GROWN = (40, 0.1, 2, 8), (50, 0.2, 10, 24)
"""Of such working sets: sweeps a round at most, the part of the first one's gain at which they
end, pairwise steps a visit, slots an example that sweeps see; settings may say the first and last.

Enumerated sets gain by cheap visits and few rounds: digits at C/n = 1 took .27 s so, .40 with ten
steps and ten sweeps that end at a fifth. With grown sets a path of eight values of C over 300 OCR
words took 154 rounds so, 374 with 12 slots, 187 with 20 sweeps; one training of them took a tenth
longer with 2, 3 or 5 steps."""

COVERAGE, WHOLE_COVERAGE = 0.99, 0.999
"""Of the gap, by the blocks that a sweep visits; the second where it sees all slots. Small gaps add
up: with 80 to 90 % enumerated sets took several times the rounds, OCR words 46 for 32."""

FEWEST_SYNCHRONISATIONS = 4
"""In a sweep over several shards, where the settings leave it open. OCR words in two shards took
132 rounds with one a round, 36 with one a sweep, 30 with four, 28 with sixteen, which take 1.7
times as long."""


class Run(NamedTuple):
    """The fixed side of a run of the cutting plane algorithm, made by `prepare_run`.

    Fields:
      problem, formulation: what is solved. settings: how.
      task: the examples of this host in the order of buckets, padded. placement: where they lie.
      rows: [N] the example of each row of the task, -1 where it is padding.
      oracle: which one, see `oracle_for`. sample: examples on which it is tried, or None.
      buffers: what sweeps leave for the next ones.
    """

    problem: Problem
    formulation: Formulation
    settings: ResolvedSettings
    task: Task
    placement: OneDevice
    rows: np.ndarray
    oracle: str
    sample: Sample | None
    buffers: SweepBuffers


def resolved_settings(
    problem: Problem,
    settings: Settings,
    task: Task,
    sizes: tuple[int, int],
    checked: int = 0,
    shards: int = 1,
) -> ResolvedSettings:
    """The settings of a run with no choice left open.

    Args:
      task: what one device has. sizes: of `batch_and_group`. checked: of `examples_to_check`.
      shards: of a mesh.
    """
    batch, group = sizes
    enumerated = enumerates(problem, settings)
    sweeps, fading, steps, active = ENUMERATED if enumerated else GROWN
    slots = most_outputs(problem, task.outputs) if enumerated else math.inf
    if settings.active is not None or slots <= FEW_OUTPUTS:
        active = settings.active or 0
    if settings.variant == "full" or active >= slots:
        active = 0
    dtype = jnp.result_type(*jax.tree.leaves(problem.initial_weights))
    made: dict[str, Any] = settings._asdict() | {
        "enumerated": enumerated,
        "capacity": capacity_of(problem, settings, task.outputs, dtype.itemsize),
        "oracle_batch": batch,
        "visits": VisitOptions(group, steps, fading),
        "cached_sweeps": sweeps if settings.cached_sweeps is None else settings.cached_sweeps,
        "active": active,
        # of enumerated sets that are seen whole sweeps see all that there is
        "coverage": WHOLE_COVERAGE if enumerated and not active else COVERAGE,
        "checked_examples": checked,
        "synchronisations": settings.synchronisations or max(FEWEST_SYNCHRONISATIONS, shards),
    }
    return ResolvedSettings(**{name: made[name] for name in ResolvedSettings._fields})


MOST_SLOTS, FEWEST_SLOTS = 64, 8
"""Slots an example that grown working sets start with, where nothing else is said. A doubling
compiles everything again, which from 8 slots it did three times; empty slots cost next to
nothing."""

FIRST_BYTES = 2**27
"""Bytes that planes and Gram blocks may take at the start, before slots are saved."""


def _one(tree: PyTree) -> PyTree:
    """The shapes of one example of a batch."""
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), tree)


def most_outputs(problem: Problem, outputs: tuple[PyTree, ...]) -> float:
    """How many outputs an example has, where the structure can list them."""
    if problem.oracles.all_outputs is None:
        return math.inf
    listed = jax.eval_shape(problem.oracles.all_outputs, _one(outputs[0]))
    return jax.tree.leaves(listed)[0].shape[0]


def capacity_of(
    problem: Problem, settings: Settings, outputs: tuple[PyTree, ...], itemsize: int
) -> int:
    """Slots an example at the start, where the settings leave it open.

    The largest power of two from 8 to 64 whose planes and Gram blocks fit into `FIRST_BYTES`.
    Where the structure can list its outputs, no larger a one than holds them all; never more than
    `max_capacity`.

    Args:
      outputs: the true ones, by bucket. itemsize: bytes of a number of the run.
    """
    if settings.capacity is not None:
        return settings.capacity
    slots, fewest = MOST_SLOTS, max(most_outputs(problem, outputs), FEWEST_SLOTS)
    while slots // 2 >= fewest:
        slots //= 2
    planes = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(output_of(outputs)))
    rows = sum(jax.tree.leaves(part)[0].shape[0] for part in outputs)
    while slots > FEWEST_SLOTS and slots * (planes + rows * slots * itemsize) > FIRST_BYTES:
        slots //= 2
    return min(slots, settings.max_capacity)


def named_slots(settings: ResolvedSettings, sets: WorkingSets) -> int:
    """How many active slots an example oracle calls name for sweeps; 0 where these see all."""
    return settings.active if settings.active < sets.losses.shape[1] else 0
