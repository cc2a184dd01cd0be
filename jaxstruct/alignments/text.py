"""Alignments as people read and write them: two rows with gaps.

    "AC-DE"   operations  PAIR PAIR INSERT PAIR PAIR    (a letter of the second against a gap)
    "ACQDE"

Operations and begin are those of `alignments.potentials`; begin counts from 0, text from 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jaxstruct.alignments.alphabets import Alphabet
from jaxstruct.alignments.potentials import DELETE, INSERT, PADDING, PAIR
from jaxstruct.core.checks import text_of

GAP = "-"
IDENTICAL, POSITIVE, OTHER, NONE = "|", ":", ".", " "
"""Signs of the middle line: equal letters; others of a positive score; other pairs; a gap."""


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


class PairScores(NamedTuple):
    """Scores of pairs of letters, high for similar letters.

    Fields:
      alphabet: which letter is which row and column.
      substitution: [A, A].
    """

    alphabet: Alphabet
    substitution: np.ndarray


class AlignmentNumbers(NamedTuple):
    """What is usually reported of an alignment.

    Fields:
      columns: pairs and gaps. identical: pairs of equal letters. positive: pairs, equal letters or
        not, of a positive score; None where no scores are given. gaps: letters against a gap.
    """

    columns: int
    identical: int
    positive: int | None
    gaps: int


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


def gather_gaps(operations: np.ndarray) -> np.ndarray:
    """The operations in another order: between two pairs first all DELETE, then all INSERT.

    The same letters are paired. Rows of a multiple alignment have gaps in any order ("A-C-" above
    "-G-T" once both-gap columns are gone), and affine costs count every change as a new run.
    """
    operations = np.asarray(operations)
    stretch = np.cumsum(operations == PAIR)
    order = np.lexsort([np.where(operations == PAIR, -1, operations), stretch])
    return operations[order]


def alignment_numbers(
    alignment: WrittenAlignment, scores: PairScores | None = None
) -> AlignmentNumbers:
    """Columns, identical and positive pairs, and gaps.

    Raises:
      ValueError: the operations do not fit the sequences, or a letter is not in the alphabet.
    """
    rows = write_rows(alignment)
    signs = _middle(*rows, scores)
    identical, gaps = signs.count(IDENTICAL), signs.count(NONE)
    positive = None
    if scores is not None:
        pairs = [pair for pair in zip(*rows, strict=True) if GAP not in pair]
        positive = sum(_pair_score(scores, *pair) > 0 for pair in pairs)
    return AlignmentNumbers(len(signs), identical, positive, gaps)


def alignment_text(
    alignment: WrittenAlignment,
    *,
    names: tuple[str, str] = ("first", "second"),
    scores: PairScores | None = None,
    width: int = 60,
) -> str:
    """Three lines a block: the first sequence, what its pairs are, the second.

        native    11 AC-DE 14
                     || |.
        homologue  1 ACQDK  5

    Each line of letters stands between the positions, from 1, of its first and last letter; where
    it has none in a block, both are the position of the letter before. `|` marks equal letters, `:`
    others of a positive score, `.` other pairs, a blank a gap.

    Args:
      alignment: of two texts. names: shown before them, as they are.
      scores: for `:`; None for none.
      width: columns a block, at least 1.

    Returns:
      Lines, each with its line end, blocks apart by an empty one. Where nothing is aligned, a line
      that says so.

    Raises:
      ValueError: the operations do not fit the sequences, a letter is not in the alphabet of the
        scores, or width is below 1.
    """
    if width < 1:
        raise ValueError(f"width: got {width}, expected at least 1")
    rows = write_rows(alignment)
    middle = _middle(*rows, scores)
    if not middle:
        return "(no letters are aligned)\n"
    margin, digits = max(map(len, names)), len(str(max(map(len, alignment[:2]))))
    places, blocks = [int(begin) for begin in alignment.begin], []
    for at in range(0, len(middle), width):
        lines = []
        for side in (0, 1):
            part = rows[side][at : at + width]
            count = len(part) - part.count(GAP)
            start, places[side] = places[side] + (count > 0), places[side] + count
            end = f"{places[side]:>{digits}}"
            lines.append(f"{names[side]:<{margin}} {start:>{digits}} {part} {end}")
        signs = " " * (margin + digits + 2) + middle[at : at + width]
        blocks.append("\n".join([lines[0], signs.rstrip(), lines[1]]) + "\n")
    return "\n".join(blocks)


def _middle(first_row: str, second_row: str, scores: PairScores | None) -> str:
    signs = []
    for a, b in zip(first_row, second_row, strict=True):
        if GAP in (a, b):
            signs.append(NONE)
        elif a == b:
            signs.append(IDENTICAL)
        else:
            similar = scores is not None and _pair_score(scores, a, b) > 0
            signs.append(POSITIVE if similar else OTHER)
    return "".join(signs)


def _pair_score(scores: PairScores, a: str, b: str) -> float:
    letters = scores.alphabet.letters
    for letter in (a, b):
        if letter not in letters:
            raise ValueError(f"scores: the letter {letter!r} is not in the alphabet {letters!r}")
    return float(scores.substitution[letters.index(a), letters.index(b)])
