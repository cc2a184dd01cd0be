"""Validation of sequences of letters, of their alignments, and of the options of both problems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxstruct.alignments.costs import GAPS
from jaxstruct.alignments.potentials import DELETE, INSERT, PADDING, PAIR
from jaxstruct.core.checks import (
    as_array,
    as_list,
    check_choice,
    check_flag,
    check_integers,
    checked_size,
)
from jaxstruct.core.spec import checked_int32, checked_lengths


def check_options(alphabet_size: int, gaps: str, symmetric: bool) -> None:
    """Raise ValueError where an option does not fit."""
    checked_size("alphabet_size", alphabet_size)
    check_choice("gaps", gaps, GAPS)
    check_flag("symmetric", symmetric)


def sequences_of(name: str, sequences: Sequence[Any]) -> list[np.ndarray]:
    """Sequences of letters, each [m] int32, m >= 1.

    Raises:
      ValueError: there is none, one of them is empty, or they are no integers.
    """
    rows = as_list(name, sequences, "a list of sequences of letters (see alphabets.encode)")
    if not rows:
        raise ValueError(f"{name} holds no sequence, expected at least one")
    rows = [as_array(f"{name}[{i}]", row, "[m] integer letters") for i, row in enumerate(rows)]
    empty = [i for i, row in enumerate(rows) if row.shape == (0,)]
    if empty:
        raise ValueError(f"{name}[{empty[0]}] is empty ({len(empty)} such): leave it out")
    text = [i for i, row in enumerate(rows) if row.dtype.kind in "US"]
    if text:
        raise ValueError(
            f"{name}[{text[0]}] is text, expected integer letters: jaxstruct.alignments.encode "
            "makes them"
        )
    return [checked_int32(f"{name}[{i}]", row, "m") for i, row in enumerate(rows)]


def padded(rows: Sequence[np.ndarray], width: int) -> np.ndarray:
    """[n, width] int32 letters, -1 on padding."""
    table = np.full((len(rows), width), -1, np.int32)
    for line, row in zip(table, rows, strict=True):
        line[: len(row)] = row
    return table


def check_candidates(native: np.ndarray, candidates: np.ndarray) -> tuple[int, int, int, int]:
    """(n, M, Q, N) of native [n, M] and candidates [n, Q, N].

    Raises:
      ValueError: shapes do not fit.
    """
    if native.ndim != 2 or candidates.ndim != 3 or native.shape[0] != candidates.shape[0]:
        raise ValueError(
            "inputs.native must be [n, M] and inputs.candidates [n, Q, N], got shapes "
            f"{native.shape} and {candidates.shape}"
        )
    return *native.shape, *candidates.shape[1:]


def check_decoys(Q: int) -> None:
    """Raise ValueError unless a decoy fits in."""
    if Q < 2:
        raise ValueError(
            "inputs.candidates hold no decoys (Q = 1): learning needs the homologue and at least "
            "one other sequence"
        )


def check_letters(
    name: str, letters: np.ndarray, lengths: np.ndarray, A: int, may_be_empty: bool = False
) -> None:
    """Raise ValueError unless rows hold `lengths` letters 0..A-1 each."""
    check_integers(name, letters)
    n, width = letters.shape
    least, advice = 0 if may_be_empty else 1, "; leave empty sequences out"
    lengths = checked_lengths(f"the lengths of {name}", lengths, n, least, width, advice)
    inside = np.arange(width) < lengths[:, None]
    outside = np.argwhere(inside & ((letters < 0) | (letters >= A)))
    if outside.size:
        row, place = outside[0]
        raise ValueError(
            f"{name} row {row} has the letter {letters[row, place]} at {place}, outside the "
            f"alphabet 0..{A - 1} ({len(outside)} such): map or drop other letters first"
        )


def check_homologues(candidate: np.ndarray, lengths: np.ndarray) -> None:
    """Raise ValueError unless each homologue is a candidate, and not the only one."""
    n, Q = lengths.shape
    check_integers("outputs.candidate", candidate, (n,))
    wrong = np.flatnonzero((candidate < 0) | (candidate >= Q))
    if wrong.size:
        raise ValueError(
            f"outputs.candidate[{wrong[0]}] is {candidate[wrong[0]]}, expected 0..{Q - 1}"
        )
    absent = np.flatnonzero(lengths[np.arange(n), candidate] == 0)
    if absent.size:
        raise ValueError(f"outputs.candidate[{absent[0]}] names an empty candidate")
    alone = np.flatnonzero(np.sum(lengths > 0, axis=1) < 2)
    if alone.size:
        raise ValueError(f"inputs.candidates row {alone[0]} has no decoys ({alone.size} such)")


def check_operations(
    operations: np.ndarray, begin: np.ndarray, lengths: np.ndarray, width: int, whole: bool = False
) -> None:
    """Raise ValueError unless every alignment fits the lengths [n, 2] of its two sequences.

    Args:
      operations: [n, width]. begin: [n, 2]. whole: whether it must use up both sequences.
    """
    n = lengths.shape[0]
    if operations.shape != (n, width) or begin.shape != (n, 2):
        raise ValueError(
            f"outputs.operations and outputs.begin must be [{n}, {width}] (M + N) and [{n}, 2], "
            f"got shapes {operations.shape} and {begin.shape}"
        )
    for name, array in (("operations", operations), ("begin", begin)):
        check_integers(f"outputs.{name}", array)
    known = np.isin(operations, (PAIR, DELETE, INSERT, PADDING))
    if not known.all():
        row, place = np.argwhere(~known)[0]
        raise ValueError(
            f"outputs.operations row {row} has {operations[row, place]} at {place}, expected "
            f"PAIR {PAIR}, DELETE {DELETE}, INSERT {INSERT}, then PADDING {PADDING}"
        )
    late = np.argwhere((operations[:, 1:] != PADDING) & (operations[:, :-1] == PADDING))
    if late.size:
        row, place = late[0]
        raise ValueError(f"outputs.operations row {row} goes on after padding, at {place + 1}")
    used = [np.sum((operations == PAIR) | (operations == gap), axis=1) for gap in (DELETE, INSERT)]
    end = begin + np.stack(used, axis=1)
    misfit = (end != lengths) | (begin != 0) if whole else (end > lengths) | (begin < 0)
    wrong = np.argwhere(misfit)
    if wrong.size:
        row, side = wrong[0]
        raise ValueError(
            f"the alignment of outputs row {row} covers letters {begin[row, side]}.."
            f"{end[row, side] - 1} of the {('first', 'second')[side]} sequence, which has "
            f"{lengths[row, side]}: {'it must cover all of them' if whole else 'it does not fit'}"
        )
