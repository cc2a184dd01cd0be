"""Gen(x): the outputs that an input may have (thesis 4.6.2).

Here outputs are what the user has: strings, tuples of labels, trees, anything hashable. They are
numbered by one table, which is what the problems of this output type read.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxstruct.core.checks import as_list, check_choice, check_count, check_flag, text_of
from jaxstruct.core.ragged import Ragged

MISSING = ("refuse", "add", "best")


class Candidates(NamedTuple):
    """Candidates of n inputs, numbered.

    Fields:
      numbers: the rows of the table in each list, of n lists that differ in length.
      outputs: the table, M outputs.
      targets: [n] int32, what training aims at: the true output, or the best candidate where that
        was asked for. None where no true outputs were given.
      present: [n] bool, whether Gen(x) held the true output by itself; None likewise.
    """

    numbers: Ragged
    outputs: tuple
    targets: np.ndarray | None
    present: np.ndarray | None


def number_candidates(
    lists: Sequence[Sequence[Hashable]],
    true_outputs: Sequence[Hashable] | None = None,
    *,
    missing: str = "refuse",
    loss: Callable[[Any, Any], float] | None = None,
    shared: bool = True,
    table: Sequence[Hashable] = (),
) -> Candidates:
    """Number the candidates of n inputs by one table, and find the target of each input.

    Args:
      lists: n lists of outputs.
      true_outputs: of the n inputs; None where they are not known.
      missing: what to do where Gen(x) lacks the true output: "refuse" it, "add" it to the list's
        end, or aim at the "best" candidate, of the least loss, the first of these.
      loss: (true output, output) -> Delta, for "best".
      shared: whether an output has one number wherever it stands, as kernels L and tables of
        losses need it. Else candidates are numbered one after the other, each of them once, as
        losses by list need it.
      table: outputs that are numbered before, those of the training set for instance: they keep
        their numbers, and new ones follow. For shared numbers only.

    Returns:
      Candidates; see there.

    Raises:
      ValueError: an argument does not fit, a list is empty, or a true output is missing.
    """
    check_choice("missing", missing, MISSING)
    check_flag("shared", shared)
    if table and not shared:
        raise ValueError("table is for shared numbers: leave it out, or shared=True")
    if missing == "best" and not callable(loss):
        raise ValueError('missing="best" needs loss, a function (true output, output) -> number')
    lists = as_list("lists", lists, "n lists of outputs")
    rows = [
        _distinct_of(f"lists[{i}]", as_list(f"lists[{i}]", own, "outputs", letters=True))
        for i, own in enumerate(lists)
    ]
    if true_outputs is not None:
        true_outputs = as_list("true_outputs", true_outputs, "n outputs", letters=True)
        check_count("true_outputs", len(true_outputs), "lists", len(rows))
    present = None
    aims = true_outputs
    if true_outputs is not None:
        present = np.array([y in set(own) for own, y in zip(rows, true_outputs, strict=True)])
        aims = _aims(rows, true_outputs, present, missing, loss)
    return _numbered(rows, aims, present, list(table), shared)


def _distinct_of(name: str, outputs: list) -> list:
    """The outputs without what comes again, in their order.

    Raises:
      ValueError: there are none, or one is not hashable.
    """
    if not outputs:
        raise ValueError(f"{name} has no candidate: Gen(x) must hold an output for every input")
    try:
        return list(dict.fromkeys(outputs))
    except TypeError:
        raise ValueError(
            f"{name} must hold hashable outputs, got {text_of(outputs)}: make a tuple of a list or "
            "an array"
        ) from None


def _aims(
    rows: list[list],
    true_outputs: list,
    present: np.ndarray,
    missing: str,
    loss: Callable[[Any, Any], float] | None,
) -> list:
    """The target of each list, which is added to it where `missing` says so."""
    absent = np.flatnonzero(~present)
    if absent.size and missing == "refuse":
        i = absent[0]
        raise ValueError(
            f"true_outputs[{i}] is {text_of(true_outputs[i])}, which lists[{i}] lacks "
            f'({absent.size} such): say missing="add" to add it, or "best" to aim at the '
            "candidate of least loss"
        )
    aims = list(true_outputs)
    for i in absent:
        if loss is None or missing == "add":
            rows[i].append(true_outputs[i])
        else:
            costs = [loss(true_outputs[i], y) for y in rows[i]]
            aims[i] = rows[i][int(np.argmin(costs))]
    return aims


def _numbered(
    rows: list[list], aims: list | None, present: np.ndarray | None, table: list, shared: bool
) -> Candidates:
    offsets = np.cumsum([0, *map(len, rows)])
    every = [y for own in rows for y in own]
    if shared:
        places = {y: number for number, y in enumerate(table)}
        for y in every:
            places.setdefault(y, len(places))
        numbers = np.array([places[y] for y in every], np.int32)
        outputs = tuple(places)
    else:
        numbers, outputs = np.arange(len(every), dtype=np.int32), tuple(every)
    store = Ragged(numbers, offsets, -1)
    if aims is None:
        return Candidates(store, outputs, None, None)
    places_of = zip(rows, aims, store, strict=True)
    targets = np.array([own[row.index(y)] for row, y, own in places_of], np.int32)
    return Candidates(store, outputs, targets, present)
