"""The atomic writer: whole or as before, and nothing left behind."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from jaxstruct.core import files
from jaxstruct.core.files import decode_utf8, remove_leftovers, replacing, write_file
from tests.lib.refusals import refused

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "content", ["a\r\nä\n", "a\r\nä\n".encode(), lambda stream: stream.write("a\r\nä\n".encode())]
)
def test_text_bytes_and_callbacks(content, tmp_path) -> None:
    """Line ends stay as they are; the folder is made; what was there is replaced."""
    path = tmp_path / "new" / "folder" / "out"
    for _ in range(2):
        assert write_file(str(path), content) == path
        assert path.read_bytes() == b"a\r\n\xc3\xa4\n"
    assert list(path.parent.iterdir()) == [path]


def _half(stream) -> None:
    stream.write(b"half")
    raise RuntimeError("stop")


@pytest.mark.parametrize("content, error", [(_half, RuntimeError), ("\ud800", UnicodeEncodeError)])
def test_an_error_leaves_what_was_there(content, error, tmp_path) -> None:
    path = tmp_path / "out"
    path.write_text("before")
    with pytest.raises(error):
        write_file(path, content)
    assert path.read_text() == "before" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("step", ["replace", "fsync"])
def test_a_full_disk(step, tmp_path, monkeypatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(files.os, step, fail)
    named = "no space left.*out" if step == "fsync" else "no space left"
    refused(named, write_file, tmp_path / "out", b"content", error=OSError)
    assert not list(tmp_path.iterdir())


def test_the_content_is_on_the_disk_before_the_rename(tmp_path, monkeypatch) -> None:
    """Otherwise a crash of the machine may leave an empty file under the final name."""
    steps = []
    for step in ("fsync", "replace"):
        real = getattr(os, step)
        monkeypatch.setattr(
            files.os, step, lambda *a, step=step, real=real: (steps.append(step), real(*a))
        )
    write_file(tmp_path / "out", b"content")
    assert steps == ["fsync", "replace"]


def test_the_longest_name_that_a_file_system_takes(tmp_path) -> None:
    path = tmp_path / ("ä" * 125)
    assert write_file(path, "text").read_text() == "text"


def test_a_folder(tmp_path) -> None:
    with replacing(tmp_path / "made") as temporary:
        temporary.mkdir()
        (temporary / "file").write_text("a")
    assert [entry.name for entry in tmp_path.iterdir()] == ["made"]
    with pytest.raises(RuntimeError), replacing(tmp_path / "other") as temporary:
        temporary.mkdir()
        (temporary / "file").write_text("a")
        raise RuntimeError
    assert [entry.name for entry in tmp_path.iterdir()] == ["made"]


def test_decode() -> None:
    assert decode_utf8("\ufeffä".encode(), "toy") == "ä"
    refused("^toy:2: byte 0xff is not UTF-8; convert", decode_utf8, b"a\nb\xff", "toy")


def test_there_is_no_other_writer() -> None:
    """Nobody renames or makes temporary names on their own."""
    folders = ("jaxstruct", "experiments", "third_party_data")
    sources = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    words = ("os.replace", "NamedTemporaryFile", "mkstemp", "token_hex", "os.rename")
    found = {
        path.relative_to(ROOT).as_posix()
        for path in sources
        if any(word in path.read_text(encoding="utf-8") for word in words)
    }
    assert found == {"jaxstruct/core/files.py"}


@pytest.mark.parametrize("links", [True, False])
def test_the_file_of_before_may_stay_beside(links, tmp_path, monkeypatch) -> None:
    """There is always one of the name, where the file system has links."""
    path, previous, seen = tmp_path / "out", tmp_path / "out.previous", []
    real = os.replace

    def replace(source, target) -> None:
        real(source, target)
        seen.append((Path(target).name, path.exists()))

    def no_links(source, target) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(files.os, "replace", replace)
    if not links:
        monkeypatch.setattr(files.os, "link", no_links)
    for content in ("1", "2", "3"):
        write_file(path, content, previous)
    assert (path.read_text(), previous.read_text()) == ("3", "2")
    assert seen[-2:] == [("out.previous", links), ("out", True)]
    with pytest.raises(RuntimeError):
        write_file(path, _half, previous)
    assert (path.read_text(), previous.read_text()) == ("3", "2")
    assert {file.name for file in tmp_path.iterdir()} == {"out", "out.previous"}


def test_leftovers_of_killed_writers(tmp_path) -> None:
    long = "x" * 41
    ours = [".a[1].npz.0123abcd.part"]
    others = [".a[1].npz.0123abcd.par", ".a1.npz.0123abcd.part", ".a[1].npz.0123ABCD.part",
              f".{long[:40]}.0123abcd.part", "a[1].npz"]  # fmt: skip
    for name in [*ours, *others]:
        (tmp_path / name).touch()
    remove_leftovers(tmp_path / "a[1].npz")
    remove_leftovers(tmp_path / long)
    remove_leftovers(tmp_path / "absent" / "a[1].npz")
    assert {file.name for file in tmp_path.iterdir()} == set(others)
