"""Corpus files are looked for in the right order and trusted only after their checksum."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from experiments.corpora import locate
from experiments.corpora.errors import ChecksumMismatch, CorpusMissing
from tests.lib.refusals import refused


def _place(folder: Path, content: bytes, path: str = "a.txt") -> Path:
    target = folder / "toy" / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
    return target


def test_named_folder_comes_before_the_cache(folders, register) -> None:
    """The cache serves only while the named folder lacks the file."""
    register({"a.txt": b"alpha"})
    cached = _place(folders.cache, b"alpha")
    assert locate.find_file("toy", "a.txt") == cached
    named = _place(folders.named, b"alpha")
    assert locate.find_file("toy", "a.txt") == named


def test_unset_variable_searches_the_cache_alone(folders, register, monkeypatch) -> None:
    """An empty variable is as good as none."""
    for value in (None, ""):
        if value is None:
            monkeypatch.delenv(locate.DATA_VARIABLE)
        else:
            monkeypatch.setenv(locate.DATA_VARIABLE, value)
        assert locate.search_folders() == (folders.cache,)


@pytest.mark.parametrize("base", ["", "relative/folder"])
def test_cache_default_is_under_home(base, monkeypatch, tmp_path) -> None:
    """A relative XDG_CACHE_HOME is ignored, as its specification asks."""
    monkeypatch.setenv("XDG_CACHE_HOME", base)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert locate.cache_folder() == tmp_path / ".cache" / "jaxstruct"


def test_missing_file_names_variable_and_command(folders, register) -> None:
    """The message holds both folders searched and both remedies."""
    register({"a.txt": b"alpha"}, url="http://example.invalid")
    with pytest.raises(CorpusMissing) as caught:
        locate.find_file("toy", "a.txt")
    assert isinstance(caught.value, FileNotFoundError)
    message = str(caught.value)
    for part in (
        str(folders.named / "toy" / "a.txt"),
        str(folders.cache / "toy" / "a.txt"),
        "JAXSTRUCT_DATA",
        "python third_party_data/fetch.py --corpus=toy",
    ):
        assert part in message


def test_missing_file_without_address_names_the_packing(folders, register) -> None:
    """A file that cannot be downloaded must not send the user to the downloader."""
    register({"a.txt": b"alpha"})
    with refused("cannot be downloaded: Ask the baker.*--verify_only", error=CorpusMissing):
        locate.find_file("toy", "a.txt")


def test_wrong_file_is_an_error_even_if_the_cache_is_right(folders, register) -> None:
    """A damaged file is never passed over in silence."""
    register({"a.txt": b"alpha"})
    _place(folders.cache, b"alpha")
    wrong = _place(folders.named, b"alphx")
    with refused("fetch it again", error=ChecksumMismatch) as caught:
        locate.find_file("toy", "a.txt")
    assert str(wrong) in str(caught.value)
    assert hashlib.sha256(b"alphx").hexdigest() in str(caught.value)
    assert hashlib.sha256(b"alpha").hexdigest() in str(caught.value)


def test_verified_once_a_process_until_it_changes(folders, register, monkeypatch) -> None:
    """The second look does not read the file; a changed one is read again."""
    register({"a.txt": b"alpha"})
    target = _place(folders.named, b"alpha")
    reads = []
    digest = locate.file_digest
    monkeypatch.setattr(locate, "file_digest", lambda path: reads.append(path) or digest(path))
    locate.find_file("toy", "a.txt")
    locate.find_file("toy", "a.txt")
    assert reads == [target]
    target.write_bytes(b"alphx")
    os.utime(target, ns=(1, 1))
    with pytest.raises(ChecksumMismatch):
        locate.find_file("toy", "a.txt")


def test_available_needs_every_file(folders, register) -> None:
    """Half a corpus is none; a damaged one is an error rather than an absence."""
    register({"a.txt": b"alpha", "sub/b.txt": b"beta"})
    _place(folders.named, b"alpha")
    assert not locate.available("toy")
    second = _place(folders.cache, b"beta", "sub/b.txt")
    assert locate.available("toy")
    second.write_bytes(b"")
    with pytest.raises(ChecksumMismatch):
        locate.available("toy")
    refused("expected one of toy", locate.available, "gum")
