"""Errors of corpora and their archives, beside those of `jaxstruct.data`."""

from __future__ import annotations

from jaxstruct.data.errors import AboutContent


class CorpusMissing(FileNotFoundError):
    """A corpus file is in none of the folders that were searched, and nothing can fetch it here."""


class ChecksumMismatch(ValueError):
    """A file's sha256 is not the registry's: it is damaged, truncated or another version."""


class FetchError(OSError):
    """A download failed: no network, no such address, too slow, or not the expected content."""


class CorruptArchive(AboutContent, ValueError):
    """An archive is damaged, truncated, encrypted or of an unknown format."""


class MissingMember(AboutContent, LookupError):
    """An archive does not hold a member that was asked for by name."""
