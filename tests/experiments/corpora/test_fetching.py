"""Downloads are verified before they get their name, and failures say what to do."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from experiments.corpora import archives, fetching, registry
from experiments.corpora.errors import ChecksumMismatch, CorpusMissing, CorruptArchive, FetchError
from tests.experiments.corpora.packed import zipped
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


def test_fetch_replaces_a_damaged_file(register, server, tmp_path) -> None:
    """What is there is kept only if its checksum is right."""
    register({"a.bin": BODY}, url=server.url)
    server.pages["/a.bin"] = (len(BODY), BODY)
    target = tmp_path / "toy" / "a.bin"
    target.parent.mkdir()
    target.write_bytes(b"half")
    assert fetching.inspect("toy", tmp_path)[0].state == "damaged"
    fetching.fetch("toy", tmp_path)
    assert target.read_bytes() == BODY


@pytest.mark.parametrize(
    "page",
    [
        (len(BODY), BODY[:-1] + b"?"),  # other bytes
        (len(BODY), BODY[:-7]),  # cut short
        (len(BODY) + 9, BODY + b"and so on"),  # longer
    ],
)
def test_wrong_bytes_leave_nothing(page, register, server, tmp_path) -> None:
    """Neither the file nor its temporary name stays behind."""
    register({"a.bin": BODY}, url=server.url)
    server.pages["/a.bin"] = page
    refused("nothing was kept", fetching.fetch, "toy", tmp_path, error=ChecksumMismatch)
    assert _files_below(tmp_path) == set()


def test_endless_answer_is_cut_off(register, server, tmp_path) -> None:
    """A server that sends far too much is left after at most one chunk beyond the file's size."""
    register({"a.txt": b"alpha"}, url=server.url)
    server.pages["/a.txt"] = (len(BODY), BODY)
    with refused(r"a\.txt: (\d+) bytes", error=ChecksumMismatch) as caught:
        fetching.fetch("toy", tmp_path)
    size = int(str(caught.value).split(" bytes")[0].rsplit(" ", 1)[1])
    assert 5 < size <= 1 << 16


def test_no_such_address(register, server, tmp_path) -> None:
    """The message names the address and the server's answer."""
    register({"a.txt": b"alpha"}, url=server.url)
    with refused("a.txt: the download failed .*Not Found", error=FetchError):
        fetching.fetch("toy", tmp_path)
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
    message = str(caught.value)
    for part in (f"{url}/a.txt", "refused", "offline", "JAXSTRUCT_DATA", "--verify_only"):
        assert part in message


def test_silent_server_times_out(register, tmp_path, monkeypatch) -> None:
    """A server that accepts and says nothing does not hang the program."""
    monkeypatch.setenv("no_proxy", "*")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        register({"a.txt": b"alpha"}, url=f"http://127.0.0.1:{silent.getsockname()[1]}")
        start = time.monotonic()
        refused("timed out", fetching.fetch, "toy", tmp_path, timeout=0.1, error=FetchError)
        assert time.monotonic() - start < 60  # urllib's own default is to wait for ever


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


def test_inspect_finds_three_states(register, tmp_path) -> None:
    """Present, missing and damaged, the last two with a reason."""
    register({"a.txt": b"alpha", "b.txt": b"beta", "c.txt": b"gamma"})
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "a.txt").write_bytes(b"alpha")
    (tmp_path / "toy" / "c.txt").write_bytes(b"gamm")
    statuses = fetching.inspect("toy", tmp_path)
    assert [status.state for status in statuses] == ["present", "missing", "damaged"]
    assert [bool(status.detail) for status in statuses] == [False, True, True]
