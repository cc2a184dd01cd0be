"""Lines of plain and packed files, what is wrong with them, and what was read."""

from __future__ import annotations

import gzip
import hashlib
import io

import pytest

from experiments.lib import reading
from experiments.lib.reading import Line, digest_of, lines_of, opened
from jaxstruct.data.errors import MalformedFile
from tests.lib.refusals import refused

CONTENT = b"\xef\xbb\xbfone\r\n\ntw\xc3\xb6\nb\xffd\nlast"
LINES = [
    Line(1, "one"), Line(2, ""), Line(3, "twö"), Line(4, "b\\xffd", "byte 0xff is not UTF-8"),
    Line(5, "last"),
]  # fmt: skip


@pytest.mark.parametrize("packed", [False, True])
def test_lines_digest_and_size_of_a_file(tmp_path, packed: bool) -> None:
    path = tmp_path / ("a.txt.gz" if packed else "a.txt")
    path.write_bytes(gzip.compress(CONTENT) if packed else CONTENT)
    counts: list[int] = []
    with opened(str(path), counts.append) as (source, stream):
        assert list(lines_of(stream, "a")) == LINES
    raw = path.read_bytes()
    assert source.sha256 == digest_of(path) == hashlib.sha256(raw).hexdigest()
    assert source.count == sum(counts) == len(raw)


@pytest.mark.parametrize("longer", [0, 1, 7, 8, 20])
def test_a_line_without_end_is_not_held(monkeypatch, longer: int) -> None:
    monkeypatch.setattr(reading, "MOST_BYTES", 8)
    fits = "x" * 7
    long = "x" * (8 + longer)
    content = f"{fits}\n{long}\nafter\n{long}".encode()
    found = list(lines_of(io.BytesIO(content), "a"))
    assert [(line.number, line.fault is None) for line in found] == [
        (1, True), (2, False), (3, True), (4, False),
    ]  # fmt: skip
    assert found[0].text == fits and found[2].text == "after" and found[1].text == ""


def test_a_damaged_packed_file_says_so(tmp_path) -> None:
    path = tmp_path / "a.gz"
    for content, line in ((gzip.compress(b"one\n" * 50)[:-9], 51), (b"no gzip", 1)):
        path.write_bytes(content)
        with refused(f"a:{line}: the packed file is damaged", error=MalformedFile):
            with opened(str(path)) as (_, stream):
                list(lines_of(stream, "a"))
