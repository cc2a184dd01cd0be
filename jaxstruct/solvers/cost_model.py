"""What a run will cost, foretold from shapes: how hard to compile, how much room for planes.

Shapes alone decide, so that a run that is repeated or resumed has the same programs.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from jaxstruct.core.contract import Problem
from jaxstruct.core.types import PyTree
from jaxstruct.core.work import work_of
from jaxstruct.solvers.most_violated import most_violated
from jaxstruct.solvers.settings import Settings
from jaxstruct.solvers.task import Task

CALLS = 100
"""Oracle calls an example, its share of the sweeps counted as some, that a usual run makes."""

QUICK, FAIR = 1e8, 3e10
"""Up to so many numbers in all the least effort pays, then the middle one."""

MOST_SLOTS, FEWEST_SLOTS = 64, 8
"""Slots an example that grown working sets start with, where nothing else is said."""

ROOM = 2**27
"""Bytes that planes and Gram blocks may take at the start, before slots are saved."""

_known: dict[tuple, float] = {}


def _one(tree: PyTree) -> PyTree:
    """The shapes of one example of a batch."""
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), tree)


def _most_outputs(problem: Problem, outputs: tuple[PyTree, ...]) -> float:
    """How many outputs an example has, where the structure can list them."""
    if problem.oracles.all_outputs is None:
        return math.inf
    listed = jax.eval_shape(problem.oracles.all_outputs, _one(outputs[0]))
    return jax.tree.leaves(listed)[0].shape[0]


def capacity_of(
    problem: Problem, settings: Settings, outputs: tuple[PyTree, ...], itemsize: int
) -> int:
    """Slots an example at the start, where the settings leave it open.

    The largest power of two from 8 to 64 whose planes and Gram blocks fit into `ROOM`. Where the
    structure can list its outputs, no larger a one than holds them all; never more than
    `max_capacity`.

    Args:
      outputs: the true ones, by bucket. itemsize: bytes of a number of the run.
    """
    if settings.capacity is not None:
        return settings.capacity
    slots = MOST_SLOTS
    while slots // 2 >= max(_most_outputs(problem, outputs), FEWEST_SLOTS):
        slots //= 2
    planes = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(outputs))
    rows = sum(jax.tree.leaves(part)[0].shape[0] for part in outputs)
    while slots > FEWEST_SLOTS and slots * (planes + rows * slots * itemsize) > ROOM:
        slots //= 2
    return min(slots, settings.max_capacity)


def _work_of_call(problem: Problem, oracle: str, task: Task, bucket: int) -> float:
    """Numbers that one oracle call on an example of a bucket computes."""
    x, y = _one(task.inputs[bucket]), _one(task.outputs[bucket])
    given = problem, task.terms, problem.initial_weights, x, y
    shapes = tuple((jnp.shape(leaf), jnp.result_type(leaf)) for leaf in jax.tree.leaves(given))
    key = oracle, jax.tree.structure(given), shapes
    if key not in _known:

        def call(problem: Problem, terms: PyTree, w: PyTree, x: PyTree, y: PyTree) -> PyTree:
            theta = problem.model.potentials(w, x)
            return most_violated(problem, oracle, terms, theta, y)

        _known[key] = work_of(call, *given)
    return _known[key]


def effort_of(problem: Problem, settings: Settings, oracle: str, task: Task) -> str:
    """The effort of `core.compiling.EFFORTS` for this task, where the settings leave it open."""
    if settings.effort != "auto":
        return settings.effort
    total = 0.0
    for bucket, outputs in enumerate(task.outputs):
        rows = jax.tree.leaves(outputs)[0].shape[0]
        total += CALLS * rows * _work_of_call(problem, oracle, task, bucket)
    return "quick" if total <= QUICK else "fair" if total <= FAIR else "full"
