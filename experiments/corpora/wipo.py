"""WIPO-alpha patents: packed LSA vectors of section D, XML as WIPO ships it, symbols of classes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree
from xml.parsers import expat

import numpy as np

from experiments.corpora.archives import read_npz
from experiments.corpora.locate import find_file
from jaxstruct.data.errors import MalformedFile

_SYMBOL = re.compile(
    r"(?P<section>[A-H])(?:(?P<number>\d\d)(?:(?P<letter>[A-Z])(?P<group>.+)?)?)?", re.ASCII
)
_GROUP_WITH_SLASH = re.compile(r"(\d{1,4})/\d{2,6}", re.ASCII)
_GROUP_OF_DIGITS = re.compile(r"(\d{3})(?:\d{2,4})?|(\d\d)", re.ASCII)


def ipc_ancestors(symbol: str) -> tuple[str, ...]:
    """Returns the path from the section down to the symbol's node, the node last.

    'D01D001' gives ('D', 'D01', 'D01D', 'D01D001'): section, class, subclass, main group. The
    tree ends at main groups, the leaves of table 1 of Tsochantaridis et al. 2005, so a subgroup
    is cut off. Accepted, with blanks anywhere:

      D01D001            main group, three digits
      D01D 001/00, 1/04  with a subgroup behind a slash; the main group is padded to three
      D01D00104          with a subgroup of two to four digits behind the three of the main group
      D01D00             a main group cut to two digits, which stays as it is
      D, D01, D01D       inner nodes, whose path is shorter

    Raises:
      ValueError: anything else.
    """
    match = _SYMBOL.fullmatch("".join(symbol.split()))
    group = match and match["group"] and _main_group(match["group"])
    if match is None or (match["group"] and group is None):
        raise ValueError(f"symbol: got {symbol!r}, expected an IPC symbol such as 'D01D 001/00'")
    path = [match["section"]]
    for part in (match["number"], match["letter"], group):
        if part is not None:
            path.append(path[-1] + part)
    return tuple(path)


def _main_group(text: str) -> str | None:
    """Returns the digits of the main group, or None if the text is no group."""
    if match := _GROUP_WITH_SLASH.fullmatch(text):
        return match[1].zfill(3)
    match = _GROUP_OF_DIGITS.fullmatch(text)
    return (match[1] or match[2]) if match else None


FIELDS = ("ti", "cl")
"""Elements of a record whose text is taken: title and claims, which the papers index."""
_KEYS = ("X_train", "y_train", "X_test", "y_test")


class WipoArrays(NamedTuple):
    """Section D as dense vectors.

    Fields:
      x_train, x_test: [1352, 100] and [358, 100] float32, latent semantic dimensions.
      y_train, y_test: 6-character symbols such as 'D01D00', see `ipc_ancestors`.
    """

    x_train: np.ndarray
    y_train: tuple[str, ...]
    x_test: np.ndarray
    y_test: tuple[str, ...]


class WipoRecord(NamedTuple):
    """One patent of the XML collection.

    Fields:
      publication: its publication number (record/@pn).
      main_symbol: its main IPC symbol (ipcs/@mc), as written.
      text: of `FIELDS`, one after the other, blanks made single.
    """

    publication: str
    main_symbol: str
    text: str


def load_wipo_arrays(path: Path | None = None) -> WipoArrays:
    """Reads the packed arrays; nothing in the file is unpickled.

    Args:
      path: an .npz file of this form (not checked by checksum), or None for the registered one.

    Raises:
      CorpusMissing, ChecksumMismatch: see `locate.find_file`.
      MalformedFile: damaged, an array missing, of another type, not finite, or no IPC symbols.
    """
    path = Path(path) if path else find_file("wipo_alpha_d", "wipo_alpha_D_lsa100.npz")
    x_train, y_train, x_test, y_test = read_npz(path, _KEYS)
    _check_part(path, "train", x_train, y_train, x_train.shape[1:])
    _check_part(path, "test", x_test, y_test, x_train.shape[1:])
    return WipoArrays(x_train, tuple(y_train.tolist()), x_test, tuple(y_test.tolist()))


def _check_part(
    path: Path, part: str, x: np.ndarray, y: np.ndarray, features: tuple[int, ...]
) -> None:
    if x.ndim != 2 or x.dtype != np.float32 or x.shape[1:] != features or y.shape != x.shape[:1]:
        raise MalformedFile(
            f"{path}: {part} has X {x.dtype} {x.shape} and y {y.shape}, expected float32 [n, d] "
            "with one d for both parts, and [n]"
        )
    if y.dtype.kind != "U" or not np.isfinite(x).all():
        raise MalformedFile(f"{path}: {part} needs finite vectors and text symbols")
    for symbol in set(y.tolist()):
        _check_symbol(path, symbol)


def _check_symbol(path: Path, symbol: str) -> str:
    try:
        ipc_ancestors(symbol)
    except ValueError as error:
        raise MalformedFile(f"{path}: {error}") from error
    return symbol


def load_wipo_xml(folder_or_files: Path | Sequence[Path]) -> tuple[WipoRecord, ...]:
    """Reads WIPO-alpha XML: every `record` of every file.

    Args:
      folder_or_files: a folder, searched with all below it for .xml files in the order of their
        paths; or the files themselves, in the order wanted.

    Raises:
      FileNotFoundError: the folder holds no .xml file, or a file is not there.
      MalformedFile: a file is not well-formed, declares entities, has no record, or a record has
        no publication number, no sound main symbol, or no text in any of `FIELDS`.
    """
    records: list[WipoRecord] = []
    for path in _xml_files(folder_or_files):
        found = [_record(path, element) for element in _record_elements(path)]
        if not found:
            raise MalformedFile(f"{path}: holds no <record>")
        records.extend(found)
    return tuple(records)


def _xml_files(folder_or_files: Path | Sequence[Path]) -> Iterable[Path]:
    if not isinstance(folder_or_files, str | Path):
        return [Path(path) for path in folder_or_files]
    folder = Path(folder_or_files)
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() == ".xml")
    if not files:
        raise FileNotFoundError(f"folder_or_files: {folder} holds no .xml file")
    return files


def _record_elements(path: Path) -> Iterator[ElementTree.Element]:
    content = path.read_bytes()
    try:
        _refuse_entities(path, content)
        root = ElementTree.fromstring(content)
    except MalformedFile:
        raise
    except (ElementTree.ParseError, expat.ExpatError, LookupError, ValueError) as error:
        raise MalformedFile(f"{path}: not well-formed XML ({error})") from error
    return root.iter("record")


def _refuse_entities(path: Path, content: bytes) -> None:
    """Refuses files that declare entities, which can blow up or reach other files."""

    def refuse(name: str, *_: object) -> None:
        raise MalformedFile(f"{path}: its DOCTYPE declares the entity {name!r}; remove it")

    parser = expat.ParserCreate()
    parser.EntityDeclHandler = refuse
    parser.Parse(content, True)


def _record(path: Path, element: ElementTree.Element) -> WipoRecord:
    publication = element.get("pn", "")
    main = next((ipcs.get("mc", "") for ipcs in element.iter("ipcs")), "")
    pieces = ["".join(found.itertext()) for name in FIELDS for found in element.iter(name)]
    text = " ".join(" ".join(pieces).split())
    if not publication or not text:
        lacking = f"text in {', '.join(FIELDS)}" if publication else "attribute pn"
        raise MalformedFile(f"{path}: record {publication!r} has no {lacking}")
    return WipoRecord(publication, _check_symbol(path, main), text)
