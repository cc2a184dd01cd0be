"""Files that may be packed by gzip, and nobody vouches for."""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path

from jaxstruct.data.errors import MalformedFile, UnsafeArchive

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
