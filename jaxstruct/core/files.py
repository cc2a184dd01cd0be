"""The one way that jaxstruct writes a file, and the one way that it decodes text."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

_SHOWN = 40  # letters of the final name within the temporary one, which a file system limits


def write_file(
    path: str | os.PathLike,
    content: str | bytes | Callable[[BinaryIO], object],
    previous: str | os.PathLike | None = None,
    ready: Callable[[], object] = lambda: None,
) -> Path:
    """Writes a file that appears whole or not at all, and returns its path.

    The content goes to a temporary name in the same folder, onto the disk, and is then renamed.
    On an error, that of a callback too, what was there before stays and no temporary file is left.

    Args:
      path: the file, replaced if it is there; its folder is made where it does not exist.
      content: text, written as UTF-8 with its line ends as they are; bytes; or a function that
        writes to the open binary file.
      previous: a name in the same folder for the file that was there before, once the new one is
        whole; None to let it go.
      ready: called once the new one is whole, under its temporary name; an error of it keeps the
        file from its place.

    Raises:
      OSError: the file cannot be written. Whatever `content` and `ready` raise.
    """
    with replacing(path) as temporary:
        try:
            with open(temporary, "x+b") as stream:
                if callable(content):
                    content(stream)
                else:
                    stream.write(content.encode("utf-8") if isinstance(content, str) else content)
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            if error.errno and error.filename is None:  # a full disk is an error of no name
                error.filename = os.fspath(path)
            raise
        ready()
        if previous is not None and os.path.lexists(path):
            _set_aside(Path(path), Path(previous))
    return Path(path)


def _set_aside(path: Path, previous: Path) -> None:
    """Gives a file a second name, so that its own is never gone; where links are, by one."""
    linked = _temporary(path)
    try:
        os.link(path, linked)
    except OSError:  # a file system without links: the file has the other name for a moment
        os.replace(path, previous)
        return
    try:
        os.replace(linked, previous)
    finally:
        linked.unlink(missing_ok=True)


def _temporary(path: Path) -> Path:
    """A free name beside a path."""
    return path.with_name(f".{path.name[:_SHOWN]}.{secrets.token_hex(4)}.part")


def remove_leftovers(path: str | os.PathLike) -> None:
    """Removes the temporary files of writers of `path` that were killed.

    Nobody may be writing it now. A name of more than 40 letters shares its temporary ones with
    others, and nothing of it is removed.
    """
    path = Path(path)
    if len(path.name) > _SHOWN or not path.parent.is_dir():
        return
    ours = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{8}}\.part")
    for other in path.parent.iterdir():
        if ours.fullmatch(other.name) and other.is_file():
            other.unlink(missing_ok=True)


@contextlib.contextmanager
def replacing(path: str | os.PathLike) -> Iterator[Path]:
    """Yields a free name beside `path`. At the end, what lies there is renamed to `path`.

    The caller writes a file or makes a folder. On an error it is removed, and `path` stays as it
    was. `write_file` is the way for a file; here nothing is forced onto the disk.

    Args:
      path: a file, replaced if it is there, or a folder that is not there yet; the folder that
        holds it is made where it does not exist.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(path)
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary, ignore_errors=True)
        else:
            temporary.unlink(missing_ok=True)


def decode_utf8(content: bytes, name: str) -> str:
    """Returns the text of a file's content; a byte order mark is skipped.

    Args:
      content: of the file.
      name: of the file, for the message.

    Raises:
      ValueError: a byte is not UTF-8; the message names its line.
    """
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{name}:{line}: byte 0x{content[error.start]:02x} is not UTF-8; convert the file first"
        ) from error
