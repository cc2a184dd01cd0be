"""The errors of the readers of data, each a subclass of the built-in error that fits it."""

from __future__ import annotations

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
