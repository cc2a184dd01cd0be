"""Reads zip and tar (plain, gz, xz) archives that nobody vouches for.

Every member's path is checked before any content is used. Links and devices are refused. The
unpacked size is capped. So an archive can neither name files elsewhere nor fill the memory.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from experiments.corpora.archive_members import Member, open_archive, read_capped
from experiments.corpora.errors import MissingMember
from jaxstruct.data.errors import UnsafeArchive

DEFAULT_LIMIT = 1 << 28
"""The cap on unpacked bytes unless a caller gives another: 256 MiB, far above every corpus here."""


def read_members(
    path: Path,
    select: Iterable[str] | Callable[[str], bool],
    *,
    limit: int = DEFAULT_LIMIT,
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
