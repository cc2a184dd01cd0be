"""The one way that jaxstruct writes a file, and the one way that it decodes text."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

_SHOWN = 40  # letters of the final name within the temporary one, which a file system limits


def write_file(
    path: str | os.PathLike, content: str | bytes | Callable[[BinaryIO], object]
) -> Path:
    """Writes a file that appears whole or not at all, and returns its path.

    The content goes to a temporary name in the same folder, onto the disk, and is then renamed.
    On an error, that of a callback too, what was there before stays and no temporary file is left.

    Args:
      path: the file, replaced if it is there; its folder is made where it does not exist.
      content: text, written as UTF-8 with its line ends as they are; bytes; or a function that
        writes to the open binary file.

    Raises:
      OSError: the file cannot be written. Whatever `content` raises.
    """
    with replacing(path) as temporary, open(temporary, "xb") as stream:
        if callable(content):
            content(stream)
        else:
            stream.write(content.encode("utf-8") if isinstance(content, str) else content)
        stream.flush()
        os.fsync(stream.fileno())
    return Path(path)


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
    temporary = path.with_name(f".{path.name[:_SHOWN]}.{secrets.token_hex(4)}.part")
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
