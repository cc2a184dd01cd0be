"""Downloads corpora from their sources, builds some, and says which files are in place.

A corpus that cannot be downloaded as it is is built from what its makers distribute. Their files
change their packing and we do not know their sha256. So the result is what is checked: its members
must be those of the registered file, byte for byte.
"""

from __future__ import annotations

import functools
import hashlib
import http.client
import io
import tarfile
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO, NamedTuple

import numpy as np

from experiments.corpora import archives, locate, registry
from experiments.corpora.errors import ChecksumMismatch, CorpusMissing, FetchError
from experiments.corpora.ocr_letters import read_letter_data
from jaxstruct.core.files import replacing, write_file
from jaxstruct.data.errors import MalformedFile

_LIMIT = 1 << 32  # of an archive of a whole repository


class Rebuilt(NamedTuple):
    """What was built: its `path`, what it `holds` in words, and the sha256 of the `source`."""

    path: Path
    holds: str
    source_sha256: str


def rebuild(corpus: str, source: Path, destination: Path) -> Rebuilt:
    """Builds the file of a corpus under <destination>/<corpus> from `source`.

    Args:
      corpus: "ocr_letters" or "gum".
      source: letter.data, plain or .gz; or an archive of GUM's repository (zip or tar), or the
        folder of a checkout.
      destination: the folder of corpora, made if needed.

    Returns:
      The path, what it holds, and the sha256 of the source ("" for a folder).

    Raises:
      ValueError: no such corpus, or it is not built.
      FileNotFoundError: no such source.
      MalformedFile, UnsafeArchive, CorruptArchive: the source cannot be read.
      ChecksumMismatch: what it makes is not the registered corpus. Nothing is written.
    """
    found = registry.corpus_named(corpus)
    if corpus not in _BUILDERS or found.origin is None:
        raise ValueError(f"corpus: {corpus!r} is not built, expected {' or '.join(_BUILDERS)}")
    source, (entry,) = Path(source), found.files
    content, holds = _BUILDERS[corpus](source)
    target = Path(destination) / corpus / entry.path
    with replacing(target) as temporary:
        temporary.write_bytes(content)
        digest = archives.content_digest(temporary)
        if digest != entry.content_sha256:
            raise ChecksumMismatch(
                f"{source}: holds {holds}; the registered corpus {corpus!r} is "
                f"{found.origin.holds} with sha256 {entry.content_sha256} of its members, this "
                f"has {digest}. It is another version or damaged; take {found.origin.url}"
            )
    return Rebuilt(target, holds, locate.file_digest(source) if source.is_file() else "")


def _letters(source: Path) -> tuple[bytes, str]:
    """The words of letter.data as our .npz."""
    words = read_letter_data(source)
    stream = io.BytesIO()
    np.savez_compressed(
        stream,
        pixels_packed=np.packbits(words.pixels, axis=1),
        letters=words.letters.astype(np.uint8),
        offsets=words.offsets.astype(np.int32),
        fold=words.folds.astype(np.uint8),
    )
    folds = len(np.unique(words.folds))
    holds = f"{len(words.folds)} words, {len(words.letters)} letters, {folds} folds"
    return stream.getvalue(), holds


def _trees(source: Path) -> tuple[bytes, str]:
    """splits.md, LICENSE.txt and const/*.ptb of a release, without reddit's, as our .tar.xz.

    The least preset takes a thirteenth of the usual one's time, and 1.2 MB in place of .7.
    """
    members = _gum_members(source)
    documents = sum(name.endswith(".ptb") for name in members)
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:xz", preset=1) as archive:
        for name, content in sorted(members.items()):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return stream.getvalue(), f"{documents} documents with trees"


def _gum_members(source: Path) -> dict[str, bytes]:
    """Packed name -> content, from an archive or a folder that holds const/ at any one place."""
    if source.is_dir():
        paths = [path for path in source.glob("const/*.ptb") if _packed_name(path.as_posix())]
        paths += [source / name for name in _BESIDE if (source / name).is_file()]
        found = {path.relative_to(source).as_posix(): path.read_bytes() for path in paths}
    else:
        found = archives.read_members(source, lambda name: bool(_packed_name(name)), limit=_LIMIT)
    tops = {PurePosixPath(name).parents[1] for name in found if name.endswith(".ptb")}
    tops = {top for top in tops if all((top / name).as_posix() in found for name in _BESIDE)}
    if len(tops) != 1:
        raise MalformedFile(
            f"{source}: holds const/*.ptb beside {' and '.join(_BESIDE)} at {len(tops)} places, "
            "expected one; name the archive or the folder of one release"
        )
    (top,) = tops
    packed = {_packed_name(name): name for name in found if _is_below(name, top)}
    return {name: found[place] for name, place in packed.items()}


def _is_below(name: str, top: PurePosixPath) -> bool:
    return PurePosixPath(name) == top / _packed_name(name)


_BESIDE = ("splits.md", "LICENSE.txt")


def _packed_name(name: str) -> str:
    """What the packed corpus calls a file of the release; "" for what it leaves out."""
    path = PurePosixPath(name)
    if path.match("const/*.ptb"):
        return "" if "reddit" in path.name else f"const/{path.name}"
    return path.name if path.name in _BESIDE else ""


_BUILDERS = {"ocr_letters": _letters, "gum": _trees}


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
    with an `Origin` is built from the download of that (`rebuild`).

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
        rebuild(corpus, source, destination)


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
