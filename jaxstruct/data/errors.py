"""What readers of files share: errors, text that is UTF-8 or JSON, the import of scikit-learn.

Each error is a subclass of the built-in one that fits it.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

from jaxstruct.core.files import decode_utf8

_BEFORE, _AFTER = 400, 200  # characters of a long message that are shown


class AboutContent(Exception):
    """An error whose message may quote a file: one printable line, cut in the middle if long."""

    def __init__(self, message: str) -> None:
        """The error of this message."""
        line = "".join(
            letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")
            for letter in _cut(message)
        )
        super().__init__(_cut(line))


def _cut(message: str) -> str:
    left_out = len(message) - _BEFORE - _AFTER
    if left_out <= 0:
        return message
    return f"{message[:_BEFORE]} ... ({left_out} characters) ... {message[-_AFTER:]}"


class UnsafeArchive(AboutContent, ValueError):
    """A packed file holds a member that must not be unpacked, or more bytes than allowed."""


class MalformedFile(AboutContent, ValueError):
    """A data file breaks its format; the message names the file and, where known, the line."""


def sklearn_datasets(purpose: str) -> ModuleType:
    """Returns `sklearn.datasets`; an ImportError says what needs it and which extra installs it."""
    try:
        import sklearn.datasets
    except ImportError as error:
        raise ImportError(
            f"{purpose} needs scikit-learn; install it with: pip install 'jaxstruct[experiments]'"
        ) from error
    return sklearn.datasets


def decoded(content: bytes, name: str) -> str:
    """Text of a file called `name`; MalformedFile with its line where a byte is not UTF-8."""
    try:
        return decode_utf8(content, name)
    except ValueError as error:
        raise MalformedFile(str(error)) from error


def read_text(path: Path) -> str:
    """Text of the file `path`, line ends as they are; errors as `decoded`, FileNotFoundError."""
    return decoded(Path(path).read_bytes(), str(path))


def parse_json(text: str, name: str) -> Any:
    """Returns the content of a JSON text called `name`; MalformedFile where it is not JSON."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise MalformedFile(f"{name}: JSON whose brackets are nested too deep") from error
    except ValueError as error:  # of JSON, or a number of thousands of digits
        raise MalformedFile(f"{name}: not JSON ({error})") from error
