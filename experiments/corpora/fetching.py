"""Downloads corpora from their sources, and says which files of a corpus are in place."""

from __future__ import annotations

import functools
import hashlib
import http.client
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from experiments.corpora import locate, rebuild, registry
from experiments.corpora.errors import ChecksumMismatch, CorpusMissing, FetchError
from jaxstruct.core.files import write_file

_CHUNK = 1 << 16


class FileStatus(NamedTuple):
    """How one corpus file stands: `state` is "present", "missing" or "damaged"; `detail` why."""

    path: str
    state: str
    detail: str


def inspect(corpus: str, folder: Path) -> tuple[FileStatus, ...]:
    """Returns the status of each file of the corpus under <folder>/<corpus>. Downloads nothing."""
    found = registry.corpus_named(corpus)
    statuses = []
    for entry in found.files:
        target = Path(folder) / corpus / entry.path
        if not target.is_file():
            message = locate.missing_message(found, entry.path, (Path(folder),))
            statuses.append(FileStatus(entry.path, "missing", message))
            continue
        try:
            locate.verify(target, entry)
        except ChecksumMismatch as error:
            statuses.append(FileStatus(entry.path, "damaged", str(error)))
        else:
            statuses.append(FileStatus(entry.path, "present", ""))
    return tuple(statuses)


def fetch(corpus: str, destination: Path, *, timeout: float = 30.0) -> tuple[Path, ...]:
    """Puts every file of a corpus under <destination>/<corpus>, and returns the paths.

    A file that is there with the right sha256 is kept; a damaged one is replaced. A download takes
    its name only after its sha256 was checked, so a broken one never looks like a corpus. A corpus
    with an `Origin` is built from the download of that (`rebuild.rebuild`).

    Args:
      corpus: a name in registry.CORPORA.
      destination: the folder of corpora, made if needed.
      timeout: seconds to wait for the server's next bytes.

    Raises:
      ValueError: no such corpus.
      FetchError: the download failed; the message names the address and what to do.
      ChecksumMismatch: the server sent other bytes than the registry expects.
      CorpusMissing: a file has no address, is not built and is not in place.
      MalformedFile, UnsafeArchive, CorruptArchive: what a corpus is built from cannot be read.
    """
    found = registry.corpus_named(corpus)
    folder = Path(destination) / corpus
    statuses = inspect(corpus, Path(destination))
    for entry, status in zip(found.files, statuses, strict=True):
        if status.state == "present":
            continue
        if found.origin is not None:
            _build(corpus, found.origin, Path(destination), timeout)
            continue
        if entry.url is None:
            error = CorpusMissing if status.state == "missing" else ChecksumMismatch
            raise error(status.detail)
        target = folder / entry.path
        write_file(target, functools.partial(_download, entry, timeout))
    return tuple(folder / entry.path for entry in found.files)


def _build(corpus: str, origin: registry.Origin, destination: Path, timeout: float) -> None:
    """Downloads what a corpus is built from, and builds it."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / origin.path
        with open(source, "wb") as stream:
            stream.writelines(_chunks(origin, timeout))
        rebuild.rebuild(corpus, source, destination)


def _download(entry: registry.CorpusFile, timeout: float, stream: BinaryIO) -> None:
    """Copies the address into the stream; ChecksumMismatch where other bytes came."""
    digest, size = _copy(entry, stream, timeout)
    if digest != entry.sha256:
        raise ChecksumMismatch(
            f"{entry.url}: {size} bytes with sha256 {digest} came, expected {entry.bytes} "
            f"bytes with {entry.sha256}: the transfer was cut short, the source changed, or "
            "something on the way answered instead of it; nothing was kept, try again"
        )


def _copy(entry: registry.CorpusFile, stream: BinaryIO, timeout: float) -> tuple[str, int]:
    """Copies the address into the stream; reads one chunk more than expected at most."""
    digest, size = hashlib.sha256(), 0
    for chunk in _chunks(entry, timeout):
        stream.write(chunk)
        digest.update(chunk)
        size += len(chunk)
        if size > entry.bytes:
            break
    return digest.hexdigest(), size


def _chunks(entry: registry.CorpusFile | registry.Origin, timeout: float) -> Iterator[bytes]:
    """Yields the bytes at the address; every way that the network fails is a FetchError."""
    assert entry.url is not None, "the caller has looked"
    try:
        with urllib.request.urlopen(entry.url, timeout=timeout) as answer:
            while chunk := answer.read(_CHUNK):
                yield chunk
    except (OSError, http.client.HTTPException) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise FetchError(
            f"{entry.url}: the download failed ({type(error).__name__}: {reason}). If this "
            f"machine is offline, download {entry.path} on another one; third_party_data/README.md "
            f"says where to place it under {locate.DATA_VARIABLE}, or how to build a corpus of it; "
            "check with the fetch script and --verify_only"
        ) from error
