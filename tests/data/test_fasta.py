"""FASTA files: handmade ones of every habit, bad ones, and the round trip."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from jaxstruct.data.errors import MalformedFile
from jaxstruct.data.fasta import (
    FastaRecord,
    aligned_pairs,
    consecutive_pairs,
    parse_fasta,
    read_fasta,
)
from tests.data.fasta_files import write_fasta

TWO = (FastaRecord("one", "first of two", "ACDEFG"), FastaRecord("two", "", "KLm*"))
TEXT = ">one first of two\nACD\nEFG\n>two\nKLm*\n"


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        TEXT.rstrip("\n"),
        TEXT.replace("\n", "\r\n"),
        TEXT.replace("\n", "\r"),
        "\ufeff" + TEXT,
        "\n\n" + TEXT.replace("\n", "\n\n"),
        ">  one\tfirst of two \nACD EFG\n>two\nKL\n m *\n",
        "; a comment\n>one first of two\n;another\nACDEFG\n\n>two\nKLm*",
    ],
)
def test_habits(text):
    """Line ends, blank lines, blanks, byte order mark, comments: the same sequences."""
    assert parse_fasta(text.encode(), "x") == TWO


def test_a_bare_header_has_no_name():
    assert parse_fasta(b">\nAC\n> \nD", "x") == (
        FastaRecord("", "", "AC"), FastaRecord("", "", "D"),
    )  # fmt: skip


def test_gaps():
    aligned = parse_fasta(b">a\nA.C-\n>b\n-AC.\n", "x", aligned=True)
    assert [record.sequence for record in aligned] == ["A-C-", "-AC-"]
    with pytest.raises(MalformedFile, match="x:2: 'A.C-' has a gap .* aligned=True"):
        parse_fasta(b">a\nA.C-\n", "x")


def test_compressed(tmp_path):
    path = tmp_path / "a.fasta"
    path.write_bytes(gzip.compress(TEXT.encode()))
    assert read_fasta(path) == TWO
    path.write_bytes(gzip.compress(TEXT.encode())[:-6])
    with pytest.raises(MalformedFile, match="a.fasta: damaged gzip"):
        read_fasta(path)
    with pytest.raises(FileNotFoundError):
        read_fasta(tmp_path / "none")


@pytest.mark.parametrize("content, message", [
    (b"", "file: holds no sequence"), (b"; only\n\n", "holds no sequence"),
    (b"\nACD\n>a\nAC\n", "file:2: 'ACD' comes before any line that begins with '>'"),
    (b">a\nAC\n>b c\n\n>d\nA", "file:3: the sequence 'b c' has no letters"),
    (b">a\n--\n", "file:1: the sequence 'a' has no letters"),
    (b">a\nAC1D\n", "file:2: '1' in 'AC1D' is no letter"),
    (b">a\nAC\n\xe9\n", "file:3: byte 0xe9 is not UTF-8"),
    ("> a\nAC\n".encode("utf-16"), "file:1: byte 0xff"),
])  # fmt: skip
def test_malformed(content, message):
    with pytest.raises(MalformedFile, match=message):
        parse_fasta(content, "file", aligned=True)


def test_pairs_follow_one_another():
    rows = parse_fasta(b">a\nA-\n>b\nAC\n>c\nG\n>d\nT\n", "x", aligned=True)
    assert [[record.name for record in pair] for pair in aligned_pairs(rows)] == [
        ["a", "b"], ["c", "d"],
    ]  # fmt: skip
    with pytest.raises(MalformedFile, match="x: got 3 sequences, expected an even number"):
        consecutive_pairs(rows[:3], "x")
    with pytest.raises(MalformedFile, match="x: the rows of pair 1, 'b' and 'c', have 2 and 1"):
        aligned_pairs(rows[1:3], "x")


@pytest.mark.parametrize("aligned", [True, False])
def test_round_trip(aligned, tmp_path):
    random = np.random.default_rng(aligned)
    letters = np.array(list("ACDxyz*?" + "-" * aligned))
    records = tuple(
        FastaRecord(name, about, "A" + "".join(random.choice(letters, random.integers(0, 200))))
        for name, about in [("", ""), ("a", "b c"), ("é|2", "; >"), ("x", "y\u00a0z")] * 5
    )
    path = write_fasta(tmp_path / "file", records)
    assert read_fasta(path, aligned=aligned) == records
