"""Text of files, or a message that says where it is not UTF-8."""

from __future__ import annotations

from jaxstruct.data.errors import MalformedFile


def decoded(content: bytes, name: str) -> str:
    """Text of a file called `name`; MalformedFile with its line where a byte is not UTF-8."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise MalformedFile(
            f"{name}:{line}: byte 0x{content[error.start]:02x} is not UTF-8; convert the file first"
        ) from error
