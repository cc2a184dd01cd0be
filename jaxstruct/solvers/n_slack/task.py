"""The fixed side of a run: padded examples, their order in batches; walks through the buckets.

A walk carries what it writes: an oracle pass the working sets, which its loop writes in place; a
sweep w and the multipliers, and it is closed over the planes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.buckets import bucket_slices, rows_of, typed, typed_outputs
from jaxstruct.core.contract import Problem, output_of
from jaxstruct.core.sizes import size_class
from jaxstruct.core.types import AnyArray, Array, PyTree
from jaxstruct.solvers.objective.formulations import Objective, Penalty, penalty
from jaxstruct.solvers.settings import Settings, batch_and_group

MIXED = 0.1
"""By how much of the largest size outputs of one batch may differ at random."""


class Task(NamedTuple):
    """What stays fixed during a run: padded examples and the numbers of the formulation.

    Fields:
      inputs, outputs: one pytree a bucket, leaves [N_b, ...]; N = sum N_b rows in all, in the order
        of the buckets.
      terms: the cap and ridge of each of the N rows; a row of padding has cap 0.
      counts: how many rows of each bucket, the first ones, are examples; None where all are.
    """

    inputs: tuple[PyTree, ...]
    outputs: tuple[PyTree, ...]
    terms: Penalty
    counts: tuple[np.int32, ...] | None = None

    def own_terms(self, index: AnyArray | slice) -> Penalty:
        """The cap and ridge of some rows."""
        return self.terms._replace(cap=self.terms.cap[index], ridge=self.terms.ridge[index])


def sizes_of(outputs: PyTree) -> np.ndarray:
    """[N_b] the integers of each output that are no padding, which is negative."""
    leaves = [np.asarray(leaf) >= 0 for leaf in jax.tree.leaves(output_of(outputs))]
    return np.sum([np.sum(real.reshape(len(real), -1), axis=1) for real in leaves], axis=0)


def padded_rows(tree: PyTree, total: int) -> PyTree:
    """The first row repeated up to `total` rows; NumPy's arrays, of which parts cost nothing."""

    def pad(leaf: np.ndarray) -> np.ndarray:
        leaf = np.asarray(leaf)
        short = total - leaf.shape[0]
        return np.concatenate([leaf, np.repeat(leaf[:1], short, axis=0)])

    return jax.tree.map(pad, tree)


def pad_examples(tree: PyTree, total: int) -> PyTree:
    """`padded_rows` on the device; padding carries weight 0."""
    return jax.tree.map(jax.device_put, padded_rows(tree, total))


def batches_of(rows: int, batch: int, group: int = 1) -> tuple[int, int]:
    """(how many batches, rows in each): at most `batch`, a multiple of `group`, little padding."""
    count = -(-rows // batch)
    return count, -(-rows // (count * group)) * group


FEW_ROWS = 24
"""Where batches are small, up to so many rows are of one class: those of padding cost nothing, and
a training that grows from 1 to 24 examples compiles nothing anew (algorithm 1, batches of one)."""


def fewest_batches(batch: int) -> int:
    """How many batches there are at least, where the settings ask for batches of this size."""
    return max(FEW_ROWS // batch, 1)


def batches_of_class(rows: int, batch: int, group: int = 1, fewest: int = 1) -> tuple[int, int]:
    """(how many batches, rows in each) of all numbers of rows of one size class.

    Args:
      rows: at least 1. batch: rows in a batch, at most; a multiple of `group`.
      fewest: of `fewest_batches`.
    """
    size = min(batch, -(-size_class(rows) // group) * group)
    return size_class(-(-rows // size), fewest), size


Shapes: TypeAlias = list[tuple[int, int]]
"""One (batches, rows in each) a bucket."""


def batch_shapes(
    problem: Problem, settings: Settings, counts: list[int], shards: int = 1
) -> Shapes:
    """The shapes of buckets of so many examples; shards: of a mesh, which hold as many each."""
    batch, group = batch_and_group(problem, settings, max(counts), shards)
    fewest = fewest_batches(settings.oracle_batch)
    return [batches_of_class(max(own, 1), batch, group, fewest) for own in counts]


Places: TypeAlias = list[np.ndarray]
"""One [N_b] a bucket: which of its examples a row of the task holds, -1 for padding."""


def row_index(
    index: tuple[np.ndarray, ...], shapes: Shapes, places: Places | None = None
) -> np.ndarray:
    """[N] the example of every row of a task, -1 where it is padding.

    Args:
      places: None for examples in their order, then padding.
    """
    parts = []
    for number, (own, shape) in enumerate(zip(index, shapes, strict=True)):
        rows = np.full(math.prod(shape), -1)
        if places is None:
            rows[: len(own)] = own
        else:
            real = places[number] >= 0
            rows[real] = own[places[number][real]]
        parts.append(rows)
    return np.concatenate(parts)


def make_task(
    objective: Objective, shapes: Shapes, places: Places | None = None, n: int | None = None
) -> Task:
    """The fixed side of a run, every bucket padded to whole batches with weight 0.

    Args:
      objective: of `Buckets`. shapes: of the buckets.
      places: None for examples in their order, on the device; otherwise everything stays on the
        host, for those who place it elsewhere.
      n: examples that C is divided by; None for those that are here. The weights are those that the
        index of the outputs counts: of all examples, or of those of this process.
    """
    problem, inputs, outputs, formulation, C, example_weights = objective
    rows = row_index(outputs.index, shapes, places)
    n, last = int(np.sum(rows >= 0)) if n is None else n, int(np.max(rows, initial=0))
    given = np.ones(last + 1) if example_weights is None else np.asarray(example_weights)
    given = given.astype(np.float64)
    weights = np.where(rows >= 0, given[rows], 0.0)
    dtype = jnp.result_type(*jax.tree.leaves(problem.initial_weights))

    def padded(parts: tuple[PyTree, ...]) -> tuple[PyTree, ...]:
        found = []
        for number, part in enumerate(parts):
            if places is None:
                found.append(pad_examples(part, math.prod(shapes[number])))
            else:
                held = np.maximum(places[number], 0)
                found.append(jax.tree.map(lambda leaf, held=held: leaf[held], part))
        return tuple(found)

    return Task(
        padded(tuple(typed(dtype, part) for part in inputs.parts)),
        padded(tuple(typed_outputs(dtype, part) for part in outputs.parts)),
        penalty(formulation, C, weights, n, str(dtype)),
        tuple(np.int32(len(own)) for own in outputs.index) if places is None else None,
    )


class SizedRows(NamedTuple):
    """The rows of one bucket by their sizes, the same in all rounds.

    Fields:
      sizes: [N_b] of the outputs. shape: (batches, rows in each). examples: how many rows are some.
      drawn: rows of the size class without those that small batches add: they change no order.
    """

    sizes: np.ndarray
    shape: tuple[int, int]
    examples: int
    drawn: int


def sized_rows(task: Task, batch: int, group: int) -> list[SizedRows]:
    """The rows of each bucket; batch, group: of `batch_and_group`."""
    found = []
    for number, outputs in enumerate(task.outputs):
        rows = rows_of(outputs)
        count = rows if task.counts is None else int(task.counts[number])
        drawn = min(math.prod(batches_of_class(count, batch, group)), rows)
        sizes = sizes_of(outputs).astype(float)
        found.append(SizedRows(sizes, batches_of(rows, batch), count, drawn))
    return found


def by_size(buckets: Sequence[SizedRows], jitter: np.random.Generator | None) -> list[np.ndarray]:
    """One [batches, B] a bucket: outputs of about one size side by side, since a batch costs what
    its largest does; with a jitter in another order each time. Rows of padding come last."""
    orders = []
    for own in buckets:
        sizes = own.sizes.copy()
        if jitter is not None:
            most = MIXED * sizes.max()
            sizes[: own.drawn] += jitter.uniform(-most, most, own.drawn)
        sizes[own.examples :] = np.inf
        orders.append(np.argsort(sizes, kind="stable").astype(np.int32).reshape(own.shape))
    return orders


TURNS = 16
"""Into how many parts a sweep over several buckets is cut, so that their examples mix: one bucket
after the other is a cyclic order, 77 to 90 rounds of OCR words where mixed ones take 35."""


def bucket_task(task: Task, number: int) -> Task:
    """One bucket as a task of its own, its inputs and outputs no longer in tuples."""
    own = bucket_slices(task.outputs)[number]
    return Task(task.inputs[number], task.outputs[number], task.own_terms(own))


def interleave(
    spans: tuple[tuple[Array, Array], ...],
    turns: int,
    bodies: list[Callable],
    shared: PyTree,
    own: list[PyTree],
) -> tuple[PyTree, list[PyTree]]:
    """Run bodies[b] for first_b..last_b-1, the buckets taking turns; (shared, own) at the end.

    Visiting one bucket after the other would be a cyclic order, which takes twice as many rounds:
    the examples of all buckets must be mixed.

    Args:
      spans: (first_b, last_b). turns: static, into how many parts each span is cut.
      bodies: (at, shared, own_b) -> (shared, own_b).
      shared: what all bodies read and write. own: of each body.
    """

    def turn(number: Array, state: tuple) -> tuple:
        shared, after = state[0], []
        for (start, stop), body, own in zip(spans, bodies, state[1], strict=True):
            first = start + number * (stop - start) // turns
            last = start + (number + 1) * (stop - start) // turns
            shared, own = jax.lax.fori_loop(
                first, last, lambda at, pair, body=body: body(at, *pair), (shared, own)
            )
            after.append(own)
        return shared, after

    if len(bodies) == 1:
        turns = 1
    return jax.lax.fori_loop(0, turns, turn, (shared, own))


def visited_rows(order: Array, span: tuple[AnyArray, AnyArray]) -> Array:
    """The rows of the batches in a span, flat; out of range where a batch is not in it."""
    at = jnp.arange(order.shape[0])
    inside = (at >= span[0]) & (at < span[1])
    return jnp.where(inside[:, None], order, order.size).reshape(-1)
