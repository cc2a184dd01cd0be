"""What a run will cost, predicted from shapes: how hard to compile, how many slots for planes.

Shapes alone decide, so that a run that is repeated or resumed has the same programs.
"""

from __future__ import annotations

import math

import jax

from jaxstruct.core.contract import Problem
from jaxstruct.core.types import PyTree
from jaxstruct.core.work import Work, measure_once, work_of
from jaxstruct.solvers.n_slack.task import Task, batches_of
from jaxstruct.solvers.objective.most_violated import most_violated_of_batch
from jaxstruct.solvers.settings import Efforts, Settings, enumerates

CALLS = 100
"""Oracle calls an example that a usual run makes."""

FEW_CALLS = 10
"""The same by the rule of epsilon alone: trees took 4 to 16, alignments 16 to 25."""

SWEEPS = 5_000
"""Numbers that the sweeps compute for one oracle call."""

QUICK, FAIR, GOOD = 8e8, 3.2e10, 3e11
"""Up to so many numbers in all the least effort pays, then the fair and the good one. The oracle of
300 sentences compiles for 6.8 s with full effort and 3.0 s with the fair one; see
`core.compiling.EFFORTS`. Beyond the last lie charts of trees alone."""

EQUATIONS = 700
"""Of an oracle call of whose size QUICK is; larger ones compile for longer. FAIR holds for all: of
trees it takes 1.5 times as long as full effort."""

EVALUATIONS = 300
"""Of all planes, each about as dear as a call of the oracle, in the Newton steps of a run."""

NEWTON_EQUATIONS = 4_200
"""That Newton's program counts as: the least effort compiles it in 1.3 s, the middle one in 4.8,
which is more than they differ by on ten times the digits."""

PREDICTIONS = 10
"""How often a program of `predict` is expected to run on as many inputs as the first time."""

MOST_SLOTS, FEWEST_SLOTS = 64, 8
"""Slots an example that grown working sets start with, where nothing else is said. A doubling
compiles everything again, which from 8 slots it did three times; empty slots cost next to
nothing."""

FIRST_BYTES = 2**27
"""Bytes that planes and Gram blocks may take at the start, before slots are saved."""


def _rows(tree: PyTree, batch: int) -> PyTree:
    """The shapes of a smaller batch."""
    return jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct((batch, *leaf.shape[1:]), leaf.dtype), tree
    )


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
    planes = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(outputs))
    rows = sum(jax.tree.leaves(part)[0].shape[0] for part in outputs)
    while slots > FEWEST_SLOTS and slots * (planes + rows * slots * itemsize) > FIRST_BYTES:
        slots //= 2
    return min(slots, settings.max_capacity)


def effort_for(numbers: float, equations: int) -> str:
    """The effort that pays for a program that computes so many numbers in all its runs.

    Args:
      equations: of its trace, which compiling takes time for.
    """
    quick = QUICK * max(equations / EQUATIONS, 1)
    if numbers <= quick:
        return "quick"
    return "fair" if numbers <= FAIR else "good" if numbers <= GOOD else "full"


def predicted_calls(tolerance: float | None, max_passes: int) -> int:
    """Oracle calls an example of a run by these rules of `fit`, two in a pass with certificate.

    Args:
      tolerance: None where the run stops by epsilon alone.
    """
    return min(CALLS if tolerance is not None else FEW_CALLS, 2 * max_passes)


def _work_of_batch(problem: Problem, oracle: str, task: Task, bucket: int, batch: int) -> Work:
    """Of the oracle calls on a batch of a bucket."""

    def calls(problem: Problem, terms: PyTree, w: PyTree, x: PyTree, y: PyTree) -> PyTree:
        return most_violated_of_batch(problem, oracle, terms, w, x, y)

    x, y = (_rows(tree, batch) for tree in (task.inputs[bucket], task.outputs[bucket]))
    return measure_once(work_of, oracle, calls, problem, task.terms, problem.initial_weights, x, y)


def efforts_of(
    problem: Problem, settings: Settings, oracle: str, task: Task, calls: int = CALLS
) -> Efforts:
    """The effort of each program of this task, where the settings leave it open.

    Args:
      calls: oracle calls an example that the run will make, see `predicted_calls`.
    """
    if isinstance(settings.effort, Efforts):
        return settings.effort
    if settings.effort != "auto":
        return Efforts(*[settings.effort] * len(Efforts._fields))
    rows, numbers, equations = 0, 0.0, 0
    for bucket, outputs in enumerate(task.outputs):
        count = jax.tree.leaves(outputs)[0].shape[0]
        _, batch = batches_of(count, settings.oracle_batch)
        work = _work_of_batch(problem, oracle, task, bucket, batch)
        rows, numbers = rows + count, numbers + count * work.numbers / batch
        equations = max(equations, work.equations)
    sweeps = effort_for(calls * (numbers + rows * SWEEPS), equations)
    return Efforts(
        oracle=effort_for(calls * numbers, equations) if enumerates(problem, settings) else sweeps,
        sweeps=sweeps,
        newton=effort_for(EVALUATIONS * numbers, NEWTON_EQUATIONS),
    )
