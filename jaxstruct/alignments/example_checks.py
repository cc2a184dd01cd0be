"""Validation of sequences of letters, of their alignments, and of the options of both problems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxstruct.alignments.costs import GAPS
from jaxstruct.alignments.potentials import DELETE, INSERT, PADDING, PAIR
from jaxstruct.core.checks import as_list, check_choice, check_flag, checked_size
from jaxstruct.core.spec import array, checked_int32, refuse


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
    empty = [i for i, row in enumerate(rows) if np.shape(row) == (0,)]
    if empty:
        raise ValueError(f"{name}[{empty[0]}] is empty ({len(empty)} such): leave it out")
    advice = ": jaxstruct.alignments.encode makes letters of text"
    return [checked_int32(f"{name}[{i}]", row, "m", advice=advice) for i, row in enumerate(rows)]


def check_letters(name: str, letters: np.ndarray, lengths: np.ndarray, A: int) -> None:
    """Raise ValueError unless rows [.., M] hold `lengths` [..] letters 0..A-1 each."""
    inside = np.arange(letters.shape[-1]) < lengths[..., None]
    wrong = inside & ((letters < 0) | (letters >= A))
    refuse(name, letters, wrong, f"0..{A - 1}, the alphabet: map or drop other letters first")


def check_operations(outputs: Any, lengths: np.ndarray, width: int, whole: bool = False) -> None:
    """Raise ValueError unless every alignment fits the lengths [n, 2] of its two sequences.

    Args:
      outputs: with operations [n, width] and begin [n, 2]. whole: whether both are used up.
    """
    sizes = {"n": len(lengths), "width": width}
    name, begin = "outputs.operations", array("outputs.begin", outputs.begin, "n 2", sizes=sizes)
    operations = array(name, outputs.operations, "n width", sizes=sizes)
    known = np.isin(operations, (PAIR, DELETE, INSERT, PADDING))
    words = f"PAIR {PAIR}, DELETE {DELETE}, INSERT {INSERT}, then PADDING {PADDING}"
    late = np.zeros_like(known)
    late[:, 1:] = (operations[:, 1:] != PADDING) & (operations[:, :-1] == PADDING)
    refuse(name, operations, late | ~known, words)
    used = [np.sum((operations == PAIR) | (operations == gap), axis=1) for gap in (DELETE, INSERT)]
    end = begin + np.stack(used, axis=1)
    misfit = (end != lengths) | (begin != 0) if whole else (end > lengths) | (begin < 0)
    refuse(
        "outputs.begin", begin, misfit,
        lambda i, side: f"an alignment that {'covers' if whole else 'lies in'} the "
        f"{lengths[i, side]} letters of the {('first', 'second')[side]} sequence; it covers "
        f"{begin[i, side]}..{end[i, side] - 1}",
    )  # fmt: skip
