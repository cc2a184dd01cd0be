"""Alphabets of sequences: letters as numbers 0..A-1."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from jaxstruct.core.checks import as_list

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
        advice = "gaps are no letters: see jaxstruct.alignments.text for aligned rows"
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
