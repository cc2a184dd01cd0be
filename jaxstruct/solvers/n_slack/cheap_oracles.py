"""Cheap oracles first: the others are asked only where the cheap ones find nothing violated.

A pass of algorithm 3 wants violated outputs, not the most violated ones: any that violates by more
than epsilon moves the dual. So the cheap oracles are asked for all examples of a chunk, and the
others for those alone where that found nothing. Certificates never see a cheap answer.

A. Mueller and S. Behnke, "Learning a loopy model for semantic segmentation exactly", VISAPP 2014.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np

from jaxstruct.core.buckets import bucket_slices
from jaxstruct.core.contract import Problem
from jaxstruct.core.types import AnyArray, Array, PyTree

Spans = tuple[tuple[np.int32, np.int32], ...]


class Again(NamedTuple):
    """Which rows of a chunk are called once more: of `Calls`, and how many they are."""

    orders: tuple[Array, ...]
    spans: Spans
    calls: int


def first_asked(problem: Problem) -> tuple[Problem, bool]:
    """(the problem with its cheap oracles in place of the others, whether it has some)."""
    cheap = problem.oracles.cheap
    return (problem, False) if cheap is None else (problem._replace(oracles=cheap), True)


def quiet(value: np.ndarray, known: np.ndarray, cap: np.ndarray, epsilon: AnyArray) -> np.ndarray:
    """[N] the rows of positive weight whose call found nothing violated by more than epsilon.

    Args:
      value, known: of `ExampleTerms`.
    """
    return (cap > 0) & ~(value > known + float(epsilon))


def asked_again(
    outputs: PyTree, orders: list[np.ndarray], spans: Spans, wanted: np.ndarray
) -> Again | None:
    """The rows of a chunk that are wanted in the first of its batches, or None for none.

    Where they fill no whole batch it calls other rows of the chunk besides.

    Args:
      outputs: one a bucket. orders: one [batches, B] a bucket. spans: of the chunk.
      wanted: [N] bool.
    """
    moved, fewer, calls = [], [], 0
    for order, (first, last), own in zip(orders, spans, bucket_slices(outputs), strict=True):
        rows = order[first:last].reshape(-1)
        some = wanted[own][rows]
        batches = -(-int(some.sum()) // order.shape[1])
        new = order.copy()
        new[first:last] = np.r_[rows[some], rows[~some]].reshape(-1, order.shape[1])
        moved.append(new)
        fewer.append((first, np.int32(first + batches)))
        calls += int(some.sum())
    return Again(tuple(map(jax.device_put, moved)), tuple(fewer), calls) if calls else None
