"""Corpora built from what their makers distribute: letter.data, and a release of GUM."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from experiments.corpora import archives, locate, registry
from experiments.corpora.errors import ChecksumMismatch
from experiments.corpora.ocr_letters import LETTERS, OcrWords, load_ocr_letters
from experiments.corpora.rebuild import rebuild
from jaxstruct.data.errors import MalformedFile
from tests.experiments.corpora.packed import tarred, zipped
from tests.lib.refusals import refused


def _letter_data(words: OcrWords) -> bytes:
    """The words as their makers' text: id, letter, next_id, word_id, position, fold, pixels."""
    lines = []
    for word, (start, end) in enumerate(zip(words.offsets[:-1], words.offsets[1:], strict=True)):
        for at in range(start, end):
            following = at + 2 if at + 1 < end else -1
            letter = LETTERS[words.letters[at]]
            head = f"{at + 1}\t{letter}\t{following}\t{word + 1}\t{at - start + 1}"
            pixels = "\t".join(map(str, words.pixels[at].tolist()))
            lines.append(f"{head}\t{words.folds[word]}\t{pixels}\t\n")
    return "".join(lines).encode()


def _release(members: dict[str, bytes], top: str = "gum-72ce5ac1/") -> dict[str, bytes]:
    """A made-up repository around the members: reddit's documents, and files that are not ours."""
    return {
        **{top + name: content for name, content in members.items()},
        f"{top}const/GUM_reddit_pandas.ptb": b"(ROOT (_ _))\n",
        f"{top}const/readme.txt": b"no tree",
        f"{top}README.md": b"GUM",
        f"{top}dep/GUM_bio_byron.conllu": b"1\tno\n",
        f"{top}_build/LICENSE.txt": b"of the tools",
    }


@pytest.fixture(scope="module")
def whole_letter_data() -> bytes:
    if not locate.available("ocr_letters"):
        pytest.skip("corpus ocr_letters is not at hand")
    return _letter_data(load_ocr_letters())


@pytest.fixture(scope="module")
def packed_gum() -> Path:
    if not locate.available("gum"):
        pytest.skip("corpus gum is not at hand")
    return locate.find_file("gum", "gum-const.tar.xz")


def test_letters(whole_letter_data, folders) -> None:
    """Arrays equal those of the registered file, and the corpus is found where it was built."""
    source = folders.named.parent / "letter.data.gz"
    source.write_bytes(gzip.compress(whole_letter_data, 1))
    built = rebuild("ocr_letters", source, folders.named)
    assert built.holds == registry.CORPORA["ocr_letters"].origin.holds
    assert built.source_sha256 == locate.file_digest(source)
    assert built.path == locate.find_file("ocr_letters", "ocr_letters.npz")
    assert _letter_data(load_ocr_letters()) == whole_letter_data


def test_letters_changed(whole_letter_data, tmp_path) -> None:
    """One pixel more is refused, and nothing is written."""
    changed = whole_letter_data.replace(b"\t0\t\n", b"\t1\t\n", 1)
    assert changed != whole_letter_data
    (tmp_path / "letter.data").write_bytes(changed)
    with refused("holds 6877 words, .*another version or damaged", error=ChecksumMismatch):
        rebuild("ocr_letters", tmp_path / "letter.data", tmp_path / "data")
    assert not [path for path in (tmp_path / "data").rglob("*") if path.is_file()]


@pytest.mark.thorough
def test_trees(packed_gum, folders) -> None:
    """From an archive of the repository, as `test_fetching` has it from its address;
    `test_fetch_script` has the folder of a checkout."""
    source = folders.named.parent / "release.zip"
    source.write_bytes(zipped(_release(archives.read_members(packed_gum, lambda _: True), "g/")))
    built = rebuild("gum", source, folders.named)
    assert built.holds == registry.CORPORA["gum"].origin.holds
    found = locate.find_file("gum", "gum-const.tar.xz")
    assert found != packed_gum
    assert archives.content_digest(found) == archives.content_digest(packed_gum)


def test_trees_of_another_release(tmp_path) -> None:
    """Refused with what it holds; an archive without const/ says what is missing."""
    members = {"splits.md": b"## train\n", "LICENSE.txt": b"free", "const/GUM_a.ptb": b"(A b)"}
    source = tmp_path / "gum.zip"
    source.write_bytes(zipped(_release(members)))
    with refused("holds 1 documents .* 'gum' is 263 documents", error=ChecksumMismatch):
        rebuild("gum", source, tmp_path / "data")
    for missing in members:
        rest = {name: content for name, content in members.items() if name != missing}
        source.write_bytes(zipped({f"gum/{name}": content for name, content in rest.items()}))
        with refused("beside splits.md and LICENSE.txt at 0 places", error=MalformedFile):
            rebuild("gum", source, tmp_path / "data")
    assert not [path for path in tmp_path.rglob("data/*/*") if path.is_file()]


def test_others_are_not_built(tmp_path) -> None:
    with refused("'clinc150' is not built, expected ocr_letters or gum"):
        rebuild("clinc150", tmp_path, tmp_path)
    with pytest.raises(FileNotFoundError):
        rebuild("ocr_letters", tmp_path / "none", tmp_path)


def test_content_digest(tmp_path) -> None:
    """Names and contents count; order, packing and times do not."""
    one, two = {"a": b"1", "b": b"2"}, {"b": b"2", "a": b"1"}
    digests = set()
    for place, content in enumerate(
        [zipped(one), zipped(two), tarred(one, "gz"), tarred(two, "gz")]
    ):
        (tmp_path / str(place)).write_bytes(content)
        digests.add(archives.content_digest(tmp_path / str(place)))
    assert len(digests) == 1
    for other in ({"a": b"12", "b": b""}, {"a": b"1"}, {"ab": b"1", "b": b"2"}):
        (tmp_path / "other").write_bytes(zipped(other))
        assert archives.content_digest(tmp_path / "other") not in digests
