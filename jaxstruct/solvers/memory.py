"""What memory a training takes, said before it begins."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.checks import checked_size
from jaxstruct.core.contract import Problem, output_of
from jaxstruct.core.padding import bucket_shapes
from jaxstruct.core.sizes import size_class, text_of_bytes
from jaxstruct.core.types import PyTree
from jaxstruct.solvers.n_slack.run import capacity_of, most_outputs
from jaxstruct.solvers.n_slack.task import FEW_ROWS, batch_shapes
from jaxstruct.solvers.settings import Settings, check_settings, enumerates
from jaxstruct.solvers.validation.checks import check_is_problem, examples_in

COPIES = 2
"""Working sets that a round holds: those that it makes, and the buffers of its sweeps, which are no
larger. With a callback or a checkpoint the last ones, too, are held."""

GATHERED = 2
"""Blocks' worth of rows that are gathered of all blocks, and of what a program takes of them."""

AHEAD = 1
"""Blocks that are read while another one is worked on."""

NUMBERS = 8
"""Numbers that a slot takes beside its output and its row of the Gram block."""


BLOCK_BYTES = 2**28
"""Bytes of the arrays of a block, where nothing else is said."""

AN_EXAMPLE = 400
"""Bytes that an example takes throughout a training in blocks: its place in the store and among the
blocks, its weight, nine numbers of its last oracle call, and all of them in float64 while they are
summed."""

UNEVEN = 1.1
"""By how much the largest block may exceed the mean."""


class Memory(NamedTuple):
    """Bytes of the arrays of a training by `fit`, or by `fit_in_blocks`, of one of its blocks.

    What the process holds already comes on top.

    Fields:
      examples: padded inputs and outputs; those of a block twice, as they are while it is read, and
        of several blocks `AHEAD` and `GATHERED` times more.
      working_sets: planes, Gram blocks and multipliers, `COPIES` times; of several blocks
        `GATHERED` times more.
      batch: the potentials of one batch of oracle calls, several times.
      weights: w, and those of the best certificate and of the round.
      slots: an example at the start; where a working set fills up, the number is doubled.
      at_rest: of a training in blocks what the others take: planes, at most `block_bytes` of them,
        and `AN_EXAMPLE` bytes an example.
    """

    examples: int
    working_sets: int
    batch: int
    weights: int
    slots: int
    at_rest: int = 0

    @property
    def total(self) -> int:
        """The sum of the bytes."""
        return sum(self) - self.slots

    def __str__(self) -> str:
        """One line with units."""
        left_out = ("slots",) if self.at_rest else ("slots", "at_rest")
        sizes = {name: size for name, size in self._asdict().items() if name not in left_out}
        each = ", ".join(f"{name} {text_of_bytes(size)}" for name, size in sizes.items())
        return f"{text_of_bytes(self.total)} with {self.slots} slots an example: {each}"


def _bytes(tree: PyTree, dtype: np.dtype) -> int:
    """Of arrays on the device: floats in the dtype of the run, others as they are."""

    def size(leaf: jax.ShapeDtypeStruct) -> int:
        floating = np.issubdtype(leaf.dtype, np.floating)
        return math.prod(leaf.shape) * (dtype if floating else leaf.dtype).itemsize

    return sum(map(size, jax.tree.leaves(tree)))


def _rows_of(tree: PyTree, n: int) -> PyTree:
    """Shapes of n examples, integers of int32, from those of one."""

    def of_leaf(leaf: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
        kind = leaf.dtype if np.issubdtype(leaf.dtype, np.floating) else np.int32
        return jax.ShapeDtypeStruct((n, *leaf.shape), kind)

    return jax.tree.map(of_leaf, tree)


def memory(
    problem: Problem,
    inputs: PyTree,
    outputs: PyTree,
    settings: Settings = Settings(),  # noqa: B008
    *,
    blocks: int | None = None,
    block_bytes: int = BLOCK_BYTES,
) -> Memory:
    """The bytes that `fit(problem, inputs, outputs, settings=settings)` will take.

    It follows from shapes; nothing of the size of the data is made. What Python, JAX and its
    compiler take comes on top, some 0.3 GB.

    Args:
      problem: the structure. inputs, outputs: the examples, as `fit` takes them.
      settings: of `fit`.
      blocks: of `fit_in_blocks`, for the bytes that it will take; None for those of `fit`.
      block_bytes: of `fit_in_blocks`.

    Returns:
      A `Memory`; print it.

    Raises:
      ValueError: an argument does not fit.
    """
    check_is_problem(problem)
    check_settings(settings)
    n = examples_in(inputs, outputs)
    buckets = bucket_shapes(problem.padding, inputs, outputs)
    if blocks is None:
        return _memory_of(problem, settings, buckets)
    found = _memory_of(problem, settings, _shares(buckets, checked_size("blocks", blocks)))
    rest = min(block_bytes, found.working_sets // COPIES * blocks)
    return _of_block(found, blocks)._replace(at_rest=rest + AN_EXAMPLE * n)


def _of_block(found: Memory, blocks: int) -> Memory:
    """The same of a block: its examples twice while it is read, and where there are others the rows
    gathered of all, beside those that a program has."""
    more = GATHERED if blocks > 1 else 0
    return found._replace(
        examples=(2 + AHEAD * (blocks > 1) + more) * found.examples,
        working_sets=found.working_sets // COPIES * (COPIES + more),
    )


def _shares(buckets: list[tuple[int, PyTree, PyTree]], blocks: int) -> list:
    """The same buckets with as many examples as a block has of each at most."""
    if blocks == 1:
        return buckets
    return [(math.ceil(UNEVEN * count / blocks), x, y) for count, x, y in buckets]


def blocks_within(
    problem: Problem, inputs: PyTree, outputs: PyTree, settings: Settings, block_bytes: int
) -> int:
    """The fewest blocks, of 1, 2, 3, 4, 6, 8, 12, .., the arrays of each within so many bytes.

    The weights are not counted. Where even a block of few examples takes more, it is of few.
    """
    buckets = bucket_shapes(problem.padding, inputs, outputs)
    n, blocks = sum(count for count, *_ in buckets), 1
    while blocks < n // FEW_ROWS:
        found = _of_block(_memory_of(problem, settings, _shares(buckets, blocks)), blocks)
        if found.total - found.weights <= block_bytes:
            break
        blocks = size_class(blocks + 1, 1)
    return min(blocks, max(1, n // FEW_ROWS))


def _memory_of(
    problem: Problem, settings: Settings, buckets: list[tuple[int, PyTree, PyTree]]
) -> Memory:
    """Of so many examples of each bucket."""
    dtype = jnp.result_type(*jax.tree.leaves(problem.initial_weights))
    shapes = batch_shapes(problem, settings, [count for count, *_ in buckets])
    rows = list(map(math.prod, shapes))
    truth = tuple(_rows_of(y, n) for n, (*_, y) in zip(rows, buckets, strict=True))
    enumerated = enumerates(problem, settings)
    listed = most_outputs(problem, truth) if enumerated else 0
    slots = int(listed) or capacity_of(problem, settings, truth, dtype.itemsize)
    numbers = NUMBERS if enumerated else NUMBERS + slots
    examples = sum(n * _bytes(x, dtype) for n, (_, x, _) in zip(rows, buckets, strict=True))
    batches = [
        size * _bytes(jax.eval_shape(problem.model.potentials, problem.initial_weights, x), dtype)
        for (_, size), (_, x, _) in zip(shapes, buckets, strict=True)
    ]
    planes = slots * (_bytes(output_of(truth), dtype) + sum(rows) * numbers * dtype.itemsize)
    return Memory(
        examples=examples + _bytes(truth, dtype),
        working_sets=COPIES * planes,
        batch=4 * max(batches),
        weights=3 * _bytes(problem.initial_weights, dtype),
        slots=slots,
    )
