"""Reads zip and tar (plain, gz, xz) archives and .npz files that nobody vouches for.

Every member's path is checked before any content is used. Links and devices are refused. The
unpacked size is capped. So an archive can neither name files elsewhere nor fill the memory.
Every way that one can be broken becomes a CorruptArchive.
Of .npz files nothing is unpickled and nothing allocated ahead.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import lzma
import math
import re
import stat
import tarfile
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple, TypeVar, cast

import numpy as np
from numpy.lib import format as npy

from experiments.corpora.errors import CorruptArchive, MissingMember
from jaxstruct.data.errors import MalformedFile, UnsafeArchive

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


DEFAULT_LIMIT = 1 << 28
"""The cap on unpacked bytes unless a caller gives another: 256 MiB, far above every corpus here."""


def read_members(
    path: Path, select: Iterable[str] | Callable[[str], bool], *, limit: int = DEFAULT_LIMIT
) -> dict[str, bytes]:
    """Returns the contents of some members of an archive, keyed by member name.

    Args:
      path: a zip, tar, tar.gz or tar.xz file; recognised by content, not by name.
      select: the member names wanted (the result keeps their order), or a predicate on names
        (the result keeps the archive's order). Folders are never returned.
      limit: the most unpacked bytes to accept (of a tar: all of it, headers included).

    Raises:
      MissingMember: a name in `select` is not in the archive.
      UnsafeArchive: a member's path leaves the archive, is a link or a device, or comes twice;
        or more than `limit` bytes would come out. All members are checked, wanted or not.
      CorruptArchive: damaged, truncated, encrypted, or no zip or tar.
    """
    if callable(select):
        names, wanted = None, select
    else:
        names = tuple(select)
        wanted = frozenset(names).__contains__
    with open_archive(Path(path), limit) as members:
        _check_members(path, members)
        present = {member.name for member in members if member.kind == "file"}
        for name in names or ():
            if name not in present:
                raise MissingMember(f"{path}: holds no file {name!r}; it has {len(present)} files")
        found = dict(_contents(path, members, wanted, limit))
    return found if names is None else {name: found[name] for name in names}


def content_digest(path: Path, *, limit: int = DEFAULT_LIMIT) -> str:
    """Returns the sha256 of what an archive holds, however it is packed.

    Two archives agree if they hold the same files, by name and content. The order of members,
    times, owners, compression and empty folders do not count.

    Args:
      path: as for `read_members`.
      limit: the most unpacked bytes to accept.

    Raises:
      UnsafeArchive, CorruptArchive: as for `read_members`.
    """
    digest = hashlib.sha256()
    for name, content in sorted(read_members(path, lambda _: True, limit=limit).items()):
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def _contents(
    path: Path, members: Sequence[Member], wanted: Callable[[str], bool], limit: int
) -> Iterator[tuple[str, bytes]]:
    """Yields (name, content) of the wanted files; the cap holds for their sum."""
    left = limit
    for member in members:
        if member.kind == "file" and wanted(member.name):
            with member.open() as stream:
                content = read_capped(path, stream, left)
            left -= len(content)
            yield member.name, content


def _check_members(path: Path, members: Sequence[Member]) -> None:
    """Refuses links, devices, paths out of the archive, and a path that is used twice."""
    files: set[str] = set()
    folders: set[str] = set()
    for member in members:
        if member.kind not in ("file", "folder"):
            raise UnsafeArchive(f"{path}: {member.name!r} is a {member.kind}, not a file")
        parts = re.split(r"[/\\]", member.name)
        if not parts[0] or ".." in parts or ":" in parts[0] or "\0" in member.name:
            raise UnsafeArchive(f"{path}: {member.name!r} leads out of the archive's own folder")
        plain = [part for part in parts if part not in ("", ".")]
        inner = plain[:-1] if member.kind == "file" else plain
        folders.update("/".join(inner[: depth + 1]) for depth in range(len(inner)))
        if member.kind == "file":
            if "/".join(plain) in files:
                raise UnsafeArchive(f"{path}: {member.name!r} comes twice")
            files.add("/".join(plain))
    if both := files & folders:
        raise UnsafeArchive(f"{path}: {min(both)!r} is both a file and a folder")


_NO_HEADER = (
    ValueError, TypeError, SyntaxError, OverflowError, SystemError, tokenize.TokenError,
)  # fmt: skip
"""What NumPy raises of headers that are none; SystemError of some types of numbers."""
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
_LAST_LETTER = 0x10FFFF


def read_npz(path: Path, keys: Sequence[str]) -> tuple[np.ndarray, ...]:
    """Returns arrays of an .npz file, in the order of `keys`.

    Args:
      path: the file, plain or compressed, of at most `archives.DEFAULT_LIMIT` unpacked bytes.
      keys: the names of the arrays wanted.

    Raises:
      FileNotFoundError: no such file.
      UnsafeArchive: see `archives.read_members`.
      MalformedFile: damaged, no .npz, an array missing, of Python objects, or with a header that
        does not fit its bytes.
    """
    path = Path(path)
    names = [f"{key}.npy" for key in keys]
    try:
        members = read_members(path, names)
        return tuple(_array(members[name]) for name in names)
    except (CorruptArchive, MissingMember, _BadArray) as error:
        raise MalformedFile(f"{path}: expected an npz with {', '.join(keys)} ({error})") from error


class _BadArray(ValueError):
    """The content of one member is no sound .npy."""


def _array(content: bytes) -> np.ndarray:
    stream = io.BytesIO(content)
    try:
        version = npy.read_magic(stream)
        if version not in _HEADERS:
            raise _BadArray(f"an array has format {version}, expected (1, 0) or (2, 0)")
        with warnings.catch_warnings():  # of headers that Python 2 wrote, which are read as well
            warnings.simplefilter("ignore")
            shape, columns_first, dtype = _HEADERS[version](stream)
    except _NO_HEADER as error:
        raise _BadArray(f"not the header of an array: {error}") from error
    body = content[stream.tell() :]
    if dtype.hasobject or min(shape, default=0) < 0 or dtype.itemsize == 0:
        raise _BadArray(f"an array holds {dtype} of shape {shape}, expected plain numbers or text")
    if math.prod(shape) * dtype.itemsize != len(body):
        raise _BadArray(f"an array of {dtype} and shape {shape} has {len(body)} bytes")
    if dtype.kind == "U" and (_code_points(body, dtype) > _LAST_LETTER).any():
        raise _BadArray("an array of text holds numbers that are no letters")
    return np.frombuffer(body, dtype).reshape(shape, order="F" if columns_first else "C").copy()


def _code_points(body: bytes, dtype: np.dtype) -> np.ndarray:
    return np.frombuffer(body, np.dtype(np.uint32).newbyteorder(dtype.byteorder))
