"""Treebanks by hand-made archives and folders, faults in them, and the real corpora."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from experiments.corpora.treebanks import TreebankFile, load_gum, load_ldc, load_treebank_sample
from jaxstruct.data.errors import MalformedFile, UnsafeArchive
from tests.experiments.corpora.packed import tarred, zipped
from tests.lib.refusals import refused

SPLITS = "# Splits\n\n## train\n\n  * GUM_b\n  * GUM_reddit_x\n\n## test\n\n  * GUM_a\n"
GUM = {
    "splits.md": SPLITS.encode(), "LICENSE.txt": b"CC BY",
    "const/GUM_b.ptb": b"\xef\xbb\xbf(ROOT (NN b))",
    "const/GUM_a.ptb": "(ROOT (NN é))\n\n(ROOT (NN c))".encode(),
}  # fmt: skip


def _file(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_gum_by_hand(tmp_path: Path) -> None:
    """By name, with the part of splits.md; documents without file are left out."""
    assert load_gum(_file(tmp_path / "g.tar.xz", tarred(GUM, "xz"))) == (
        TreebankFile("GUM_a", "test", "(ROOT (NN é))\n\n(ROOT (NN c))"),
        TreebankFile("GUM_b", "train", "(ROOT (NN b))"),
    )


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"const/GUM_c.ptb": b"(A a)"}, MalformedFile, "GUM_c.ptb: splits.md does not say"),
        ({"const/GUM_a.ptb": b"(A a)\n\xff"}, MalformedFile, "GUM_a.ptb:2: byte 0xff is not UTF-8"),
        ({"splits.md": b"  * GUM_a\n"}, MalformedFile, "splits.md:1: 'GUM_a' is under no heading"),
        ({"splits.md": f"{SPLITS}  * GUM_b\n".encode()}, MalformedFile, "11: 'GUM_b' comes twice"),
        ({"../evil.ptb": b"(A a)"}, UnsafeArchive, "leads out of the archive"),
    ],
)
def test_faults_of_gum(tmp_path: Path, changes, error, message: str) -> None:
    path = _file(tmp_path / "g.tar.xz", tarred(GUM | changes, "xz"))
    refused(message, load_gum, path, error=error)


def test_sample_by_hand(tmp_path: Path) -> None:
    members = {
        "treebank/README": b"", "treebank/combined/wsj_0101.mrg": b"( (S (NN b)) )",
        "treebank/combined/wsj_0001.mrg": b"( (S (NN a)) )",
        "treebank/tagged/wsj_0001.pos": b"a/NN",
    }  # fmt: skip
    assert load_treebank_sample(_file(tmp_path / "t.zip", zipped(members))) == (
        TreebankFile("wsj_0001", "00", "( (S (NN a)) )"),
        TreebankFile("wsj_0101", "01", "( (S (NN b)) )"),
    )
    with refused("holds no wsj_NNNN.mrg", error=MalformedFile):
        load_treebank_sample(_file(tmp_path / "u.zip", zipped({"README": b""})))


def _ldc(folder: Path) -> Path:
    for section, number in (("02", "00"), ("02", "01"), ("22", "00")):
        path = folder / "mrg" / "wsj" / section / f"wsj_{section}{number}.mrg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"( (NN w{section}{number}) )")
    (folder / "mrg" / "wsj" / "02" / "readme.txt").write_text("no tree")
    return folder


def test_ldc_by_hand(tmp_path: Path) -> None:
    files = load_ldc(_ldc(tmp_path))
    found = [(file.name, file.part) for file in files]
    assert found == [("wsj_0200", "02"), ("wsj_0201", "02"), ("wsj_2200", "22")]
    assert files[0].text == "( (NN w0200) )"
    assert [file.name for file in load_ldc(tmp_path / "mrg", ["22"])] == ["wsj_2200"]


def test_faults_of_ldc(tmp_path: Path) -> None:
    refused("is no folder; name the one", load_ldc, tmp_path / "none", error=FileNotFoundError)
    refused("holds no wsj_NNNN.mrg at any depth", load_ldc, tmp_path, error=MalformedFile)
    _ldc(tmp_path)
    refused("sections: .* lacks 03, 04", load_ldc, tmp_path, ["02", "04", "03"])
    (tmp_path / "wsj_0200.MRG").write_text("( (NN again) )")
    refused("holds wsj_0200.mrg twice", load_ldc, tmp_path, error=MalformedFile)


def test_the_real_ones(require_corpus) -> None:
    require_corpus("gum", "gum-const.tar.xz")
    files = load_gum()
    parts = Counter(file.part for file in files)
    assert parts == {"train": 177, "dev": 30, "test": 30, "test2": 26}
    assert not any("reddit" in file.name for file in files)
    assert all(file.text.startswith("(ROOT") for file in files)
    require_corpus("treebank", "treebank.zip")
    assert Counter(file.part for file in load_treebank_sample()) == {"00": 99, "01": 100}
