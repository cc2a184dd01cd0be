"""Alignments as text: rows with gaps and back, and the blocks that people read."""

from __future__ import annotations

import numpy as np
import pytest

from jaxstruct.alignments.alphabets import PROTEIN, alphabet
from jaxstruct.alignments.potentials import DELETE, INSERT, PADDING, PAIR
from jaxstruct.alignments.text import (
    AlignmentNumbers,
    PairScores,
    WrittenAlignment,
    alignment_numbers,
    alignment_text,
    gather_gaps,
    read_rows,
    write_rows,
)
from tests.lib.refusals import refused

P, D, J, X = PAIR, DELETE, INSERT, PADDING


def similar(letters="DE"):
    """D and E are similar, nothing else is."""
    scores = -np.ones((20, 20)) + 6 * np.eye(20)
    i, j = (PROTEIN.letters.index(letter) for letter in letters)
    scores[i, j] = 1
    return PairScores(PROTEIN, scores)


def test_rows_stand_for_operations():
    found = read_rows("AC-DE-", "ACQD.K")
    assert (found.first, found.second) == ("ACDE", "ACQDK")
    assert found.operations.tolist() == [P, P, J, P, D, J] and found.begin.tolist() == [0, 0]
    assert found.operations.dtype == np.int32
    assert write_rows(found) == ("AC-DE-", "ACQD-K")


def test_columns_of_two_gaps_are_left_out():
    found = read_rows("A--C.D", "A-QC-D")
    assert found.operations.tolist() == [P, J, P, P]
    assert write_rows(found) == ("A-CD", "AQCD")


def test_rows_of_a_part_find_their_place():
    found = read_rows("CD-E", "C-KE", ("AACDEF", "CKEW"))
    assert found.begin.tolist() == [2, 0] and found.first == "AACDEF"
    assert write_rows(found) == ("CD-E", "C-KE")


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("AC", "A"), "2 and 1 columns"),
        (("--", "AC"), "first_row holds no letter"),
        (("AC", "-."), "second_row holds no letter"),
        (("", ""), "first_row holds no letter"),
        (("AC", "AC", ("AAC", "CA")), "second_row: its letters 'AC' are not in the second"),
        (("A", "C", ("AA", "C")), "first_row: its letters 'A' are at several places"),
    ],
)
def test_rows_that_do_not_fit(arguments, message):
    refused(message, read_rows, *arguments)


def test_random_rows_come_back():
    random = np.random.default_rng(0)
    for _ in range(200):
        operations = random.integers(0, 3, random.integers(1, 30))
        begin, extra = random.integers(0, 4, (2, 2))
        lengths = begin + extra + [np.sum(operations != J), np.sum(operations != D)]
        texts = ["".join(random.choice(list("ACGT"), length)) for length in lengths]
        padded = np.concatenate([operations, np.full(random.integers(0, 4), X)])
        rows = write_rows(WrittenAlignment(*texts, padded, begin))
        assert len(rows[0]) == len(rows[1]) == len(operations)
        for row, text, start, behind in zip(rows, texts, begin, extra, strict=True):
            assert row.replace("-", "") == text[start : len(text) - behind]
        if all(row.strip("-") for row in rows):
            assert read_rows(*rows).operations.tolist() == operations.tolist()


@pytest.mark.parametrize(
    "operations, begin, message",
    [
        ([P, P, P], [0, 0], "cover letters up to \\[3, 3\\]"),
        ([P], [0, 2], "have \\[2, 2\\] letters"),
        ([P], [-1, 0], "from \\[-1, 0\\]"),
        ([P, 3], [0, 0], "expected PAIR 0"),
        ([X, P], [0, 0], "padding \\(-1\\) at the end"),
    ],
)
def test_operations_that_do_not_fit(operations, begin, message):
    written = WrittenAlignment("AC", "CA", np.array(operations), np.array(begin))
    for function in (write_rows, alignment_text, alignment_numbers):
        refused(message, function, written)


def test_one_block():
    written = read_rows("WAC-DEF", "-ACQDDK")
    text = alignment_text(written, names=("native", "homologue"), scores=similar("ED"))
    assert text == (
        "native    1 WAC-DEF 6\n"
        "             || |:.\n"
        "homologue 1 -ACQDDK 6\n"
    )  # fmt: skip
    assert ":" not in alignment_text(written)  # no scores, no similar letters
    assert ":" not in alignment_text(written, scores=similar("DE"))  # rows are the first sequence


def test_blocks_positions_and_a_local_begin():
    """Twelve columns of five: a block without letters of the second, and two digits."""
    first, second = "AAAAAAAAACDEFGHIKL", "CCDEFLL"
    operations = np.array([P, P, P, P] + [D] * 6 + [P, X])
    written = WrittenAlignment(first, second, operations, np.array([9, 1]))
    text = alignment_text(written._replace(first=first + "L" * 3), names=("a", "b"), width=5)
    assert text == (
        "a 10 CDEFG 14\n"
        "     ||||\n"
        "b  2 CDEF-  5\n"
        "\n"
        "a 15 HIKLL 19\n"
        "\n"
        "b  5 -----  5\n"
        "\n"
        "a 20 L 20\n"
        "     |\n"
        "b  6 L  6\n"
    )  # fmt: skip


def test_nothing_aligned():
    nothing = WrittenAlignment("AC", "GT", np.full(4, X), np.zeros(2, int))
    assert alignment_text(nothing) == "(no letters are aligned)\n"
    assert alignment_numbers(nothing) == AlignmentNumbers(0, 0, None, 0)


def test_long_alignments_have_blocks_of_60_columns():
    written = read_rows("A" * 150, "A" * 150)
    lines = alignment_text(written).split("\n")
    assert [line for line in lines if line.startswith("first")] == [
        f"first    1 {'A' * 60}  60", f"first   61 {'A' * 60} 120", f"first  121 {'A' * 30} 150",
    ]  # fmt: skip
    assert all(line == line.rstrip() for line in lines)


def test_numbers():
    written = read_rows("WAC-DEF", "-ACQDDK")
    assert alignment_numbers(written) == AlignmentNumbers(7, 3, None, 2)
    assert alignment_numbers(written, similar("ED")) == AlignmentNumbers(7, 3, 4, 2)
    scores = PairScores(alphabet("AC"), np.zeros((2, 2)))
    refused("the letter 'E' is not in the alphabet 'AC'", alignment_numbers, written, scores)
    refused("width: got 0", alignment_text, written, width=0)


def test_gathered_gaps_pair_the_same_letters():
    given = read_rows("A-C-A-G-", "A-GTAC-T")
    gathered = gather_gaps(given.operations)
    assert given.operations.tolist() == [P, P, J, P, J, D, J]
    assert gathered.tolist() == [P, P, J, P, D, J, J]
    random = np.random.default_rng(2)
    for _ in range(50):
        operations = random.integers(0, 3, 12)
        gathered = gather_gaps(operations)
        for kind in (P, D, J):
            assert np.sum(gathered == kind) == np.sum(operations == kind)
        places = [
            np.stack([np.cumsum(o != J), np.cumsum(o != D)], 1)[o == P]
            for o in (operations, gathered)
        ]
        np.testing.assert_array_equal(*places)
        assert not np.any((gathered[:-1] == J) & (gathered[1:] == D))
