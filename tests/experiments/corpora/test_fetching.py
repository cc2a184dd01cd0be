"""Downloads are verified before they get their name, corpora are built, failures say what to do."""

from __future__ import annotations

import gzip
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.corpora import archives, fetching, locate, registry
from experiments.corpora.errors import ChecksumMismatch, CorpusMissing, CorruptArchive, FetchError
from experiments.corpora.fetching import rebuild
from experiments.corpora.ocr_letters import load_ocr_letters
from jaxstruct.data.errors import MalformedFile
from tests.experiments.corpora.packed import letter_data, letter_lines, zipped
from tests.lib.refusals import refused

BODY = bytes(range(256)) * 1000  # several chunks


def _files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_fetch_places_verified_files_once(register, server, tmp_path) -> None:
    """Sub-folders are made, no temporary file stays, a second call downloads nothing."""
    register({"a.bin": BODY, "sub/b.txt": b"beta"}, url=server.url)
    server.pages.update({"/a.bin": (len(BODY), BODY), "/sub/b.txt": (4, b"beta")})
    paths = fetching.fetch("toy", tmp_path)
    assert [path.read_bytes() for path in paths] == [BODY, b"beta"]
    assert _files_below(tmp_path) == {"toy/a.bin", "toy/sub/b.txt"}
    assert fetching.fetch("toy", tmp_path) == paths
    assert server.hits == ["/a.bin", "/sub/b.txt"]
    paths[0].write_bytes(b"half")  # what is there is kept only if its checksum is right
    assert fetching.inspect("toy", tmp_path)[0].state == "damaged"
    assert fetching.fetch("toy", tmp_path)[0].read_bytes() == BODY


def test_wrong_bytes_leave_nothing(register, server, tmp_path) -> None:
    """Neither the file nor its temporary name stays behind: other bytes, cut short, longer."""
    register({"a.bin": BODY}, url=server.url)
    for length, body in ((0, BODY[:-1] + b"?"), (0, BODY[:-7]), (9, BODY + b"and so on")):
        server.pages["/a.bin"] = (len(BODY) + length, body)
        refused("nothing was kept", fetching.fetch, "toy", tmp_path, error=ChecksumMismatch)
        assert _files_below(tmp_path) == set()


def test_no_network_says_what_to_do(register, tmp_path, monkeypatch) -> None:
    """A closed port stands for a machine without network."""
    monkeypatch.setenv("no_proxy", "*")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        register({"a.txt": b"alpha"}, url=url)
        with pytest.raises(FetchError) as caught:
            fetching.fetch("toy", tmp_path)
    wanted = (f"{url}/a.txt", "refused", "offline", "JAXSTRUCT_DATA", "--verify_only")
    assert all(part in str(caught.value) for part in wanted)


def test_file_without_address(register, tmp_path) -> None:
    """It counts as fetched once the user has placed it, not before, and not if it is wrong."""
    register({"a.txt": b"alpha"})
    refused("Ask the baker", fetching.fetch, "toy", tmp_path, error=CorpusMissing)
    target = tmp_path / "toy" / "a.txt"
    target.parent.mkdir()
    target.write_bytes(b"alphx")
    with pytest.raises(ChecksumMismatch):
        fetching.fetch("toy", tmp_path)
    target.write_bytes(b"alpha!"[:5])
    assert fetching.fetch("toy", tmp_path) == (target,)


def test_a_corpus_is_built_from_its_origin(require_corpus, server, tmp_path, monkeypatch) -> None:
    """The download of its makers' file is built, checked and thrown away; other bytes are not."""
    gum = registry.CORPORA["gum"]
    packed = archives.read_members(require_corpus("gum", "gum-const.tar.xz"), lambda name: True)
    page = zipped({f"gum-72ce5ac1/{name}": content for name, content in packed.items()})
    near = gum._replace(origin=gum.origin._replace(url=f"{server.url}/gum.zip"))
    monkeypatch.setattr(registry, "CORPORA", {"gum": near})
    server.pages["/gum.zip"] = (len(page), page[:5000])
    with pytest.raises((FetchError, CorruptArchive)):
        fetching.fetch("gum", tmp_path)
    assert not _files_below(tmp_path)
    server.pages["/gum.zip"] = (len(page), page)
    (path,) = fetching.fetch("gum", tmp_path)
    assert _files_below(tmp_path) == {"gum/gum-const.tar.xz"} and path.is_file()
    assert fetching.fetch("gum", tmp_path) == (path,)
    assert server.hits == ["/gum.zip"] * 2


OTHERS = ("const/GUM_reddit_pandas.ptb", "const/readme.txt", "README.md", "_build/LICENSE.txt")
"""Files of a repository that are not the corpus's: reddit's documents, and of other kinds."""


@pytest.fixture(scope="module")
def whole_letter_data() -> bytes:
    if not locate.available("ocr_letters"):
        pytest.skip("corpus ocr_letters is not at hand")
    return letter_data(letter_lines(load_ocr_letters()))


def test_letters(whole_letter_data, folders, tmp_path) -> None:
    """Arrays equal those of the registered file, and the corpus is found where it was built; one
    pixel more is refused, and nothing is written."""
    changed = whole_letter_data.replace(b"\t0\t\n", b"\t1\t\n", 1)
    assert changed != whole_letter_data
    source = tmp_path / "letter.data.gz"
    source.write_bytes(gzip.compress(changed, 1))
    with refused("holds 6877 words, .*another version or damaged", error=ChecksumMismatch):
        rebuild("ocr_letters", source, folders.named)
    assert not _files_below(folders.named)
    source.write_bytes(gzip.compress(whole_letter_data, 1))
    built = rebuild("ocr_letters", source, folders.named)
    assert built.holds == registry.CORPORA["ocr_letters"].origin.holds
    assert built.source_sha256 == locate.file_digest(source)
    assert built.path == locate.find_file("ocr_letters", "ocr_letters.npz")
    assert letter_data(letter_lines(load_ocr_letters())) == whole_letter_data


def test_trees_of_another_release(tmp_path) -> None:
    """Refused with what it holds; an archive without const/ says what is missing."""
    members = {"splits.md": b"## train\n", "LICENSE.txt": b"free", "const/GUM_a.ptb": b"(A b)"}
    source = tmp_path / "gum.zip"
    whole = dict.fromkeys(OTHERS, b"(ROOT (_ _))") | members
    source.write_bytes(zipped({f"gum-72ce5ac1/{name}": content for name, content in whole.items()}))
    with refused("holds 1 documents .* 'gum' is 263 documents", error=ChecksumMismatch):
        rebuild("gum", source, tmp_path / "data")
    for missing in members:
        rest = {name: content for name, content in members.items() if name != missing}
        source.write_bytes(zipped({f"gum/{name}": content for name, content in rest.items()}))
        with refused("beside splits.md and LICENSE.txt at 0 places", error=MalformedFile):
            rebuild("gum", source, tmp_path / "data")
    assert not [path for path in tmp_path.rglob("data/*/*") if path.is_file()]


ROOT = Path(__file__).parents[3]


def _run(*flags: str, **environment: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, str(ROOT / "third_party_data" / "fetch.py"), *flags]
    own = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu", **environment}
    return subprocess.run(line, env=own, capture_output=True, text=True, timeout=300)


def test_verify_only_reports_what_is_missing(tmp_path) -> None:
    """Nothing is downloaded; the table has every file; the exit code is not zero."""
    done = _run("--verify_only", JAXSTRUCT_DATA=str(tmp_path / "data"))
    assert done.returncode == 1
    for corpus in registry.CORPORA.values():
        for entry in corpus.files:
            row = next(line for line in done.stdout.splitlines() if f" {entry.path} " in line)
            assert row.split()[:4] == [corpus.name, entry.path, "missing", str(entry.bytes)]
            assert corpus.licence in row
    assert not (tmp_path / "data").exists()


def test_built_from_a_release(require_corpus, tmp_path) -> None:
    """The corpus is in place afterwards, built from the folder of a checkout, which holds more."""
    folder = tmp_path / "release"
    members = archives.read_members(require_corpus("gum", "gum-const.tar.xz"), lambda name: True)
    for name, content in (dict.fromkeys(OTHERS, b"(ROOT (_ _))") | members).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    done = _run("--corpus=gum", f"--from={folder}", f"--destination={tmp_path / 'data'}")
    assert done.returncode == 0, done.stderr
    assert "263 documents with trees\nchecked: what it holds is the registered" in done.stdout
    assert "gum-const.tar.xz         present" in done.stdout


def test_stray_argument_is_refused(tmp_path) -> None:
    """A forgotten '--' does not fetch everything."""
    done = _run("gum", f"--destination={tmp_path}")
    assert done.returncode != 0
    assert "unexpected arguments: gum" in done.stderr + done.stdout
    assert not list(tmp_path.iterdir())
