"""What stays as it is during a run, with every choice of its settings made."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.contract import Problem, output_of
from jaxstruct.core.types import PyTree
from jaxstruct.solvers.n_slack.one_device import OneDevice
from jaxstruct.solvers.n_slack.sweeps import SweepBuffers
from jaxstruct.solvers.n_slack.task import Task
from jaxstruct.solvers.objective.formulations import Formulation
from jaxstruct.solvers.settings import ResolvedSettings, Settings, VisitOptions, enumerates
from jaxstruct.solvers.validation.oracle_rules import Sample

Number = TypeVar("Number", int, float)

FEW_OUTPUTS = 32
"""Enumerated working sets of no more slots are swept whole, by one program."""

ENUMERATED, GROWN = (40, 0.1, 2, 8), (50, 0.2, 10, 24)
"""Of such working sets, where the settings leave it open: sweeps a round at most, the part of the
first one's gain at which they end, pairwise steps a visit, slots an example that sweeps see.

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
    settings, enumerated = settings._replace(oracle_batch=batch), enumerates(problem, settings)
    sweeps, fading, steps, active = ENUMERATED if enumerated else GROWN
    slots = most_outputs(problem, task.outputs) if enumerated else math.inf
    if settings.active is not None:
        active = settings.active
    elif slots <= FEW_OUTPUTS:
        active = 0
    if settings.variant == "full" or active >= slots:
        active = 0
    whole = enumerated and not active  # sweeps see all that there is
    dtype = jnp.result_type(*jax.tree.leaves(problem.initial_weights))
    visits = group, _chosen(settings.block_steps, steps), _chosen(settings.fading, fading)
    chosen = {
        "enumerated": enumerated,
        "capacity": capacity_of(problem, settings, task.outputs, dtype.itemsize),
        "visits": VisitOptions(*visits),
        "cached_sweeps": _chosen(settings.cached_sweeps, sweeps),
        "active": active,
        "coverage": _chosen(settings.coverage, WHOLE_COVERAGE if whole else COVERAGE),
        "checked_examples": checked,
        "synchronisations": settings.synchronisations or max(FEWEST_SYNCHRONISATIONS, shards),
    }
    given: dict[str, Any] = {
        name: getattr(settings, name, None) for name in ResolvedSettings._fields
    }
    return ResolvedSettings(**given | chosen)


def _chosen(given: Number | None, usual: Number) -> Number:
    return usual if given is None else given


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
