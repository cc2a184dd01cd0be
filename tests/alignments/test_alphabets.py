"""Alphabets: letters to numbers and back, and what is said of letters outside."""

from __future__ import annotations

import numpy as np
import pytest

from jaxstruct.alignments.alphabets import (
    DNA,
    PROTEIN,
    PROTEIN_AMBIGUOUS,
    RNA,
    alphabet,
    decode,
    encode,
)
from tests.lib.refusals import refused


def test_the_ready_ones():
    assert len(PROTEIN.letters) == len(set(PROTEIN.letters)) == 20
    assert PROTEIN_AMBIGUOUS.letters == PROTEIN.letters + "BZX*"
    for each in (PROTEIN, PROTEIN_AMBIGUOUS, DNA, RNA):
        assert alphabet(each.letters) == each
        codes = encode(each, each.letters)
        assert codes.dtype == np.int32 and codes.tolist() == list(range(len(each.letters)))


def test_there_and_back():
    random = np.random.default_rng(0)
    for length in (0, 1, 50):
        codes = random.integers(0, 20, length)
        text = decode(PROTEIN, codes)
        assert len(text) == length
        np.testing.assert_array_equal(encode(PROTEIN, text), codes)
    assert decode(DNA, [3, 0, -1, -1]) == "TA" and decode(DNA, [-1]) == ""


def test_letters_outside_are_an_error_or_left_out():
    with refused(r"'N' at position 3 is not in the alphabet 'ACGT' \(3 such: 'N', 'R'\)"):
        encode(DNA, "ACNGRN")
    assert encode(DNA, "ACNGRN", unknown="drop").tolist() == [0, 1, 2]
    refused("gaps are no letters", encode, DNA, "A-C")


def test_lower_case_is_read_only_when_asked_for():
    refused("'c' at position 2 .* text.upper", encode, DNA, "Ac")
    assert encode(DNA, "Ac", lower_case="upper").tolist() == [0, 1]
    both = alphabet("Aa")
    assert encode(both, "aA", lower_case="upper").tolist() == [1, 0]
    refused("'n' at position 1", encode, DNA, "n", lower_case="upper")


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


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: encode(DNA, "A", unknown="skip"), "unknown is 'skip'"),
        (lambda: encode(DNA, "A", lower_case="yes"), "lower_case is 'yes'"),
        (lambda: decode(DNA, [0, 4]), r"codes\[1\]: got 4, expected 0..3"),
        (lambda: decode(DNA, [0, -1, 1]), r"codes\[1\]: got -1"),
        (lambda: decode(DNA, [0.5]), "expected integers of one axis"),
        (lambda: decode(DNA, [[0]]), "expected integers of one axis"),
    ],
)
def test_what_does_not_fit(call, message):
    refused(message, call)
