"""A training set in blocks: some of its examples at a time, padded to the same shapes.

The examples lie in an order of their own, of which nothing is known: a file may be sorted by class.
So each block holds runs of neighbours from all over the set, which a disk reads in one go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import jax
import numpy as np

from jaxstruct.core.archive import forget_pages
from jaxstruct.core.buckets import Buckets
from jaxstruct.core.padding import Layout, layout_of, padded_part
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.types import PyTree
from jaxstruct.solvers.n_slack.task import Task, batch_shapes, make_task, row_index
from jaxstruct.solvers.objective.formulations import Objective
from jaxstruct.solvers.settings import Settings, batch_and_group
from jaxstruct.solvers.validation.checks import check_bucket

RUN, RUNS = 256, 16
"""Neighbours that stay together at most, and the fewest runs of a block that this may leave. Runs
are dealt at random: whole stretches of a file sorted by class would make blocks of one class, and
examples drawn singly would read every page of the file for every block."""


class Block(NamedTuple):
    """Some examples as programs take them. rows: [N] the example of each row, -1 for padding."""

    task: Task
    rows: np.ndarray


def block_of_each(n: int, blocks: int, seed: int) -> np.ndarray:
    """[n] the block of each example: runs of neighbours dealt at random, as many to each."""
    run = max(1, min(RUN, n // (blocks * RUNS)))
    runs = -(-n // run)
    dealt = np.empty(runs, np.int32)
    dealt[np.random.default_rng(seed).permutation(runs)] = np.arange(runs) % blocks
    return np.repeat(dealt, run)[:n]


def examples_of_blocks(layout: Layout, blocks: int, seed: int) -> list[list[np.ndarray]]:
    """The examples of each bucket of each block, rising."""
    n = sum(map(len, layout.index))
    of_each, found = block_of_each(n, blocks, seed), [[] for _ in range(blocks)]
    for own in layout.index:
        places = of_each[own]
        ordered = own[np.argsort(places, kind="stable")]
        ends = np.cumsum(np.bincount(places, minlength=blocks))
        for block, some in zip(found, np.split(ordered, ends[:-1]), strict=True):
            block.append(some)
    return found


def _promoted(known: PyTree, found: PyTree) -> PyTree:
    """The number types that hold what both have."""
    return jax.tree.map(np.promote_types, known, found)


def _types(tree: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf: np.asarray(leaf).dtype, tree)


class Blocks:
    """The blocks of a training set; each is read when it is its turn.

    Attributes:
      objective: what is solved. problem: its structure. n: examples in all. count: blocks.
      shapes: (batches, rows in each) of every bucket, the same in all blocks.
      sizes: of `batch_and_group`.
    """

    def __init__(self, objective: Objective, settings: Settings, count: int) -> None:
        """Deal out examples that were looked at; see `fit_in_blocks`."""
        problem, inputs, outputs, *_ = objective
        self.objective, self.problem, self._examples = objective, problem, (inputs, outputs)
        self._layout = layout_of(problem.padding, inputs, outputs)
        self.n, self.count = sum(map(len, self._layout.index)), count
        self._index = examples_of_blocks(self._layout, count, settings.seed)
        most = [max(map(len, each)) for each in zip(*self._index, strict=True)]
        self.sizes = batch_and_group(problem, settings, max(most))
        self.shapes = batch_shapes(problem, settings, most)
        self._dtypes = None

    def _padded(self, number: int) -> tuple[Buckets, Buckets]:
        """The examples of a block in buckets, one at least in each."""
        parts = [
            padded_part(self.problem.padding, *self._examples, own, longest)
            for own, longest in zip(self._index[number], self._layout.longest, strict=True)
        ]
        for leaf in jax.tree.leaves(self._examples):
            forget_pages(leaf.rows if isinstance(leaf, Ragged) else leaf)
        xs, ys = zip(*parts, strict=True)
        index = tuple(self._index[number])
        return Buckets(xs, index), Buckets(ys, index)

    def look(self, number: int) -> tuple[Buckets, Buckets]:
        """The examples of a block, checked as those of `fit` are; every block once before `read`.

        Raises:
          ValueError: one does not fit the problem; the message names it.
        """
        inputs, outputs = self._padded(number)
        for x, y, index, longest in zip(
            inputs.parts, outputs.parts, inputs.index, self._layout.longest, strict=True
        ):
            check_bucket(self.problem, x, y, index if len(index) else longest[:1])
        found = tuple(map(_types, inputs.parts))
        self._dtypes = found if self._dtypes is None else _promoted(self._dtypes, found)
        return inputs, outputs

    def in_turn(self, numbers: Sequence[int]) -> Iterator[Block]:
        """Some blocks, each read by a thread of its own while the one before is worked on.

        NumPy alone works there: what JAX is set to, such as x64 mode, may be of this thread.
        """
        with ThreadPoolExecutor(1, "jaxstruct-read") as reader:
            ahead = [reader.submit(self._padded, number) for number in numbers[:1]]
            for following in [*numbers[1:], None]:
                inputs, outputs = ahead.pop().result()
                if following is not None:
                    ahead.append(reader.submit(self._padded, following))
                yield self._block(inputs, outputs)

    def read(self, number: int) -> Block:
        """A block, on the device."""
        return self._block(*self._padded(number))

    def _block(self, inputs: Buckets, outputs: Buckets) -> Block:
        parts = jax.tree.map(
            lambda leaf, dtype: np.asarray(leaf, dtype), inputs.parts, self._dtypes
        )
        own = self.objective._replace(inputs=inputs._replace(parts=parts), outputs=outputs)
        task = make_task(own, self.shapes, n=self.n)
        return Block(task, row_index(outputs.index, self.shapes))
