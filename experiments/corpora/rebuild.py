"""Builds a corpus that cannot be downloaded as it is from what its makers distribute.

The makers' files change their packing and we do not know their sha256. So the result is what is
checked: its members must be those of the registered file, byte for byte.
"""

from __future__ import annotations

import io
import tarfile
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np

from experiments.corpora import archives, locate, registry
from experiments.corpora.errors import ChecksumMismatch
from experiments.corpora.ocr_letters import read_letter_data
from jaxstruct.core.files import replacing
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
