"""Alphabets: letters to numbers, and what is said of letters outside."""

from __future__ import annotations

import numpy as np
import pytest

from jaxstruct.alignments.alphabets import DNA, PROTEIN, alphabet, encode
from tests.lib.refusals import refused


def test_the_ready_ones():
    assert len(PROTEIN.letters) == len(set(PROTEIN.letters)) == 20
    for each in (PROTEIN, DNA):
        assert alphabet(each.letters) == each
        codes = encode(each, each.letters)
        assert codes.dtype == np.int32 and codes.tolist() == list(range(len(each.letters)))


def test_letters_outside_are_an_error():
    with refused(r"'N' at position 3 is not in the alphabet 'ACGT' \(3 such: 'N', 'R'\)"):
        encode(DNA, "ACNGRN")
    refused("gaps are no letters", encode, DNA, "A-C")
    refused("'c' at position 2 .* text.upper", encode, DNA, "Ac")


@pytest.mark.parametrize(
    "letters, message",
    [
        ("", "got none"),
        ("ACA", r"letters\[2\]: 'A' comes twice"),
        ("A C", r"letters\[1\]: got ' '"),
        ("A-", "none of"),
        (["A", "CC"], r"letters\[1\]: got 'CC'"),
        (["", "A"], r"letters\[0\]"),
    ],
)
def test_alphabets_that_are_none(letters, message):
    refused(message, alphabet, letters)
