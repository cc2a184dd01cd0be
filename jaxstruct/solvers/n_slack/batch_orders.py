"""In which order batches call the rows of a task: outputs of about one size side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import numpy as np

from jaxstruct.core.buckets import rows_of
from jaxstruct.core.types import AnyArray, Array
from jaxstruct.solvers.n_slack.task import Task, batches_of, batches_of_class, sizes_of
from jaxstruct.solvers.settings import Settings, choice_of

MIXED = 0.1
"""By how much of the largest size outputs of one batch may differ at random."""


def by_size(task: Task, settings: Settings, jitter: np.random.Generator | None) -> list:
    """One [batches, B] a bucket: outputs of about one size side by side, since a batch costs what
    its largest does; with a jitter in another order each time. Rows of padding come last."""
    orders = []
    for number, outputs in enumerate(task.outputs):
        sizes = sizes_of(outputs).astype(float)
        if jitter is not None:
            most, drawn = MIXED * sizes.max(), _rows_drawn(task, settings, number)
            sizes[:drawn] += jitter.uniform(-most, most, drawn)
        sizes[examples_of_bucket(task, number) :] = np.inf
        shape = batches_of(sizes.size, settings.oracle_batch)
        orders.append(np.argsort(sizes, kind="stable").astype(np.int32).reshape(shape))
    return orders


def examples_of_bucket(task: Task, bucket: int) -> int:
    """How many rows of a bucket are examples."""
    return rows_of(task.outputs[bucket]) if task.counts is None else int(task.counts[bucket])


def _rows_drawn(task: Task, settings: Settings, bucket: int) -> int:
    """Rows of the size class without those that small batches add: they change no order."""
    count, group = examples_of_bucket(task, bucket), choice_of(settings.group)
    rows = math.prod(batches_of_class(count, settings.oracle_batch, group))
    return min(rows, rows_of(task.outputs[bucket]))


def used_batches(task: Task, orders: Sequence[AnyArray]) -> list[int]:
    """How many batches of each bucket hold examples."""
    return [-(-examples_of_bucket(task, b) // order.shape[1]) for b, order in enumerate(orders)]


def in_order(task: Task, settings: Settings) -> tuple[Array, ...]:
    """One [batches, B] a bucket: its rows by the size of their outputs, padding last."""
    return tuple(map(jax.device_put, by_size(task, settings, None)))


def whole(task: Task, orders: Sequence[AnyArray]) -> tuple[tuple[np.int32, np.int32], ...]:
    """Spans that cover every batch with examples."""
    return tuple((np.int32(0), np.int32(count)) for count in used_batches(task, orders))
