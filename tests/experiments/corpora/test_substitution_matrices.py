"""Substitution matrices as text: the BLOSUM layout, Biopython's files, bad ones, the round trip."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from Bio.Align import substitution_matrices

from experiments.corpora.substitution_matrices import (
    format_substitution_matrix,
    parse_substitution_matrix,
    read_substitution_matrix,
    write_substitution_matrix,
)
from jaxstruct.data.errors import MalformedFile
from tests.lib.refusals import refused

FOLDER = Path(substitution_matrices.__file__).parent / "data"
NAMES = [name for name in substitution_matrices.load() if name != "SCHNEIDER"]
TEXT = "# a comment\n#\n   A  C\nA  4 -1\nC -2  5\n"


def test_layout():
    found = parse_substitution_matrix(TEXT, "x")
    assert found.letters == "AC" and found.comments == ("a comment", "")
    np.testing.assert_array_equal(found.scores, [[4, -1], [-2, 5]])
    for text in (TEXT.replace("\n", "\r\n"), "\n" + TEXT.replace("\n", " \n\n"),
                 "  A\tC\nC -2.0 5\nA\t4e0 -1\n"):  # fmt: skip
        np.testing.assert_array_equal(parse_substitution_matrix(text, "x").scores, found.scores)


@pytest.mark.parametrize("name", NAMES)
def test_the_files_of_biopython(name, tmp_path):
    """Read as there, and what is written is read there again."""
    theirs = substitution_matrices.load(name)
    ours = read_substitution_matrix(FOLDER / name)
    assert ours.letters == "".join(theirs.alphabet)
    np.testing.assert_array_equal(ours.scores, np.asarray(theirs))
    path = write_substitution_matrix(tmp_path / "m.txt", *ours[:2], comments=["c"], decimals=3)
    again = substitution_matrices.read(path)
    assert again.alphabet == theirs.alphabet
    np.testing.assert_allclose(np.asarray(again), np.asarray(theirs), atol=5.1e-4)
    assert len(NAMES) >= 25


def test_codons_are_no_letters():
    with refused("SCHNEIDER:6: 'AAA' has several characters", error=MalformedFile):
        read_substitution_matrix(FOLDER / "SCHNEIDER")


def test_written_layout():
    scores = np.array([[1.26, -0.04], [-2.5, 12.0]])
    assert format_substitution_matrix("AC", scores, comments=["gap 2", ""], decimals=1) == (
        "# gap 2\n#\n     A    C\nA  1.3  0.0\nC -2.5 12.0\n"
    )
    assert format_substitution_matrix("AC", scores, scale=2) == (
        "# scores multiplied by 2 and rounded to integers\n   A  C\nA  3  0\nC -5 24\n"
    )
    halves = parse_substitution_matrix(
        format_substitution_matrix("AC", scores[::-1] * 0 + [[0.5, -0.5], [1.5, 2.5]], scale=1), "x"
    )
    np.testing.assert_array_equal(halves.scores, [[1, -1], [2, 3]])  # halves away from 0


def test_round_trip(tmp_path):
    random = np.random.default_rng(0)
    for letters in ("A", "ACGT", "ARNDCQEGHILKMFPSTWYVBZX*"):
        scores = random.normal(size=2 * (len(letters),)) * 100
        path = write_substitution_matrix(tmp_path / "new" / "m", letters, scores, comments=["a b"])
        found = read_substitution_matrix(path)
        assert (found.letters, found.comments) == (letters, ("a b",))
        np.testing.assert_allclose(found.scores, scores, atol=5.1e-5)
        assert [entry.name for entry in path.parent.iterdir()] == ["m"]


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "m: holds no matrix"),
        ("# only\n", "holds no matrix"),
        ("  A C\nA 1 2\n", "m: no row of 'C'"),
        ("  A C\nA 1 2\nC 1\n", "m:3: the row of 'C' has 1 scores, expected 2"),
        ("  A C\nA 1 2\nG 1 2\n", "m:3: the row begins with 'G', expected one of 'AC'"),
        ("  A C\nA 1 2\nA 1 2\n", "m:3: a second row of 'A'"),
        ("  A C\nA 1 x\n", "m:2: could not convert .* in the row of 'A'"),
        ("  A C\nA 1 nan\n", "m:2: a score of 'A' is not finite"),
        ("  A A\nA 1 2\n", "m:1: a letter comes twice"),
    ],
)
def test_malformed(text, message):
    refused(message, parse_substitution_matrix, text, "m", error=MalformedFile)


def test_bytes_that_are_no_text(tmp_path):
    (tmp_path / "m").write_bytes(b"\xff\xfe\x00")
    refused("is not UTF-8", read_substitution_matrix, tmp_path / "m", error=MalformedFile)
    with pytest.raises(FileNotFoundError):
        read_substitution_matrix(tmp_path / "none")


@pytest.mark.parametrize(
    "change, message",
    [
        ({"letters": "AA"}, "letters: got 'AA'"),
        ({"letters": ""}, "letters"),
        ({"letters": "A#"}, "letters"),
        ({"letters": "A "}, "letters"),
        ({"scores": np.zeros((2, 3))}, r"expected \[2, 2\]"),
        ({"scores": [[1, np.inf], [0, 0]]}, "finite"),
        ({"comments": ["a\nb"]}, r"comments\[0\]"),
        ({"scale": 0}, "scale: got 0"),
        ({"scale": np.nan}, "scale"),
        ({"decimals": -1}, "decimals"),
    ],
)
def test_what_could_not_be_read_again(change, message, tmp_path):
    arguments = {"letters": "AC", "scores": np.eye(2)} | change
    refused(message, write_substitution_matrix, tmp_path / "m", **arguments)
    assert not list(tmp_path.iterdir())
