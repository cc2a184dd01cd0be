"""Losses between outputs of a table (thesis table 4.6: 1 - L), as problems of candidates take.

A loss is "zero_one", a table Delta [M, M] of all outputs, or a vector [M] where every candidate
stands in one list only: there losses[y] is what y costs against the true output of its list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from jaxstruct.core.checks import as_list, as_numbers, check_count, text_of
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.spec import costs
from jaxstruct.kernels.input import check_positive_semidefinite

ZERO_ONE = "zero_one"
Loss: TypeAlias = "str | np.ndarray"


def similarity_loss(gram: np.ndarray) -> np.ndarray:
    """Delta(y, y') = 1 - L(y, y') / sqrt(L(y, y) L(y', y')) (thesis table 4.6), [M, M] float64.

    With a normalised L it is 1 - L. It is 0 for y = y' and 1 where nothing is alike; where L is
    negative, at most 2.

    Args:
      gram: [M, M] L of the table of outputs.

    Raises:
      ValueError: gram is no kernel matrix, or L(y, y) = 0 for an output: an empty string is like
        nothing, not even itself.
    """
    check_positive_semidefinite(gram, "gram")
    L = as_numbers("gram", gram, "a square matrix [M, M] of numbers")
    size = np.diag(L)
    none = np.flatnonzero(size <= 0)
    if none.size:
        raise ValueError(
            f"gram[{none[0]}, {none[0]}] is {size[none[0]]:g} ({none.size} such): L cannot be "
            "normalised where an output has no features, such as a string shorter than the "
            "n-grams; leave such candidates out, or give loss_table of another loss"
        )
    root = np.sqrt(size)
    loss = np.clip(1.0 - L / (root[:, None] * root), 0.0, 2.0)
    np.fill_diagonal(loss, 0.0)
    return loss


def loss_table(outputs: Sequence[Any], loss: Callable[[Any, Any], float]) -> np.ndarray:
    """Delta [M, M] of every two outputs of a table, row = true output, by a function.

    Args:
      outputs: the table. loss: (true output, output) -> Delta >= 0, 0 for an output and itself.

    Raises:
      ValueError: a loss is no finite number >= 0, or an output costs something against itself.
    """
    outputs = as_list("outputs", outputs, "a list of outputs", letters=True)
    return checked_table(np.array([[loss(a, b) for b in outputs] for a in outputs], np.float64))


def candidate_losses(
    lists: Sequence[Sequence[Any]], true_outputs: Sequence[Any], loss: Callable[[Any, Any], float]
) -> Ragged:
    """What each candidate of each list costs against the true output of its input.

    Its `.rows` are the vector that the problems take as a loss where candidates are numbered one
    after the other (`number_candidates(.., shared=False)`).

    Args:
      lists: n lists of outputs. true_outputs: n outputs, which need not be in their lists.
      loss: (true output, output) -> Delta >= 0.

    Raises:
      ValueError: a loss is no finite number >= 0, or there is not one true output a list.
    """
    check_count("true_outputs", len(true_outputs), "lists", len(lists))
    found = [[loss(true, y) for y in own] for own, true in zip(lists, true_outputs, strict=True)]
    rows = np.array([cost for own in found for cost in own], np.float64)
    costs("loss", rows, "outputs")
    return Ragged(rows, np.cumsum([0, *map(len, found)]))


def checked_table(table: Any) -> np.ndarray:
    """Delta [M, M] as float64.

    Raises:
      ValueError: it is not square, not finite, has a negative entry, or Delta(y, y) != 0.
    """
    return costs("loss", table, "M M")


def checked_loss(loss: Any) -> np.ndarray | None:
    """A loss as the problems keep it: None for zero-one, else [M, M] or [M] float64.

    Raises:
      ValueError: it is none of them.
    """
    if isinstance(loss, str):
        if loss == ZERO_ONE:
            return None
        raise ValueError(f'loss is {text_of(loss)}; expected "{ZERO_ONE}", [M, M] or [M] numbers')
    if callable(loss):
        raise ValueError(
            "loss must be numbers: make a table of a function by strings.loss_table, or a vector "
            "by strings.candidate_losses(..).rows"
        )
    return costs("loss", loss, "M | M M", advice=f'; or give "{ZERO_ONE}"')
