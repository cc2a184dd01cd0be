"""Alphabets of sequences: letters as numbers 0..A-1, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

UNKNOWN = ("error", "drop")
LOWER_CASE = ("error", "upper")
_SHOWN = 5


class Alphabet(NamedTuple):
    """The letters of a kind of sequence in their order: letter i is `letters[i]`.

    Made by `alphabet`, which checks the letters, or one of PROTEIN, PROTEIN_AMBIGUOUS, DNA, RNA.
    """

    letters: str


PROTEIN = Alphabet("ARNDCQEGHILKMFPSTWYV")
"""The 20 amino acids in the order of the BLOSUM files."""
PROTEIN_AMBIGUOUS = Alphabet("ARNDCQEGHILKMFPSTWYVBZX*")
"""The same with B (D or N), Z (E or Q), X (any) and * (stop), as the BLOSUM files have them."""
DNA = Alphabet("ACGT")
"""The four bases."""
RNA = Alphabet("ACGU")
"""The four bases, U in place of T."""


def alphabet(letters: Iterable[str]) -> Alphabet:
    """An alphabet of letters of your own, in this order.

    Raises:
      ValueError: there is none, one comes twice, has more than one character, or is white space or
        one of the signs "-", "." and ">", which mean something else in files of sequences.
    """
    letters = list(letters)
    if not letters:
        raise ValueError("letters: got none, expected at least one")
    for place, letter in enumerate(letters):
        if len(letter) != 1 or letter.isspace() or letter in "-.>":
            raise ValueError(
                f"letters[{place}]: got {letter!r}, expected one character that is no white space "
                "and none of '-', '.', '>'"
            )
        if letter in letters[:place]:
            raise ValueError(f"letters[{place}]: {letter!r} comes twice, expected every one once")
    return Alphabet("".join(letters))


def _unknown_letters(alphabet: Alphabet, text: str, unknown: np.ndarray) -> ValueError:
    """The message for letters outside the alphabet: which, where the first stands, what to do.

    The advice names no argument of `encode`, which other functions that call it do not take.
    """
    places = np.flatnonzero(unknown)
    letters = sorted({text[place] for place in places})
    named = ", ".join(map(repr, letters[:_SHOWN])) + (", .." if len(letters) > _SHOWN else "")
    advice = "correct it, leave it out, or take an alphabet that has it"
    if all(letter.upper() in alphabet.letters for letter in letters):
        advice = "it is there in upper case: text.upper() makes it so"
    elif any(letter in "-." for letter in letters):
        advice = "gaps are no letters: see jaxstruct.alignments.text for aligned rows"
    return ValueError(
        f"text: {text[places[0]]!r} at position {places[0] + 1} is not in the alphabet "
        f"{alphabet.letters!r} ({len(places)} such: {named}); {advice}"
    )


def encode(
    alphabet: Alphabet, text: str, *, unknown: str = "error", lower_case: str = "error"
) -> np.ndarray:
    """The letters of a sequence as numbers.

    Args:
      alphabet: which letter is which number.
      text: a sequence without gaps and blanks.
      unknown: what becomes of a letter outside the alphabet: "error", or "drop": it is left out, so
        that the letters after it move up.
      lower_case: "error" takes a lower-case letter for another letter than the upper-case one, as
        the alphabet has it; "upper" reads it as the upper-case one where only that is in the
        alphabet (files mask repeats, or mark what is not aligned, by lower case).

    Returns:
      [L] int32 of 0..A-1, L = len(text) unless letters were dropped.

    Raises:
      ValueError: a letter is outside the alphabet, or an option is none of the above.
    """
    for name, value, known in (
        ("unknown", unknown, UNKNOWN), ("lower_case", lower_case, LOWER_CASE)
    ):  # fmt: skip
        if value not in known:
            raise ValueError(f"{name} is {value!r}; choose one of {known}")
    numbers = {letter: number for number, letter in enumerate(alphabet.letters)}
    if lower_case == "upper":
        numbers = {letter.lower(): number for letter, number in numbers.items()} | numbers
    codes = np.array([numbers.get(letter, -1) for letter in text], np.int32)
    outside = codes < 0
    if outside.any() and unknown == "error":
        raise _unknown_letters(alphabet, text, outside)
    return codes[~outside]


def decode(alphabet: Alphabet, codes: np.ndarray) -> str:
    """The text of numbers [L]; -1 behind the letters is padding.

    Raises:
      ValueError: codes are not integers of one axis, or one is outside 0..A-1.
    """
    codes = np.asarray(codes)
    if codes.ndim != 1 or (codes.size and codes.dtype.kind not in "iu"):
        raise ValueError(
            f"codes: got {codes.dtype} of shape {codes.shape}, expected integers of one axis"
        )
    real = np.flatnonzero(codes != -1)
    codes = codes[: real[-1] + 1 if real.size else 0]
    A = len(alphabet.letters)
    wrong = np.flatnonzero((codes < 0) | (codes >= A))
    if wrong.size:
        raise ValueError(
            f"codes[{wrong[0]}]: got {codes[wrong[0]]}, expected 0..{A - 1}, one of the {A} "
            f"letters {alphabet.letters!r}"
        )
    return "".join(alphabet.letters[code] for code in codes)
