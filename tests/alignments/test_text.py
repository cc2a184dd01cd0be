"""Alignments as text: rows with gaps and back."""

from __future__ import annotations

import numpy as np
import pytest

from jaxstruct.alignments.alphabets import WrittenAlignment, read_rows, write_rows
from jaxstruct.alignments.potentials import DELETE, INSERT, PADDING, PAIR
from tests.lib.refusals import refused

P, D, J, X = PAIR, DELETE, INSERT, PADDING


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
    refused(message, write_rows, written)
