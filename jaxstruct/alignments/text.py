"""Alignments as people read and write them: two rows with gaps.

    "AC-DE"   operations  PAIR PAIR INSERT PAIR PAIR    (a letter of the second against a gap)
    "ACQDE"

Operations and begin are those of `alignments.potentials`; begin counts from 0, text from 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jaxstruct.alignments.potentials import DELETE, INSERT, PADDING, PAIR
from jaxstruct.core.checks import text_of

GAP = "-"


class WrittenAlignment(NamedTuple):
    """An alignment of two texts.

    Fields:
      first, second: the whole sequences, without gaps.
      operations: [L] int32 of PAIR, DELETE, INSERT.
      begin: [2] int32, letters of both left out before it.
    """

    first: str
    second: str
    operations: np.ndarray
    begin: np.ndarray


def read_rows(
    first_row: str, second_row: str, sequences: tuple[str, str] | None = None
) -> WrittenAlignment:
    """The alignment that two rows with gaps (`-` or `.`) stand for.

    Columns with a gap in both rows, as rows of a multiple alignment have them, are left out.

    Args:
      first_row, second_row: of equal length.
      sequences: the whole sequences, of which the rows may show a part (a local alignment): begin
        says where the rows' letters stand in them. None: the rows have all letters, begin is 0.

    Raises:
      ValueError: the rows differ in length or hold no letter, or the letters of a row are not in
        their sequence, or at several places of it.
    """
    if len(first_row) != len(second_row):
        raise ValueError(
            f"first_row and second_row have {len(first_row)} and {len(second_row)} columns, "
            "expected equal numbers (gaps included)"
        )
    rows = np.array([list(first_row), list(second_row)]).reshape(2, -1)
    gap = (rows == GAP) | (rows == ".")
    kinds = np.select([~gap[0] & ~gap[1], ~gap[0], ~gap[1]], [PAIR, DELETE, INSERT], PADDING)
    operations = kinds[kinds != PADDING].astype(np.int32)
    first, second = ("".join(row[~empty]) for row, empty in zip(rows, gap, strict=True))
    if not first or not second:
        raise ValueError(f"{'second' if first else 'first'}_row holds no letter, only gaps")
    if sequences is None:
        return WrittenAlignment(first, second, operations, np.zeros(2, np.int32))
    begin = [
        _place(name, part, whole)
        for name, part, whole in zip(("first", "second"), (first, second), sequences, strict=True)
    ]
    return WrittenAlignment(*sequences, operations, np.array(begin, np.int32))


def _place(name: str, part: str, whole: str) -> int:
    place = whole.find(part)
    if place < 0 or whole.find(part, place + 1) >= 0:
        what = "are not in" if place < 0 else "are at several places of"
        raise ValueError(
            f"{name}_row: its letters {part[:40]!r} {what} the {name} sequence; "
            + ("give the rows of these sequences" if place < 0 else "give longer rows")
        )
    return place


def write_rows(alignment: WrittenAlignment) -> tuple[str, str]:
    """The two rows with gaps (`-`); letters before and behind a local alignment are not in them.

    Raises:
      ValueError: the operations do not fit the sequences.
    """
    operations, texts = _checked(alignment), (alignment.first, alignment.second)
    rows = []
    for text, begin, gap in zip(texts, alignment.begin, (INSERT, DELETE), strict=True):
        letters = iter(text[begin:])
        rows.append("".join(GAP if kind == gap else next(letters) for kind in operations))
    return rows[0], rows[1]


def _checked(alignment: WrittenAlignment) -> np.ndarray:
    """The operations without padding."""
    operations = np.asarray(alignment.operations)
    begin = np.asarray(alignment.begin)
    real = operations[operations != PADDING]
    if (operations[: len(real)] == PADDING).any() or not np.isin(
        real, (PAIR, DELETE, INSERT)
    ).all():
        raise ValueError(
            f"operations: got {text_of(operations.tolist())}, expected PAIR {PAIR}, DELETE "
            f"{DELETE} and INSERT {INSERT}, padding ({PADDING}) at the end only"
        )
    end = begin + [np.sum(real != INSERT), np.sum(real != DELETE)]
    lengths = len(alignment.first), len(alignment.second)
    if (begin < 0).any() or (end > lengths).any():
        raise ValueError(
            f"operations cover letters up to {end.tolist()} from {begin.tolist()}, but the "
            f"sequences have {list(lengths)} letters"
        )
    return real
