"""Treebanks as bracketed text, file by file: GUM, the sample of the Penn Treebank, LDC's own.

Only text comes out of here; `jaxstruct.data.bracketing` reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from experiments.corpora.archives import read_members
from experiments.corpora.locate import find_file
from jaxstruct.data.errors import MalformedFile, decoded

_WSJ_FILE = re.compile(r"wsj_(\d\d)\d\d\.mrg", re.IGNORECASE)
_HEADING = re.compile(r"##\s+(\S+)\s*")
_ITEM = re.compile(r"\s*\*\s+(\S+)\s*")


class TreebankFile(NamedTuple):
    """One file of a treebank.

    Fields:
      name: of the document or file, without its ending: "GUM_bio_byron", "wsj_0001".
      part: what it belongs to: "train", "dev", "test" or "test2" in GUM, the two digits of the
        section in the Wall Street Journal.
      text: bracketed trees.
    """

    name: str
    part: str
    text: str


def load_gum(path: Path | None = None) -> tuple[TreebankFile, ...]:
    """Reads GUM's constituency trees, each document with its part as splits.md says.

    177 documents to train, 30 for dev, 30 to test, and 26 of other genres (GENTLE) as test2.
    Documents that splits.md names but the archive lacks (those of Reddit) are left out.

    Args:
      path: an archive with splits.md and const/*.ptb (not checked by checksum), or None for the
        registered corpus.

    Returns:
      The documents by name.

    Raises:
      CorpusMissing, ChecksumMismatch: see `locate.find_file`.
      MissingMember, UnsafeArchive, CorruptArchive: see `archives.read_members`.
      MalformedFile: there is no document; splits.md does not name one, or names one twice; or a
        file is not UTF-8.
    """
    path = Path(path) if path else find_file("gum", "gum-const.tar.xz")
    contents = read_members(path, ["splits.md"])
    parts = _gum_parts(decoded(contents["splits.md"], f"{path}:splits.md"), f"{path}:splits.md")
    documents = read_members(path, _is_gum_tree)
    files = [_gum_file(member, documents[member], parts, path) for member in documents]
    if not files:
        raise MalformedFile(f"{path}: holds no const/*.ptb")
    return tuple(sorted(files))


def _is_gum_tree(member: str) -> bool:
    return PurePosixPath(member).match("const/*.ptb")


def _gum_parts(text: str, name: str) -> dict[str, str]:
    """Document -> part: lines "## train" and, below them, "  * GUM_bio_byron"."""
    parts: dict[str, str] = {}
    part = ""
    for number, line in enumerate(text.splitlines(), 1):
        if heading := _HEADING.fullmatch(line):
            part = heading[1]
        elif item := _ITEM.fullmatch(line):
            if not part or item[1] in parts:
                fault = "comes twice" if part else "is under no heading such as '## train'"
                raise MalformedFile(f"{name}:{number}: {item[1]!r} {fault}")
            parts[item[1]] = part
    return parts


def _gum_file(member: str, content: bytes, parts: dict[str, str], path: Path) -> TreebankFile:
    document = PurePosixPath(member).stem
    if document not in parts:
        raise MalformedFile(f"{path}:{member}: splits.md does not say where it belongs")
    return TreebankFile(document, parts[document], decoded(content, f"{path}:{member}"))


def load_treebank_sample(path: Path | None = None) -> tuple[TreebankFile, ...]:
    """Reads the 5 % sample of the Penn Treebank: 199 files of the sections 00 and 01, by name.

    Args:
      path: an archive with treebank/combined/wsj_*.mrg (not checked by checksum), or None for the
        registered corpus.

    Raises:
      CorpusMissing, ChecksumMismatch: see `locate.find_file`.
      UnsafeArchive, CorruptArchive: see `archives.read_members`.
      MalformedFile: no such file in it, or one that is not UTF-8.
    """
    path = Path(path) if path else find_file("treebank", "treebank.zip")
    contents = read_members(path, lambda member: bool(_section(PurePosixPath(member).name)))
    files = [
        TreebankFile(
            PurePosixPath(member).stem,
            _section(PurePosixPath(member).name),
            decoded(content, f"{path}:{member}"),
        )
        for member, content in contents.items()
    ]
    if not files:
        raise MalformedFile(f"{path}: holds no wsj_NNNN.mrg")
    return tuple(sorted(files))


def load_ldc(folder: Path, sections: Iterable[str] | None = None) -> tuple[TreebankFile, ...]:
    """Reads the Wall Street Journal as LDC ships it: wsj_SSNN.mrg at any depth below a folder.

    Args:
      folder: "parsed/mrg/wsj" of the Treebank-3 disc, or any folder above or below it that holds
        each file once.
      sections: two digits each, such as "02"; None for all that are there.

    Returns:
      The files by name; the part of each is its section.

    Raises:
      FileNotFoundError: no such folder.
      ValueError: the folder lacks a section.
      MalformedFile: no such file, the same name twice, or not UTF-8.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"folder: {folder} is no folder; name the one that holds wsj_*.mrg")
    wanted = None if sections is None else set(sections)
    found = {path: _section(path.name) for path in folder.rglob("*") if _section(path.name)}
    if not found:
        raise MalformedFile(f"{folder}: holds no wsj_NNNN.mrg at any depth")
    if missing := sorted((wanted or set()) - set(found.values())):
        raise ValueError(f"sections: {folder} lacks {', '.join(missing)}")
    files = [
        TreebankFile(path.stem.lower(), section, decoded(path.read_bytes(), str(path)))
        for path, section in found.items()
        if wanted is None or section in wanted
    ]
    _check_once(files, folder)
    return tuple(sorted(files))


def _check_once(files: list[TreebankFile], folder: Path) -> None:
    names = sorted(file.name for file in files)
    for first, second in zip(names, names[1:], strict=False):
        if first == second:
            raise MalformedFile(f"{folder}: holds {first}.mrg twice; name a folder further in")


def _section(file_name: str) -> str:
    """The section of wsj_0123.mrg is 01; of another name "" ."""
    found = _WSJ_FILE.fullmatch(file_name)
    return found[1] if found else ""
