"""WIPO-alpha: packed arrays and XML, from handmade files, bad files, and the real corpus."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments.corpora.wipo import WipoRecord, ipc_ancestors, load_wipo_arrays, load_wipo_xml
from jaxstruct.data.errors import MalformedFile
from tests.lib.refusals import refused

ARRAYS = {
    "X_train": np.array([[1, 2], [3, 4], [5, 6]], np.float32),
    "y_train": np.array(["D01D00", "D01F01", "D01D00"]),
    "X_test": np.array([[7, 8]], np.float32),
    "y_test": np.array(["D02G00"]),
}
RECORD = """<?xml version="1.0" encoding="{encoding}"?>{doctype}
<record cy="WO" pn="WO2001"><ipcs ed="7" mc="D01D00100"><ipc ic="D01F00604"/><ipc ic="B29C04700"/>
</ipcs><tis><ti xml:lang="EN">Spinning
  a fibré</ti></tis><abs><ab>Short.</ab></abs><cls><cl>A <b>spinneret</b> &amp; pump.</cl></cls>
<txts><txt>Long.</txt></txts></record>
"""
EXPECTED = WipoRecord("WO2001", "D01D00100", "Spinning a fibré A spinneret & pump.")


def _save(path: Path, **changes: np.ndarray | None) -> Path:
    arrays = {key: value for key, value in (ARRAYS | changes).items() if value is not None}
    np.savez(path, **arrays)
    return path


def _xml(path: Path, encoding: str = "utf-8", doctype: str = "", **swaps: str) -> Path:
    text = RECORD.format(encoding=encoding, doctype=doctype)
    for old, new in swaps.values():
        assert old in text
        text = text.replace(old, new)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode(encoding))
    return path


def test_arrays_round_trip(tmp_path) -> None:
    """Vectors as float32, symbols as text."""
    loaded = load_wipo_arrays(_save(tmp_path / "a.npz"))
    np.testing.assert_array_equal(loaded.x_train, ARRAYS["X_train"], strict=True)
    np.testing.assert_array_equal(loaded.x_test, ARRAYS["X_test"], strict=True)
    assert loaded.y_train == ("D01D00", "D01F01", "D01D00")
    assert loaded.y_test == ("D02G00",)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y_test": None}, "expected an npz with X_train, y_train, X_test, y_test"),
        ({"X_train": ARRAYS["X_train"].astype(np.float64)}, "train has X float64"),
        ({"X_test": np.ones((1, 3), np.float32)}, "test has X .*one d for both parts"),
        ({"X_test": np.array([[1, np.nan]], np.float32)}, "test needs finite vectors"),
        ({"y_test": np.array(["D02"]) + "?"}, "got 'D02[?]', expected an IPC symbol"),
        ({"y_test": np.array(["D02G00"], dtype=object)}, "object .*, expected plain numbers"),
    ],
)
def test_arrays_malformed(changes, message, tmp_path) -> None:
    """Missing arrays, wrong types and shapes, bad symbols, and anything pickled."""
    refused(message, load_wipo_arrays, _save(tmp_path / "a.npz", **changes), error=MalformedFile)


def test_xml_record(tmp_path) -> None:
    """Title and claims by default, inner markup flattened, in whatever encoding is declared."""
    for encoding in ("utf-8", "iso-8859-1", "utf-16"):
        assert load_wipo_xml([_xml(tmp_path / "a.xml", encoding)]) == (EXPECTED,)
    assert len(load_wipo_xml([_xml(tmp_path / "a.xml", swap=("ti", "x"))])) == 1  # the claims


def test_xml_folder_is_searched_in_order(tmp_path) -> None:
    """Below sub-folders, by path, other files left out; several records in one file."""
    _xml(tmp_path / "b" / "1.XML", pn=("WO2001", "WO3"))
    both = RECORD.split("?>{doctype}")[1]
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "2.xml").write_text(f"<set>{both}{both.replace('WO2001', 'WO2')}</set>")
    (tmp_path / "a" / "readme.txt").write_text("no")
    records = load_wipo_xml(tmp_path)
    assert [record.publication for record in records] == ["WO2001", "WO2", "WO3"]
    assert load_wipo_xml(str(tmp_path)) == records
    (tmp_path / "empty").mkdir()
    refused("empty holds no .xml file", load_wipo_xml, tmp_path / "empty", error=FileNotFoundError)
    with pytest.raises(FileNotFoundError):
        load_wipo_xml([tmp_path / "none.xml"])


def test_xml_plain_doctype_is_fine(tmp_path) -> None:
    """WIPO's files may name their DTD; it is not fetched."""
    doctype = '<!DOCTYPE record SYSTEM "none.dtd">'
    assert load_wipo_xml([_xml(tmp_path / "a.xml", doctype=doctype)]) == (EXPECTED,)
    path = _xml(tmp_path / "b.xml", doctype=doctype, swap=("&amp;", "&eacute;"))
    with refused("b.xml: not well-formed XML .undefined entity", error=MalformedFile):
        load_wipo_xml([path])


def test_xml_entities_are_refused(tmp_path) -> None:
    """Whether used or not: expansions, files, addresses."""
    for declared in (
        '<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;">',
        '<!ENTITY % a SYSTEM "http://127.0.0.1/x">',
    ):
        path = _xml(tmp_path / "a.xml", doctype=f"<!DOCTYPE record [{declared}]>")
        message = "a.xml: its DOCTYPE declares the entity 'a'"
        refused(message, load_wipo_xml, [path], error=MalformedFile)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("</record>", "", "not well-formed"),
        ("utf-8", "klingon", "not well-formed"),
        ("record", "patent", "holds no <record>"),
        (' pn="WO2001"', "", "record '' has no attribute pn"),
        ('mc="D01D00100"', "", "symbol: got ''"),
        ('mc="D01D00100"', 'mc="banana"', "symbol: got 'banana'"),
    ],
)
def test_xml_malformed(old, new, message, tmp_path) -> None:
    """The file is named."""
    path = _xml(tmp_path / "a.xml", swap=(old, new))
    refused(f"a.xml: .*{message}", load_wipo_xml, [path], error=MalformedFile)


def test_real_arrays(require_corpus) -> None:
    """The paper's 1710 documents: 57 leaves under 20 subclasses under 7 classes of section D."""
    require_corpus("wipo_alpha_d", "wipo_alpha_D_lsa100.npz")
    loaded = load_wipo_arrays()
    assert loaded.x_train.shape == (1352, 100)
    assert loaded.x_test.shape == (358, 100)
    paths = {ipc_ancestors(symbol) for symbol in loaded.y_train + loaded.y_test}
    assert [len({path[depth] for path in paths}) for depth in range(4)] == [1, 7, 20, 57]
    assert set(loaded.y_test) <= set(loaded.y_train)


def test_paths_of_symbols() -> None:
    """Padded or not, with or without a subgroup; inner nodes have shorter paths."""
    for symbol, *path in (
        ("D01D00", "D", "D01", "D01D", "D01D00"),  # a cut group stays as it is
        ("D01D001", "D", "D01", "D01D", "D01D001"), ("D01D 1/00", "D", "D01", "D01D", "D01D001"),
        ("D01D0010432", "D", "D01", "D01D", "D01D001"), ("D06F", "D", "D06", "D06F"), ("D", "D"),
        ("D06F 039/02", "D", "D06", "D06F", "D06F039"),
    ):  # fmt: skip
        assert ipc_ancestors(symbol) == tuple(path)


def test_refused_symbols() -> None:
    """Four digits could be cut in two ways, so they are refused like any other odd form."""
    wrong = (
        "",
        "d01d001",
        "I01D001",
        "D01D0",
        "D01D0001",
        "D01D001/",
        "D01D/00",
        "D01D001 D02D002",
    )
    for symbol in wrong:
        refused("symbol: got .* expected an IPC symbol such as", ipc_ancestors, symbol)
