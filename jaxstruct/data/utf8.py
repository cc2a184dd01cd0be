"""Text of files, plain or JSON, or a message that says what is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jaxstruct.core.files import decode_utf8
from jaxstruct.data.errors import MalformedFile


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
