"""FASTA files: handmade ones of every habit, bad ones, and the round trip."""

from __future__ import annotations

import gzip
import io

import numpy as np
import pytest
from Bio import AlignIO, SeqIO

from jaxstruct.data.errors import MalformedFile, UnsafeArchive
from jaxstruct.data.fasta import (
    FastaRecord,
    aligned_pairs,
    consecutive_pairs,
    fasta_text,
    parse_fasta,
    read_fasta,
    write_fasta,
)
from tests.lib.refusals import refused

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
    with refused("x:2: 'A.C-' has a gap .* aligned=True", error=MalformedFile):
        parse_fasta(b">a\nA.C-\n", "x")


def test_compressed(tmp_path, monkeypatch):
    path = tmp_path / "a.fasta"
    path.write_bytes(gzip.compress(TEXT.encode()))
    assert read_fasta(path) == TWO
    path.write_bytes(gzip.compress(TEXT.encode())[:-6])
    refused("a.fasta: damaged gzip", read_fasta, path, error=MalformedFile)
    path.write_bytes(gzip.compress(TEXT.encode()))
    monkeypatch.setattr("jaxstruct.data.packed.LIMIT", 9)
    refused("more than 9 bytes", read_fasta, path, error=UnsafeArchive)
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
    refused(message, parse_fasta, content, "file", aligned=True, error=MalformedFile)


def test_pairs_follow_one_another():
    rows = parse_fasta(b">a\nA-\n>b\nAC\n>c\nG\n>d\nT\n", "x", aligned=True)
    assert [[record.name for record in pair] for pair in aligned_pairs(rows)] == [
        ["a", "b"], ["c", "d"],
    ]  # fmt: skip
    with refused("x: got 3 sequences, expected an even number", error=MalformedFile):
        consecutive_pairs(rows[:3], "x")
    with refused("x: the rows of pair 1, 'b' and 'c', have 2 and 1", error=MalformedFile):
        aligned_pairs(rows[1:3], "x")


@pytest.mark.parametrize("aligned, width", [(True, 1), (False, 60)])
def test_round_trip(aligned, width, tmp_path):
    random = np.random.default_rng(aligned)
    letters = np.array(list("ACDxyz*?" + "-" * aligned))
    records = tuple(
        FastaRecord(name, about, "A" + "".join(random.choice(letters, random.integers(0, 200))))
        for name, about in [("", ""), ("a", "b  c"), ("é|2", "; >"), ("x", "y\u00a0z"), (">", ">")]
        * 5
    )
    path = write_fasta(tmp_path / "new" / "file", records, aligned=aligned, width=width)
    assert read_fasta(path, aligned=aligned) == records
    lines = [line for line in path.read_text().splitlines() if not line.startswith(">")]
    assert max(map(len, lines)) == width


def test_the_text_by_hand():
    assert fasta_text(TWO, width=4) == ">one first of two\nACDE\nFG\n>two\nKLm*\n"
    assert fasta_text([FastaRecord("", "", "A-")], aligned=True) == ">\nA-\n"
    assert fasta_text([]) == ""


def test_biopython_reads_the_text():
    rows = (FastaRecord("a", "of one", "AC--G"), FastaRecord("b", "", "ACTTG"),
            FastaRecord("c", "", "-T"), FastaRecord("d", "", "GT"))  # fmt: skip
    text = fasta_text(rows, aligned=True, width=2)
    found = list(SeqIO.parse(io.StringIO(text), "fasta"))
    assert [(one.id, str(one.seq)) for one in found] == [(row.name, row.sequence) for row in rows]
    assert found[0].description == "a of one"
    pairs = list(AlignIO.parse(io.StringIO(text), "fasta", seq_count=2))
    assert [[str(row.seq) for row in pair] for pair in pairs] == [["AC--G", "ACTTG"], ["-T", "GT"]]


@pytest.mark.parametrize("record, aligned, message", [
    (("a b", "", "A"), False, r"records\[1\]: got the name 'a b', expected one without blanks"),
    ((" ", "", "A"), False, "got the name ' '"), (("a\n", "", "A"), False, "got the name"),
    (("", "b", "A"), False, "got the description 'b' and no name"),
    (("a", "b\rc", "A"), False, "got the description .*, expected one line"),
    (("a", "b ", "A"), False, "got the description 'b ', expected one line"),
    (("a", "", ""), False, "got the sequence '', expected at least one of A-Z"),
    (("a", "", "A-"), False, "got the sequence 'A-', .* aligned=True"),
    (("a", "", "--"), True, "got the sequence '--', expected at least one"),
    (("a", "", "A.C"), True, "got the sequence 'A.C'"),
    (("a", "", "A\nC"), True, "got the sequence"),
])  # fmt: skip
def test_records_that_would_be_read_as_others(record, aligned, message, tmp_path):
    with refused(message):
        write_fasta(tmp_path / "x", [TWO[0], FastaRecord(*record)], aligned=aligned)
    refused("width: got 0", fasta_text, TWO, width=0)
    assert not list(tmp_path.iterdir())
