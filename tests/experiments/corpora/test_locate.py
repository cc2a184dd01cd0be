"""The registry is as its README says; files are looked for in the right order and trusted only
after their checksum."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

import pytest

from experiments.corpora import locate, registry
from experiments.corpora.errors import ChecksumMismatch, CorpusMissing
from tests.lib.refusals import refused


def _place(folder: Path, content: bytes, path: str = "a.txt") -> Path:
    target = folder / "toy" / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
    return target


def test_named_folder_comes_before_the_cache(folders, register, monkeypatch) -> None:
    """The cache serves only while the named folder lacks the file, or none is named."""
    register({"a.txt": b"alpha"})
    cached = _place(folders.cache, b"alpha")
    assert locate.find_file("toy", "a.txt") == cached
    named = _place(folders.named, b"alpha")
    assert locate.find_file("toy", "a.txt") == named
    monkeypatch.setenv(locate.DATA_VARIABLE, "")
    assert locate.search_folders() == (folders.cache,)
    monkeypatch.delenv(locate.DATA_VARIABLE)
    assert locate.search_folders() == (folders.cache,)


def test_missing_file_names_variable_and_command(folders, register) -> None:
    """The message holds both folders searched and both remedies."""
    register({"a.txt": b"alpha"}, url="http://example.invalid")
    with pytest.raises(CorpusMissing) as caught:
        locate.find_file("toy", "a.txt")
    assert isinstance(caught.value, FileNotFoundError)
    places = [str(folder / "toy" / "a.txt") for folder in (folders.named, folders.cache)]
    fetch = "python third_party_data/fetch.py --corpus=toy"
    assert all(part in str(caught.value) for part in (*places, "JAXSTRUCT_DATA", fetch))


def test_wrong_file_is_an_error_even_if_the_cache_is_right(folders, register) -> None:
    """A damaged file is never passed over in silence."""
    register({"a.txt": b"alpha"})
    _place(folders.cache, b"alpha")
    wrong = _place(folders.named, b"alphx")
    with refused("fetch it again", error=ChecksumMismatch) as caught:
        locate.find_file("toy", "a.txt")
    digests = [hashlib.sha256(content).hexdigest() for content in (b"alphx", b"alpha")]
    assert all(part in str(caught.value) for part in (str(wrong), *digests))


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


README = Path(__file__).parents[3] / "third_party_data" / "README.md"
FILES = [(corpus, entry) for corpus in registry.CORPORA.values() for entry in corpus.files]


def _table_rows(columns: int) -> set[tuple[str, ...]]:
    lines = README.read_text(encoding="utf-8").splitlines()
    rows = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines]
    return {row for row in rows if len(row) == columns and not row[0].startswith(("---", "corpus"))}


def test_files_are_fully_described() -> None:
    """A whole checksum, a size, and either a pinned address or words on the packing."""
    pinned = r"https://raw\.githubusercontent\.com/[\w-]+/[\w-]+/[0-9a-f]{40}/\S+"
    for corpus, entry in FILES:
        assert re.fullmatch(r"[0-9a-f]{64}", entry.sha256) and entry.bytes > 0
        if entry.url is None:
            assert f"{corpus.name}/{entry.path}" in corpus.packing
            assert "JAXSTRUCT_DATA" in corpus.packing
        else:
            assert corpus.packing == "" and re.fullmatch(pinned, entry.url)
            assert entry.url.endswith("/" + entry.path)


def test_readme_lists_every_file_and_no_other() -> None:
    """Its second table is the registry's files; who has to place one by hand reads the words of
    the error."""
    rows = {
        (f"`{corpus.name}`", corpus.title, corpus.source, corpus.licence, corpus.use)
        for corpus in registry.CORPORA.values()
    }
    for corpus, entry in FILES:
        address = entry.url or (corpus.origin and corpus.origin.url)
        way = f"[by script]({address})" if address else "by hand"
        own = corpus.name, entry.path, entry.sha256
        name, path, digest = (f"`{each}`" for each in own)
        rows.add((name, path, str(entry.bytes), digest, way))
    assert _table_rows(5) == rows
    text = README.read_text(encoding="utf-8")
    packed = [corpus for corpus in registry.CORPORA.values() if corpus.packing]
    assert all(f"- `{corpus.name}`: {corpus.packing}\n" in text for corpus in packed)


def test_unknown_names_list_the_known_ones() -> None:
    """The error is the remedy."""
    refused("got 'gun', expected one of conll2002, .*gum", registry.corpus_named, "gun")
    refused("no file 'x', expected one of data_full.json", registry.corpus_file, "clinc150", "x")
