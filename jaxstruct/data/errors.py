"""The errors of the data wing, each a subclass of the built-in error that fits it."""

from __future__ import annotations


class CorpusMissing(FileNotFoundError):
    """A corpus file is in none of the folders that were searched, and nothing can fetch it here."""


class ChecksumMismatch(ValueError):
    """A file's sha256 is not the registry's: it is damaged, truncated or another version."""


class FetchError(OSError):
    """A download failed: no network, no such address, too slow, or not the expected content."""


class UnsafeArchive(ValueError):
    """An archive holds a member that must not be unpacked, or more bytes than allowed."""


class CorruptArchive(ValueError):
    """An archive is damaged, truncated, encrypted or of an unknown format."""


class MissingMember(LookupError):
    """An archive does not hold a member that was asked for by name."""


class MalformedFile(ValueError):
    """A data file breaks its format; the message names the file and, where known, the line."""
