"""FASTA files: handmade ones of every habit, bad ones, and the round trip."""

from __future__ import annotations

import gzip

import pytest

from jaxstruct.data.errors import MalformedFile, UnsafeArchive
from jaxstruct.data.fasta import FastaRecord, parse_fasta, read_fasta
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
    monkeypatch.setattr("jaxstruct.data.fasta.LIMIT", 9)
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
