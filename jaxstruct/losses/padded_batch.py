"""A batch of ragged examples as the arrays that losses take."""

from __future__ import annotations

from jaxstruct.core.contract import Problem
from jaxstruct.core.padding import padded
from jaxstruct.core.types import PyTree
from jaxstruct.losses.validation import checked_problem


def padded_batch(problem: Problem, x: PyTree, y: PyTree) -> tuple[PyTree, PyTree]:
    """(x, y) with every `Ragged` leaf as an array [B, T, ...], padded to the longest example.

    `fit` sorts examples into buckets by itself; a training loop of one's own may take mini-batches
    (`jaxstruct.take`) of one such batch, so that all have one shape and one program.

    Args:
      problem: the structure. x, y: its inputs and true outputs, stores or arrays; arrays pass.

    Raises:
      ValueError: problem is none, or x and y are not of the same examples.
    """
    return padded(checked_problem(problem).padding, x, y)
