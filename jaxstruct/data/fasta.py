"""FASTA files of sequences, plain or aligned: a line `>name description`, then the letters.

Files may be packed by gzip, and nobody vouches for them.
"""

from __future__ import annotations

import gzip
import io
import re
import zlib
from pathlib import Path
from typing import NamedTuple

from jaxstruct.data.errors import MalformedFile, UnsafeArchive, decoded

LIMIT = 1 << 28
"""The cap on unpacked bytes: 256 MiB, far above every file of sequences that is read at once."""
_CHUNK = 1 << 16  # bytes at a time, so that the cap holds in memory, too


def read_plain_or_gzip(path: Path) -> bytes:
    """Returns the content of a file, unpacked where its first bytes say that it is a gzip file.

    Raises:
      FileNotFoundError: no such file.
      UnsafeArchive: a gzip file unpacks to more than `LIMIT` bytes.
      MalformedFile: a gzip file is damaged or truncated.
    """
    content, parts, size = Path(path).read_bytes(), [], 0
    if not content.startswith(b"\x1f\x8b"):
        return content
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as stream:
            while chunk := stream.read(_CHUNK):
                parts.append(chunk)
                size += len(chunk)
                if size > LIMIT:
                    raise UnsafeArchive(f"{path}: unpacks to more than {LIMIT} bytes; unpack it")
    except (zlib.error, gzip.BadGzipFile, EOFError) as error:
        raise MalformedFile(f"{path}: damaged gzip file ({error})") from error
    return b"".join(parts)


GAP = "-"
_NO_LETTER = re.compile(r"[^A-Za-z*?.\-]")


class FastaRecord(NamedTuple):
    """One sequence.

    Fields:
      name: the first word of its header; empty where the header is a bare `>`.
      description: the rest of the header, or empty.
      sequence: its letters as written, at least one, of A-Z, a-z, `*` and `?`; in an aligned file
        `-` stands for a gap.
    """

    name: str
    description: str
    sequence: str


def read_fasta(path: Path, *, aligned: bool = False) -> tuple[FastaRecord, ...]:
    """Reads a FASTA file, plain or gzip-compressed (recognised by its content); see `parse_fasta`.

    Raises:
      FileNotFoundError: no such file.
      UnsafeArchive: a compressed file unpacks to more than 256 MiB.
      MalformedFile: it is damaged, or see `parse_fasta`.
    """
    return parse_fasta(read_plain_or_gzip(path), str(path), aligned=aligned)


def parse_fasta(content: bytes, name: str, *, aligned: bool = False) -> tuple[FastaRecord, ...]:
    """Returns the sequences of a FASTA file's content.

    A sequence goes on over any number of lines. Blank lines, blanks within lines, a byte order mark
    and lines that begin with `;` (comments) are left out; lines end in \\n, \\r\\n or \\r.

    Args:
      content: UTF-8. name: of the file, for messages.
      aligned: whether `-` and `.` may stand for gaps; they come back as `-`.

    Raises:
      MalformedFile: no sequence, letters before the first `>`, a sequence without letters, a
        character that is no letter, or a gap where none is allowed; with the line.
    """
    records: list[tuple[int, str, list[str]]] = []
    for number, line in enumerate(_lines(content, name), 1):
        if line.startswith(";"):
            continue
        if line.startswith(">"):
            records.append((number, line[1:].strip(), []))
            continue
        letters = "".join(line.split())
        if letters and not records:
            raise MalformedFile(
                f"{name}:{number}: {line[:40]!r} comes before any line that begins with '>'; FASTA "
                "names each sequence by such a line"
            )
        if letters:
            records[-1][2].append(_checked_letters(name, number, letters, aligned))
    if not records:
        raise MalformedFile(f"{name}: holds no sequence, expected lines such as '>name' and 'ACDE'")
    return tuple(_record(name, *record) for record in records)


def _lines(content: bytes, name: str) -> list[str]:
    text = decoded(content, name)
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _checked_letters(name: str, number: int, letters: str, aligned: bool) -> str:
    wrong = _NO_LETTER.search(letters)
    if wrong:
        raise MalformedFile(
            f"{name}:{number}: {wrong[0]!r} in {letters[:40]!r} is no letter of a sequence, "
            f"expected A-Z, a-z, '*', '?'{' or the gaps - and .' if aligned else ''}"
        )
    if not aligned and re.search(r"[-.]", letters):
        raise MalformedFile(
            f"{name}:{number}: {letters[:40]!r} has a gap ('-' or '.'); read an aligned file with "
            "aligned=True, or take the gaps out"
        )
    return letters.replace(".", GAP)


def _record(name: str, number: int, header: str, pieces: list[str]) -> FastaRecord:
    sequence = "".join(pieces)
    if not sequence.replace(GAP, ""):
        raise MalformedFile(
            f"{name}:{number}: the sequence {header!r} has no letters; leave it out of the file"
        )
    first, *rest = header.split(maxsplit=1) or [""]
    return FastaRecord(first, "".join(rest), sequence)
