"""Pairs of texts: the four methods, alphabets learned and given, refusals."""

from __future__ import annotations

import numpy as np

from jaxstruct.alignments import prepare
from jaxstruct.alignments.alphabets import (
    DNA,
    PROTEIN,
    WrittenAlignment,
    alphabet,
    encode,
    read_rows,
    write_rows,
)
from jaxstruct.alignments.potentials import DELETE, INSERT, PADDING, PAIR
from tests.lib.refusals import refused

ROWS = [("ACGTTGCA", "ACG--GCA"), ("TTGACA", "T.GGCA"), ("GATTACA", "GA-TGCA")]
WRITTEN = [(first, second.replace(".", "-")) for first, second in ROWS]
ENCODING = prepare(ROWS).encoding


def test_rows_come_back_from_their_numbers() -> None:
    assert ENCODING.alphabet == DNA  # its letters, sorted
    assert ENCODING.decode(ENCODING.outputs(ROWS), ROWS) == WRITTEN
    plain = [tuple(text.replace("-", "").replace(".", "") for text in pair) for pair in ROWS]
    assert ENCODING.decode(ENCODING.outputs(ROWS), plain) == WRITTEN
    x, same = ENCODING.inputs(ROWS), ENCODING.inputs(plain)
    assert x.lengths.tolist() == same.lengths.tolist() == [[8, 6], [6, 5], [7, 6]]
    assert x.second.rows.tolist() == same.second.rows.tolist()


def test_local_alignments_know_where_they_begin() -> None:
    local = [read_rows("GTT", "G-T", ("ACGTTA", "CCGTC"))]
    encoding = prepare(local, letters="TGCA").encoding
    assert encoding.alphabet.letters == "TGCA"
    y = encoding.outputs(local)
    assert y.begin.tolist() == [[2, 2]]
    assert encoding.decode(y, [("ACGTTA", "CCGTC")]) == [("GTT", "G-T")]


def test_letters_may_be_given() -> None:
    assert prepare(ROWS, letters=PROTEIN).encoding.alphabet is PROTEIN
    assert prepare(ROWS, letters=["T", "G", "C", "A"]).encoding.alphabet.letters == "TGCA"
    problem = prepare(ROWS, letters=PROTEIN).encoding.problem(gaps="linear")
    assert problem.initial_weights["substitution"].shape == (20, 20)


def test_pairs_that_do_not_fit_are_refused() -> None:
    for aligned, message in (
        ([], "aligned must hold a pair of texts at least"),
        ("ACGT", "aligned must be a list of pairs of texts"),
        ([("A", 3)], r"aligned\[0\] must be a pair of texts"),
        ([ROWS[0], ("AC", "A")], r"aligned\[1\]: first_row and second_row have 2 and 1 columns"),
    ):
        refused(message, prepare, aligned)
    refused(r"pairs\[0\]\[0\], text: 'T' at pos", prepare, ROWS, letters="ACG")
    refused(r"letters\[0\]: got 1, expected one", prepare, ROWS, letters=[1])
    unseen = [ROWS[0], ("ACG", "AXG")]
    refused(r"pairs\[1\]\[1\], text: 'X' at position 2 is not", ENCODING.inputs, unseen)
    y = ENCODING.outputs(ROWS)
    refused("of n = 3 outputs, got 1", ENCODING.decode, y, ROWS[:1])
    refused("outputs must be an AlignmentOutput", ENCODING.decode, ROWS, ROWS)
    first = ENCODING.outputs(ROWS[:1])
    refused("operations cover let", ENCODING.decode, first, [("A", "C")])


def test_rows_and_alphabets_that_do_not_fit_are_refused() -> None:
    for arguments, message in (
        (("AC", "A"), "2 and 1 columns"),
        (("--", "AC"), "first_row holds no letter"),
        (("AC", "-."), "second_row holds no letter"),
        (("AC", "AC", ("AAC", "CA")), "second_row: its letters 'AC' are not in the second"),
        (("A", "C", ("AA", "C")), "first_row: its letters 'A' are at several places"),
    ):
        refused(message, read_rows, *arguments)
    for operations, begin, message in (
        ([P, P, P], [0, 0], "cover letters up to \\[3, 3\\]"),
        ([P], [0, 2], "have \\[2, 2\\] letters"),
        ([P], [-1, 0], "from \\[-1, 0\\]"),
        ([P, 3], [0, 0], "expected PAIR 0"),
        ([X, P], [0, 0], "padding \\(-1\\) at the end"),
    ):
        written = WrittenAlignment("AC", "CA", np.array(operations), np.array(begin))
        refused(message, write_rows, written)
    for letters, message in (
        ("", "got none"), ("ACA", r"letters\[2\]: 'A' comes twice"),
        ("A C", r"letters\[1\]: got ' '"), ("A-", "none of"),
        (["A", "CC"], r"letters\[1\]: got 'CC'"),
    ):  # fmt: skip
        refused(message, alphabet, letters)


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
