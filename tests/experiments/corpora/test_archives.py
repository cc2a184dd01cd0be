"""Archives round-trip, and every unsafe or broken one is refused without leaving anything."""

from __future__ import annotations

import random
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from experiments.corpora.archives import content_digest, read_members
from experiments.corpora.errors import CorruptArchive, MissingMember
from jaxstruct.data.errors import UnsafeArchive
from tests.experiments.corpora.packed import tarred, zipped
from tests.lib.refusals import refused

NOISE = random.Random(0).randbytes(5000)  # does not compress, so a cut hits content
FILES = {"top.txt": b"top", "sub/deep/noise.bin": NOISE, "sub/empty": b""}
KINDS = ("zip", "tar", "tar.gz", "tar.xz")


def _written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def _archive(folder: Path, kind: str, files: dict[str, bytes]) -> Path:
    packed = zipped(files) if kind == "zip" else tarred(files, kind[4:])
    return _written(folder / f"archive.{kind}", packed)


def _marked(kind: int) -> bytes:
    """A zip of one member that is marked as of this kind."""
    info = zipfile.ZipInfo("one")
    info.external_attr = (kind | 0o644) << 16
    return zipped({info: b"x"})


def _special(kind: bytes) -> bytes:
    """A tar of one member of this kind."""
    info = tarfile.TarInfo("one")
    info.type, info.linkname = kind, "top.txt"
    return tarred({info: b""})


def _assert_refused(path: Path, error: type[Exception], match: str) -> None:
    refused(match, read_members, path, lambda name: True, error=error)


@pytest.mark.parametrize("kind", KINDS)
def test_read_members(kind, tmp_path) -> None:
    """By names in the order asked for, by predicate in the archive's order; by content, whatever
    the name of the file."""
    path = _archive(tmp_path, kind, FILES).rename(tmp_path / "download")
    found = [*read_members(path, ["sub/empty", "top.txt"]).items()]
    assert found == [("sub/empty", b""), ("top.txt", b"top")]
    found = read_members(path, lambda name: name.startswith("sub/"))
    assert found == {name: FILES[name] for name in ("sub/deep/noise.bin", "sub/empty")}
    assert read_members(path, []) == {}
    wanted = ["top.txt", "sub"]
    refused("holds no file 'sub'; it has 3 files", read_members, path, wanted, error=MissingMember)
    with pytest.raises(FileNotFoundError):
        read_members(tmp_path / "none.zip", ["a"])


def test_folder_members(tmp_path) -> None:
    """'./' is harmless, and a folder is no content to read."""
    folder, here = tarfile.TarInfo("./a/empty"), tarfile.TarInfo(".")
    folder.type = here.type = tarfile.DIRTYPE
    members = {here: b"", folder: b"", tarfile.TarInfo("./a/x"): b"x"}
    path = _written(tmp_path / "a.tar", tarred(members))
    assert read_members(path, lambda name: True) == {"./a/x": b"x"}
    path = _written(tmp_path / "a.zip", zipped({"a/": b"", "a/x": b"x"}))
    assert read_members(path, lambda name: True) == {"a/x": b"x"}


@pytest.mark.parametrize("kind", ["zip", "tar"])
@pytest.mark.parametrize("name", ["../up.txt", "a/..", "/root.txt", "a\\..\\up.txt", "C:/x"])
def test_paths_that_lead_out_are_refused(kind, name, tmp_path) -> None:
    """In either spelling of a path, wherever the '..' stands, and whether it is wanted or not."""
    path = _archive(tmp_path, kind, {"fine.txt": b"", name: b"evil"})
    _assert_refused(path, UnsafeArchive, "leads out")
    with pytest.raises(UnsafeArchive):
        read_members(path, ["fine.txt"])


def _tar_of(*names: str) -> bytes:
    return tarred({tarfile.TarInfo(name): b"x" for name in names})


def _encrypted() -> bytes:
    content = bytearray(zipped({"a": b"secret"}))
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(signature) + offset] |= 1
    return bytes(content)


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (_special(tarfile.SYMTYPE), UnsafeArchive, "'one' is a link"),
        (_special(tarfile.LNKTYPE), UnsafeArchive, "'one' is a link"),
        (_marked(stat.S_IFLNK), UnsafeArchive, "'one' is a link"),
        (_special(tarfile.CHRTYPE), UnsafeArchive, "'one' is a device"),
        (_special(tarfile.FIFOTYPE), UnsafeArchive, "'one' is a device"),
        (_marked(stat.S_IFCHR), UnsafeArchive, "'one' is a device"),
        # What would win depends on the order, so nothing does.
        (_tar_of("a", "b", "a"), UnsafeArchive, "'a' comes twice"),
        (_tar_of("a", "./a"), UnsafeArchive, "'./a' comes twice"),
        (_tar_of("a", "a/b"), UnsafeArchive, "'a' is both"),
        (_tar_of("a/b/c", "a/b"), UnsafeArchive, "'a/b' is both"),
        (_encrypted(), CorruptArchive, "encrypted"),
        (b"<html>not found</html>" * 100, CorruptArchive, "not a zip or tar"),
    ],
    ids=range(12),
)
def test_what_is_no_plain_archive_of_files_is_refused(content, error, message, tmp_path) -> None:
    _assert_refused(_written(tmp_path / "a.zip", content), error, message)


@pytest.mark.parametrize("kind", KINDS)
def test_limit_on_unpacked_bytes(kind, tmp_path) -> None:
    """A small file that inflates to 20 MB is stopped; the sum of the members counts."""
    bomb = _archive(tmp_path, kind, {f"{number}": bytes(10_000_000) for number in range(2)})
    for limit in (1000, 19_000_000):
        with refused("larger limit", error=UnsafeArchive):
            read_members(bomb, lambda name: True, limit=limit)
    assert len(read_members(bomb, ["1"], limit=21_000_000)["1"]) == 10_000_000


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kept", [0, 3, 400, 3000, -600])
def test_truncated(kind, kept, tmp_path) -> None:
    """Cut anywhere: in the first bytes, in a header, in the content, near the end."""
    path = _archive(tmp_path, kind, FILES)
    content = path.read_bytes()
    end = len(content.rstrip(b"\0")) if kind == "tar" else len(content)
    path.write_bytes(content[:kept] if kept >= 0 else content[: end + kept])
    _assert_refused(path, CorruptArchive, "fetch it again")


@pytest.mark.parametrize("kind", ["zip", "tar.gz", "tar.xz"])
def test_one_changed_byte(kind, tmp_path) -> None:
    """The checksums inside the formats are used."""
    path = _archive(tmp_path, kind, FILES)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    _assert_refused(path, CorruptArchive, "damaged")


def test_damaged_tar_header_is_not_taken_for_the_end(tmp_path) -> None:
    """Python's tarfile stops silently at a bad header, which would lose the members behind it."""
    path = _archive(tmp_path, "tar", {"a": b"a", "b": b"b"})
    content = bytearray(path.read_bytes())
    content[1024 + 150] ^= 0x01  # the checksum field of the second member
    path.write_bytes(content)
    _assert_refused(path, CorruptArchive, "no end-of-archive block")


def test_content_digest(tmp_path) -> None:
    """Names and contents count; order, packing and times do not."""
    one, two = {"a": b"1", "b": b"2"}, {"b": b"2", "a": b"1"}
    others = ({"a": b"12", "b": b""}, {"a": b"1"}, {"ab": b"1", "b": b"2"})
    same = (zipped(one), zipped(two), tarred(one, "gz"), tarred(two, "gz"))
    digests = [
        content_digest(_written(tmp_path / "a", content))
        for content in (*same, *map(zipped, others))
    ]
    assert len(set(digests[:4])) == 1 and len(set(digests)) == 4
