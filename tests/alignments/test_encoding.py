"""Pairs of texts: the four methods, alphabets learned and given, refusals."""

from __future__ import annotations

import pytest

from jaxstruct.alignments import DNA, PROTEIN, prepare, read_rows
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


WRONG = {
    "no pairs": (lambda: prepare([]), "aligned must hold a pair of texts at least"),
    "text": (lambda: prepare("ACGT"), "aligned must be a list of pairs of texts"),
    "no pair": (lambda: prepare([("A", "C", "G")]), r"aligned\[0\] must be a pair of texts"),
    "numbers": (lambda: prepare([("A", 3)]), r"aligned\[0\] must be a pair of texts"),
    "lengths": (
        lambda: prepare([ROWS[0], ("AC", "A")]),
        r"aligned\[1\]: first_row and second_row have 2 and 1 columns",
    ),
    "letters": (lambda: prepare(ROWS, letters="ACG"), r"pairs\[0\]\[0\], text: 'T' at pos"),
    "no letters": (lambda: prepare(ROWS, letters=[1]), r"letters\[0\]: got 1, expected one"),
    "unseen": (
        lambda: ENCODING.inputs([ROWS[0], ("ACG", "AXG")]),
        r"pairs\[1\]\[1\], text: 'X' at position 2 is not in the alphabet",
    ),
    "count": (lambda: ENCODING.decode(ENCODING.outputs(ROWS), ROWS[:1]), "of n = 3 outputs, got 1"),
    "no output": (lambda: ENCODING.decode(ROWS, ROWS), "outputs must be an AlignmentOutput"),
    "other pairs": (
        lambda: ENCODING.decode(ENCODING.outputs(ROWS[:1]), [("A", "C")]), "operations cover let",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_fit_is_refused(case: str) -> None:
    call, message = WRONG[case]
    refused(message, call)
