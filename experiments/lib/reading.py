"""Files line by line, however large: their lines, their digest, and how far they are read."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from jaxstruct.data.errors import MalformedFile

MOST_BYTES = 1 << 26
"""Of a line: 64 MiB. A longer one is no record."""

_MARK = b"\xef\xbb\xbf"


class Line(NamedTuple):
    """A line without its end.

    Fields:
      number: from 1. text: of it; bytes that are not UTF-8 are written as \\xNN.
      fault: why it cannot be a record; None where it can.
    """

    number: int
    text: str
    fault: str | None = None


class Source(io.RawIOBase):
    """A file as it lies on the disk, packed or not, which digests what is read of it.

    Attributes:
      count: bytes read so far.
    """

    def __init__(
        self, stream: BinaryIO, on_read: Callable[[int], object] = lambda count: None
    ) -> None:
        """on_read: called with the number of bytes that were read."""
        self._read = getattr(stream, "read1", stream.read)  # of a pipe what is there, not more
        self._on_read = on_read
        self._digest = hashlib.sha256()
        self.count = 0

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """What comes next, at most as many bytes as fit in."""
        content = self._read(len(buffer))
        buffer[: len(content)] = content
        self._digest.update(content)
        self.count += len(content)
        self._on_read(len(content))
        return len(content)

    @property
    def sha256(self) -> str:
        """Of all that was read so far, in hexadecimal digits."""
        return self._digest.hexdigest()


def digest_of(path: str | Path) -> str:
    """sha256 of a file in hexadecimal digits."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextlib.contextmanager
def opened(
    path: str, on_read: Callable[[int], object] = lambda count: None
) -> Iterator[tuple[Source, BinaryIO]]:
    """(the file as it lies, its content): "-" is standard input, names in .gz are unpacked."""
    with contextlib.ExitStack() as stack:
        if path == "-":
            raw: BinaryIO = sys.stdin.buffer
        else:
            raw = stack.enter_context(open(path, "rb", buffering=0))
        source = Source(raw, on_read)
        buffered = io.BufferedReader(source, 1 << 16)
        if path.lower().endswith(".gz"):
            packed = stack.enter_context(gzip.GzipFile(fileobj=buffered, mode="rb"))
            yield source, packed  # type: ignore[misc]
        else:
            yield source, buffered  # type: ignore[misc]


def lines_of(stream: BinaryIO, name: str) -> Iterator[Line]:
    r"""The lines of a file; they may end in \n or \r\n, a byte order mark is skipped.

    A line that is not UTF-8 or too long has a fault; nothing of a longer one is held.

    Raises:
      MalformedFile: a packed file is damaged or ends too early.
    """
    number = 0
    try:
        while raw := stream.readline(MOST_BYTES):
            number += 1
            if number == 1:
                raw = raw.removeprefix(_MARK)
            whole = raw
            while len(raw) >= MOST_BYTES - len(_MARK) and not raw.endswith(b"\n"):
                raw = stream.readline(MOST_BYTES)
                whole = b""
                if not raw:
                    break
            if not whole:
                yield Line(number, "", f"is longer than {MOST_BYTES >> 20} MiB")
                continue
            yield _line(number, whole.removesuffix(b"\n").removesuffix(b"\r"))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise MalformedFile(f"{name}:{number + 1}: the packed file is damaged ({error})") from error


def cells_of(text: str) -> list[str]:
    """Columns between tabs where there are any, else between blanks."""
    return text.split("\t") if "\t" in text else [cell for cell in text.split(" ") if cell]


def _line(number: int, raw: bytes) -> Line:
    try:
        return Line(number, raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        text = raw.decode("utf-8", "backslashreplace")
        return Line(number, text, f"byte 0x{raw[error.start]:02x} is not UTF-8")
