"""In which order batches call the rows of a task: outputs of about one size side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxstruct.core.buckets import rows_of
from jaxstruct.solvers.n_slack.task import Task, batches_of, batches_of_class, sizes_of

MIXED = 0.1
"""By how much of the largest size outputs of one batch may differ at random."""


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


def examples_of_bucket(task: Task, bucket: int) -> int:
    """How many rows of a bucket are examples."""
    return rows_of(task.outputs[bucket]) if task.counts is None else int(task.counts[bucket])


def sized_rows(task: Task, batch: int, group: int) -> list[SizedRows]:
    """The rows of each bucket; batch, group: of `batch_and_group`."""
    found = []
    for number, outputs in enumerate(task.outputs):
        rows, count = rows_of(outputs), examples_of_bucket(task, number)
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
