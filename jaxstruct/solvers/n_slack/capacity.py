"""How many slots for planes a training begins with: shapes alone decide, so that a run that is
repeated or resumed has the same programs."""

from __future__ import annotations

import math

import jax

from jaxstruct.core.contract import Problem
from jaxstruct.core.types import PyTree
from jaxstruct.solvers.settings import Settings

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
    planes = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(outputs))
    rows = sum(jax.tree.leaves(part)[0].shape[0] for part in outputs)
    while slots > FEWEST_SLOTS and slots * (planes + rows * slots * itemsize) > FIRST_BYTES:
        slots //= 2
    return min(slots, settings.max_capacity)
