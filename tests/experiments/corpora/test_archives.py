"""Archives round-trip, and every unsafe or broken one is refused without leaving anything."""

from __future__ import annotations

import random
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from experiments.corpora.archives import read_members
from experiments.corpora.errors import CorruptArchive, MissingMember
from jaxstruct.data.errors import UnsafeArchive
from tests.experiments.corpora.packed import tarred, zipped
from tests.lib.refusals import refused

NOISE = random.Random(0).randbytes(5000)  # does not compress, so a cut hits content
FILES = {"top.txt": b"top", "sub/deep/noise.bin": NOISE, "sub/empty": b""}
KINDS = ("zip", "tar", "tar.gz", "tar.xz")


def _zip(path: Path, files: dict[str, bytes], modes: dict[str, int] | None = None) -> Path:
    members = {}
    for name, content in files.items():
        info = zipfile.ZipInfo(name)
        info.external_attr = (modes or {}).get(name, stat.S_IFREG | 0o644) << 16
        members[info] = content
    path.write_bytes(zipped(members))
    return path


def _tar(path: Path, members: dict[tarfile.TarInfo, bytes]) -> Path:
    path.write_bytes(tarred(members))
    return path


def _archive(folder: Path, kind: str, files: dict[str, bytes]) -> Path:
    path = folder / f"archive.{kind}"
    if kind == "zip":
        return _zip(path, files)
    path.write_bytes(tarred(files, kind.removeprefix("tar").removeprefix(".")))
    return path


def _tar_special(path: Path, name: str, kind: bytes, target: str = "") -> Path:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return _tar(path, {info: b""})


def _assert_refused(path: Path, error: type[Exception], match: str) -> None:
    refused(match, read_members, path, lambda name: True, error=error)


@pytest.mark.parametrize("kind", KINDS)
def test_read_members(kind, tmp_path) -> None:
    """By names in the order asked for, by predicate in the archive's order."""
    path = _archive(tmp_path, kind, FILES)
    assert list(read_members(path, ["sub/empty", "top.txt"]).items()) == [
        ("sub/empty", b""),
        ("top.txt", b"top"),
    ]
    assert read_members(path, lambda name: name.startswith("sub/")) == {
        name: content for name, content in FILES.items() if name != "top.txt"
    }
    assert read_members(path, []) == {}


@pytest.mark.parametrize("kind", KINDS)
def test_kind_is_found_by_content(kind, tmp_path) -> None:
    """The file's own name plays no part."""
    path = _archive(tmp_path, kind, FILES).rename(tmp_path / "download")
    assert read_members(path, ["top.txt"]) == {"top.txt": b"top"}


def test_folder_members(tmp_path) -> None:
    """'./' is harmless, and a folder is no content to read."""
    folder, here = tarfile.TarInfo("./a/empty"), tarfile.TarInfo(".")
    folder.type = here.type = tarfile.DIRTYPE
    members = {here: b"", folder: b"", tarfile.TarInfo("./a/x"): b"x"}
    path = _tar(tmp_path / "a.tar", members)
    assert read_members(path, lambda name: True) == {"./a/x": b"x"}
    zipped = _zip(tmp_path / "a.zip", {"a/": b"", "a/x": b"x"}, {"a/": stat.S_IFDIR | 0o755})
    assert read_members(zipped, lambda name: True) == {"a/x": b"x"}


def test_missing_member_is_named(tmp_path) -> None:
    """Asking for a folder is asking for something that is not there."""
    path = _archive(tmp_path, "zip", FILES)
    with refused("holds no file 'sub'; it has 3 files", error=MissingMember):
        read_members(path, ["top.txt", "sub"])


@pytest.mark.parametrize("kind", ["zip", "tar"])
@pytest.mark.parametrize(
    "name",
    ["../up.txt", "a/../../up.txt", "/root.txt", "a/..", "..\\up.txt", "a\\..\\up.txt", "C:/x"],
)
def test_paths_that_lead_out_are_refused(kind, name, tmp_path) -> None:
    """In either spelling of a path, wherever the '..' stands."""
    path = _archive(tmp_path, kind, {"fine.txt": b"", name: b"evil"})
    _assert_refused(path, UnsafeArchive, "leads out")


def test_unwanted_members_are_checked_too(tmp_path) -> None:
    """One bad member taints the archive."""
    path = _archive(tmp_path, "tar", {"fine.txt": b"fine", "../up.txt": b"evil"})
    with pytest.raises(UnsafeArchive):
        read_members(path, ["fine.txt"])


@pytest.mark.parametrize("target", ["/etc/passwd", "../../secret", "top.txt"])
def test_links_are_refused(target, tmp_path) -> None:
    """Symbolic and hard, in tar and zip, wherever they point."""
    for number, kind in enumerate((tarfile.SYMTYPE, tarfile.LNKTYPE)):
        path = _tar_special(tmp_path / f"{number}.tar", "link", kind, target)
        _assert_refused(path, UnsafeArchive, "'link' is a link")
    zipped = _zip(tmp_path / "a.zip", {"link": target.encode()}, {"link": stat.S_IFLNK | 0o777})
    _assert_refused(zipped, UnsafeArchive, "'link' is a link")


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_devices_are_refused(kind, tmp_path) -> None:
    """Also pipes, and also when a zip marks them so."""
    path = _tar_special(tmp_path / "a.tar", "dev", kind)
    _assert_refused(path, UnsafeArchive, "'dev' is a device")
    zipped = _zip(tmp_path / "a.zip", {"dev": b""}, {"dev": stat.S_IFCHR | 0o600})
    _assert_refused(zipped, UnsafeArchive, "'dev' is a device")


@pytest.mark.parametrize(
    ("names", "match"),
    [
        (["a", "b", "a"], "'a' comes twice"),
        (["a", "./a"], "'./a' comes twice"),
        (["a", "a/b"], "'a' is both"),
        (["a/b/c", "a/b"], "'a/b' is both"),
    ],
)
def test_ambiguous_paths_are_refused(names, match, tmp_path) -> None:
    """What would win depends on the order, so nothing does."""
    members = {tarfile.TarInfo(name): b"x" for name in names}
    _assert_refused(_tar(tmp_path / "a.tar", members), UnsafeArchive, match)


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


def test_encrypted_zip(tmp_path) -> None:
    """A member marked as encrypted cannot be read, and says so."""
    path = _zip(tmp_path / "a.zip", {"a": b"secret"})
    content = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(signature) + offset] |= 1
    path.write_bytes(content)
    _assert_refused(path, CorruptArchive, "encrypted")


def test_not_an_archive(tmp_path) -> None:
    """A web page saved under an archive's name, and a file that is not there."""
    path = tmp_path / "a.zip"
    path.write_text("<html>not found</html>" * 100)
    _assert_refused(path, CorruptArchive, "not a zip or tar")
    with pytest.raises(FileNotFoundError):
        read_members(tmp_path / "none.zip", ["a"])


def test_real_archives(require_corpus) -> None:
    """The three archives at hand hold what the registry's source says."""
    conll = read_members(require_corpus("conll2002", "conll2002.zip"), ["conll2002/esp.testb"])
    text = conll["conll2002/esp.testb"].decode("utf-8")
    assert len([block for block in text.split("\n\n") if block.strip()]) == 1517
    trees = read_members(require_corpus("treebank", "treebank.zip"), lambda n: n.endswith(".mrg"))
    assert len(trees) == 199
    gum = read_members(require_corpus("gum", "gum-const.tar.xz"), lambda n: n.endswith(".ptb"))
    assert len(gum) > 200
    assert not any("reddit" in name for name in gum)
