"""The errors of the readers of data, each a subclass of the built-in error that fits it."""

from __future__ import annotations

_BEFORE, _AFTER = 400, 200  # characters of a long message that are shown


class _AboutContent(Exception):
    """An error whose message may quote a file: one printable line, cut in the middle if long."""

    def __init__(self, message: str) -> None:
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


class CorpusMissing(FileNotFoundError):
    """A corpus file is in none of the folders that were searched, and nothing can fetch it here."""


class ChecksumMismatch(ValueError):
    """A file's sha256 is not the registry's: it is damaged, truncated or another version."""


class FetchError(OSError):
    """A download failed: no network, no such address, too slow, or not the expected content."""


class UnsafeArchive(_AboutContent, ValueError):
    """An archive holds a member that must not be unpacked, or more bytes than allowed."""


class CorruptArchive(_AboutContent, ValueError):
    """An archive is damaged, truncated, encrypted or of an unknown format."""


class MissingMember(_AboutContent, LookupError):
    """An archive does not hold a member that was asked for by name."""


class MalformedFile(_AboutContent, ValueError):
    """A data file breaks its format; the message names the file and, where known, the line."""
