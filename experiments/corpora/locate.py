"""Finds corpus files on this machine and checks them against the registry."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from experiments.corpora import archives, registry
from experiments.corpora.errors import ChecksumMismatch, CorpusMissing, CorruptArchive
from jaxstruct.data.errors import UnsafeArchive

DATA_VARIABLE = "JAXSTRUCT_DATA"
"""The environment variable that names the folder of corpora, laid out <folder>/<corpus>/<file>."""

_verified: set[tuple[str, int, int, str]] = set()


def cache_folder() -> Path:
    """Returns <XDG_CACHE_HOME>/jaxstruct, or ~/.cache/jaxstruct if it is unset or relative."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "jaxstruct"


def search_folders() -> tuple[Path, ...]:
    """Returns the folders that are searched, first one first: JAXSTRUCT_DATA if set, the cache."""
    named = os.environ.get(DATA_VARIABLE, "")
    return (Path(named), cache_folder()) if named else (cache_folder(),)


def file_digest(path: Path) -> str:
    """Returns the sha256 of a file as 64 lower-case hexadecimal digits."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def verify(path: Path, expected: registry.CorpusFile) -> None:
    """Raises ChecksumMismatch unless the file has the registry's sha256, or its content has.

    The second is how a file counts that a user packed from the source: the same members, packed
    by another program (`registry.CorpusFile.content_sha256`).
    A file that passed is not read again in this process while its size and time stay the same.
    """
    status = path.stat()
    key = (str(path.resolve()), status.st_size, status.st_mtime_ns, expected.sha256)
    if key in _verified:
        return
    digest = file_digest(path)
    if digest != expected.sha256 and not _holds(path, expected.content_sha256):
        raise ChecksumMismatch(
            f"{path}: sha256 is {digest} ({status.st_size} bytes), expected {expected.sha256} "
            f"({expected.bytes} bytes): the file is damaged or another version; remove it and "
            "fetch it again"
        )
    _verified.add(key)


def _holds(path: Path, content_sha256: str) -> bool:
    try:
        return bool(content_sha256) and archives.content_digest(path) == content_sha256
    except (CorruptArchive, UnsafeArchive):
        return False


def missing_message(corpus: registry.Corpus, path: str, folders: tuple[Path, ...]) -> str:
    """Returns the message for a user who lacks `path`: where it was looked for, and what to do."""
    looked = ", ".join(str(folder / corpus.name / path) for folder in folders)
    start = f"corpus {corpus.name!r}: {path!r} is not at {looked}; "
    command = f"python third_party_data/fetch.py --corpus={corpus.name}"
    if registry.corpus_file(corpus.name, path).url is None and corpus.origin is None:
        return (
            f"{start}it cannot be downloaded: {corpus.packing} "
            f"Then set {DATA_VARIABLE} and check with: {command} --verify_only"
        )
    return f"{start}set {DATA_VARIABLE} to a folder that holds it, or run: {command}"


def find_file(corpus: str, path: str) -> Path:
    """Returns where the file `path` of a corpus lies, after checking its sha256.

    Looks under JAXSTRUCT_DATA, then in the cache folder. A file that is there but wrong is an
    error, not a reason to look further.

    Raises:
      ValueError: no such corpus, or the corpus has no such file.
      CorpusMissing: it is in none of the folders; the message says what to do.
      ChecksumMismatch: the file found is not the registry's.
    """
    entry = registry.corpus_file(corpus, path)
    folders = search_folders()
    for folder in folders:
        candidate = folder / corpus / path
        if candidate.is_file():
            verify(candidate, entry)
            return candidate
    raise CorpusMissing(missing_message(registry.corpus_named(corpus), path, folders))


def available(corpus: str) -> bool:
    """Whether `find_file` finds every file of the corpus.

    Raises:
      ValueError: no such corpus.
      ChecksumMismatch: a file is there but wrong, which is not the same as missing.
    """
    try:
        for entry in registry.corpus_named(corpus).files:
            find_file(corpus, entry.path)
    except CorpusMissing:
        return False
    return True
