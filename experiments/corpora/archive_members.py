"""One view of zip and tar archives: a list of members that can be opened.

Floor below `archives`, which decides what may be used. Here every way that an archive can be
broken becomes a CorruptArchive.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple, TypeVar, cast

from experiments.corpora.errors import CorruptArchive
from jaxstruct.data.errors import UnsafeArchive

T = TypeVar("T")
U = TypeVar("U")

_CHUNK = 1 << 16
_GZIP = b"\x1f\x8b"
_BROKEN = (
    zipfile.BadZipFile,
    tarfile.TarError,
    lzma.LZMAError,
    zlib.error,
    gzip.BadGzipFile,
    EOFError,
)


class Member(NamedTuple):
    """One entry: `kind` is "file", "folder", "link" or "device"; `open` opens a file's content."""

    name: str
    kind: str
    open: Callable[[], IO[bytes]]


@contextlib.contextmanager
def open_archive(path: Path, limit: int) -> Iterator[Sequence[Member]]:
    """Opens an archive and gives its members, unchecked, in their order.

    Args:
      path: a zip, tar, tar.gz or tar.xz file, recognised by its first bytes.
      limit: the most bytes that a tar may inflate to; a zip's members are capped when read.

    Raises:
      CorruptArchive: also for faults met while the caller reads members inside the `with`.
      UnsafeArchive: a tar inflates to more than `limit` bytes.
    """
    with open(path, "rb") as stream:
        head = stream.read(8)
    view = _zip_members(path) if head[:4] in (b"PK\x03\x04", b"PK\x05\x06") else None
    try:
        with view or _tar_members(path, head, limit) as members:
            yield members
    except _BROKEN as error:
        raise _corrupt(path, error) from error


def _corrupt(path: Path, error: Exception) -> CorruptArchive:
    return CorruptArchive(
        f"{path}: damaged, truncated or not a zip or tar archive "
        f"({type(error).__name__}: {error}); fetch it again"
    )


def read_capped(path: Path, stream: IO[bytes], limit: int) -> bytes:
    """Reads an unpacked stream of the archive `path` to its end, in chunks.

    Raises:
      UnsafeArchive: as soon as it passes `limit` bytes.
      CorruptArchive: the packed bytes are damaged or truncated.
    """
    parts, size = [], 0
    while chunk := _chunk(path, stream):
        size += len(chunk)
        if size > limit:
            raise UnsafeArchive(
                f"{path}: unpacks to more bytes than the limit allows; pass a larger limit if "
                "you trust it"
            )
        parts.append(chunk)
    return b"".join(parts)


def _chunk(path: Path, stream: IO[bytes]) -> bytes:
    """The next bytes. Each packing has errors of its own, bz2's is a plain OSError."""
    try:
        return stream.read(_CHUNK)
    except (*_BROKEN, OSError, RuntimeError, ValueError) as error:
        raise _corrupt(path, error) from error


@contextlib.contextmanager
def _zip_members(path: Path) -> Iterator[Sequence[Member]]:
    with _sound_zip(zipfile.ZipFile, path) as archive:

        def opener(info: zipfile.ZipInfo) -> Callable[[], IO[bytes]]:
            return lambda: _sound_zip(archive.open, info)

        yield [Member(info.filename, _zip_kind(info), opener(info)) for info in archive.infolist()]


def _sound_zip(call: Callable[[T], U], argument: T) -> U:
    """Calls zipfile, which reports encryption, odd versions and wild offsets by other errors."""
    try:
        return call(argument)
    except (RuntimeError, ValueError, OSError) as error:
        raise zipfile.BadZipFile(str(error)) from error


def _zip_kind(info: zipfile.ZipInfo) -> str:
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind == stat.S_IFLNK:
        return "link"
    if info.filename.endswith("/"):
        return "folder"
    return "file" if kind in (0, stat.S_IFREG) else "device"


@contextlib.contextmanager
def _tar_members(path: Path, head: bytes, limit: int) -> Iterator[Sequence[Member]]:
    """Inflates the whole stream first: only its end proves that nothing was cut or changed."""
    if head.startswith(b"\xfd7zXZ\x00"):
        source: IO[bytes] = lzma.open(path)
    elif head.startswith(_GZIP):
        source = cast(IO[bytes], gzip.open(path))
    else:
        source = open(path, "rb")
    with source:
        whole = read_capped(path, source, limit)
    with tarfile.open(fileobj=io.BytesIO(whole), mode="r:") as archive:
        infos = archive.getmembers()
        # tarfile takes a damaged header for the end; a sound tar ends with a block of zeros.
        end = whole[archive.offset : archive.offset + tarfile.BLOCKSIZE]
        if end != bytes(tarfile.BLOCKSIZE):
            raise tarfile.ReadError("no end-of-archive block after the last member")

        def opener(info: tarfile.TarInfo) -> Callable[[], IO[bytes]]:
            return lambda: cast(IO[bytes], archive.extractfile(info))  # None for no file only

        yield [Member(info.name, _tar_kind(info), opener(info)) for info in infos]


def _tar_kind(info: tarfile.TarInfo) -> str:
    if info.isfile():
        return "file"
    if info.isdir():
        return "folder"
    return "link" if info.issym() or info.islnk() else "device"
