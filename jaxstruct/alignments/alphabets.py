"""Alphabets of sequences, letters as numbers 0..A-1, and alignments as people write them.

Alignments are written as two rows with gaps:

    "AC-DE"   operations  PAIR PAIR INSERT PAIR PAIR    (a letter of the second against a gap)
    "ACQDE"

Operations and begin are those of `alignments.potentials`; begin counts from 0, text from 1.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from jaxstruct.alignments.potentials import DELETE, INSERT, PADDING, PAIR
from jaxstruct.core.checks import as_list, text_of

_SHOWN = 5


class Alphabet(NamedTuple):
    """The letters of a kind of sequence in their order: letter i is `letters[i]`.

    Made by `alphabet`, which checks the letters, or one of PROTEIN, DNA.
    """

    letters: str


PROTEIN = Alphabet("ARNDCQEGHILKMFPSTWYV")
"""The 20 amino acids in the order of the BLOSUM files."""
DNA = Alphabet("ACGT")
"""The four bases."""


def alphabet(letters: Iterable[str]) -> Alphabet:
    """An alphabet of letters of your own, in this order.

    Raises:
      ValueError: there is none, one comes twice, has more than one character, or is white space or
        one of the signs "-", "." and ">", which mean something else in files of sequences.
    """
    letters = as_list("letters", letters, "a text or a list of letters", letters=True)
    if not letters:
        raise ValueError("letters: got none, expected at least one")
    for place, letter in enumerate(letters):
        text = isinstance(letter, str)
        if not text or len(letter) != 1 or letter.isspace() or letter in "-.>":
            raise ValueError(
                f"letters[{place}]: got {letter!r}, expected one character that is no white space "
                "and none of '-', '.', '>'"
            )
        if letter in letters[:place]:
            raise ValueError(f"letters[{place}]: {letter!r} comes twice, expected every one once")
    return Alphabet("".join(letters))


def _unknown_letters(alphabet: Alphabet, text: str, unknown: np.ndarray) -> ValueError:
    """The message for letters outside the alphabet: which, where the first stands, what to do."""
    places = np.flatnonzero(unknown)
    letters = sorted({text[place] for place in places})
    named = ", ".join(map(repr, letters[:_SHOWN])) + (", .." if len(letters) > _SHOWN else "")
    advice = "correct it, leave it out, or take an alphabet that has it"
    if all(letter.upper() in alphabet.letters for letter in letters):
        advice = "it is there in upper case: text.upper() makes it so"
    elif any(letter in "-." for letter in letters):
        advice = "gaps are no letters: see jaxstruct.alignments.alphabets for aligned rows"
    return ValueError(
        f"text: {text[places[0]]!r} at position {places[0] + 1} is not in the alphabet "
        f"{alphabet.letters!r} ({len(places)} such: {named}); {advice}"
    )


def encode(alphabet: Alphabet, text: str) -> np.ndarray:
    """The letters of a sequence as numbers.

    Args:
      alphabet: which letter is which number; those of lower case are others than those of upper.
      text: a sequence without gaps and blanks.

    Returns:
      [L] int32 of 0..A-1.

    Raises:
      ValueError: a letter is outside the alphabet.
    """
    numbers = {letter: number for number, letter in enumerate(alphabet.letters)}
    codes = np.array([numbers.get(letter, -1) for letter in text], np.int32)
    if (codes < 0).any():
        raise _unknown_letters(alphabet, text, codes < 0)
    return codes


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
