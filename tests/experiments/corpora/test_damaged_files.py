"""Every reader ends a damaged file in one clear line of their own errors, never otherwise.

A plain run tries a few damages a reader, always the same ones, a thorough one hundreds.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import random
import re
import time
import traceback
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from experiments.corpora import (
    archives,
    clinc150,
    conll2002,
    ocr_letters,
    treebanks,
    wipo,
)
from experiments.corpora import errors as corpora_errors
from jaxstruct.data import conll, errors, fasta, svmlight
from jaxstruct.data.errors import sklearn_datasets
from jaxstruct.trees.phrases.bracketing import read_trees
from tests.experiments.corpora.packed import tarred, zipped
from tests.lib.thorough import thorough_after

OWN = tuple(
    kind
    for module in (errors, corpora_errors)
    for kind in vars(module).values()
    if isinstance(kind, type) and kind.__module__ == module.__name__
)
SECONDS = 3.0
assert sklearn_datasets("the reader of svmlight")  # imported before anything is timed
LINE = 800


class Reader(NamedTuple):
    """A sound file, what reads it, and how damaged content is packed before it is read."""

    content: bytes
    read: Callable[[Path], object]
    packed: Callable[[bytes], bytes] = bytes


def _npz(compressed: bool = True, **arrays: np.ndarray) -> bytes:
    stream = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(stream, **arrays)
    return stream.getvalue()


CONLL = b"El DA O\nAbogado NC B-PER\n\nMadrid NP B-LOC\n. Fp O\n" * 3
TREES = b"(ROOT (S (NP (DT The) (NN cat)) (VP (VBD sat))) (. .))\n( (X (Y y)))\n"
SVMLIGHT = (
    b"# made\n+1 qid:3 1:0.5 4:-2 # first\n-1 qid:3\n3 qid:4 2:1e-1 7:4\n-1 qid:4 3:1 4:1 5:2.5\n"
)
FASTA = b">one first\nACDE\nFG\n>two\nKLMN\n"
XML = (
    b'<?xml version="1.0" encoding="iso-8859-1"?>\n<record pn="WO2001"><ipcs mc="D01D00100">'
    b'<ipc ic="D02G00300"/></ipcs><ti>A title</ti><cl>What is claimed &amp; more</cl></record>\n'
)
QUERIES = json.dumps(
    {"train": [["a b", "x"], ["c", "y"]], "val": [["d", "x"]], "test": [["e", "y"]]}
).encode()
LETTERS = b"".join(
    b"\t".join([b"%d" % (i + 1), letter, b"%d" % link, b"1", b"1", b"0", *[b"0", b"1"] * 64])
    + b"\n"
    for i, (letter, link) in enumerate([(b"a", 2), (b"b", -1), (b"c", -1)])
)
OCR = {
    "pixels_packed": np.arange(48, dtype=np.uint8).reshape(3, 16),
    "letters": np.array([0, 1, 2], np.uint8),
    "offsets": np.array([0, 2, 3]),
    "fold": np.array([0, 9]),
}
WIPO = {
    "X_train": np.ones((2, 3), np.float32),
    "y_train": np.array(["D01D00", "D02G01"]),
    "X_test": np.ones((1, 3), np.float32),
    "y_test": np.array(["D01D00"]),
}
GUM = {"splits.md": b"## train\n  * GUM_a\n## dev\n  * GUM_b\n", "const/GUM_a.ptb": TREES,
       "const/GUM_b.ptb": TREES}  # fmt: skip
NAMES = {f"conll2002/esp.{part}": CONLL for part in ("train", "testa", "testb")}
DOMAINS = b'{"one": ["x"], "two": ["y"]}'


def _conll(path: Path) -> object:
    return conll2002.load_conll2002("esp", path)


def _svmlight(name: str) -> Callable[[Path], object]:
    """Its reader knows compressed files by their names."""
    return lambda path: svmlight.load_svmlight(path.rename(path.with_name(name)))


def _clinc(path: Path) -> object:
    path.rename(path.with_name("data_full.json"))
    path.with_name("domains.json").write_bytes(DOMAINS)
    return clinc150.load_clinc150(path.parent)


def _domains(path: Path) -> object:
    path.rename(path.with_name("domains.json"))
    path.with_name("data_full.json").write_bytes(QUERIES)
    return clinc150.load_clinc150(path.parent)


def _trees(path: Path) -> object:
    path.rename(path.with_name("wsj_0001.mrg"))
    return [_bracketed(file) for file in treebanks.load_ldc(path.parent)]


def _gum(path: Path) -> object:
    return [_bracketed(file) for file in treebanks.load_gum(path)]


def _bracketed(file: treebanks.TreebankFile) -> object:
    """Trees raise a plain ValueError, which names the text."""
    try:
        return read_trees(file.text, file.name)
    except ValueError as error:
        assert str(error).startswith(f"{file.name}:")
        raise errors.MalformedFile(str(error)) from error


def _members(path: Path) -> object:
    return archives.read_members(path, lambda _: True)


def _npy_in(archive: dict[str, np.ndarray], key: str) -> tuple[bytes, Callable[[bytes], bytes]]:
    """One array as .npy, and the function that puts it, damaged, among the others of an .npz."""
    with zipfile.ZipFile(io.BytesIO(_npz(**archive))) as whole:
        members = {name: whole.read(name) for name in whole.namelist()}
    return members[f"{key}.npy"], lambda npy: zipped({**members, f"{key}.npy": npy})


def _npy_reader(archive: dict[str, np.ndarray], key: str, read: Callable[[Path], object]) -> Reader:
    content, packed = _npy_in(archive, key)
    return Reader(content, read, packed)


READERS: dict[str, Reader] = {
    "zip": Reader(zipped(NAMES), _conll),
    "zip_stored": Reader(zipped(NAMES, zipfile.ZIP_STORED), _conll),
    "zip_bzip2": Reader(zipped(NAMES, zipfile.ZIP_BZIP2), _conll),
    "zip_lzma": Reader(zipped(NAMES, zipfile.ZIP_LZMA), _conll),
    "zip_treebank": Reader(zipped({"wsj_0001.mrg": TREES}), treebanks.load_treebank_sample),
    "zip_any": Reader(zipped(NAMES), _members),
    "tar": Reader(tarred(GUM), _gum),
    "tar_xz": Reader(lzma.compress(tarred(GUM)), _gum),
    "tar_gz": Reader(gzip.compress(tarred(GUM)), _members),
    "tar_in_xz": Reader(tarred(GUM), _gum, lzma.compress),
    "gum_splits": Reader(GUM["splits.md"], _gum, lambda text: tarred({**GUM, "splits.md": text})),
    "gum_trees": Reader(TREES, _gum, lambda text: tarred({**GUM, "const/GUM_b.ptb": text})),
    "ocr_npz": Reader(_npz(**OCR), ocr_letters.load_ocr_letters),
    "ocr_npz_stored": Reader(_npz(False, **OCR), ocr_letters.load_ocr_letters),
    **{f"ocr_{key}": _npy_reader(OCR, key, ocr_letters.load_ocr_letters) for key in OCR},
    "wipo_npz": Reader(_npz(**WIPO), wipo.load_wipo_arrays),
    "wipo_npz_stored": Reader(_npz(False, **WIPO), wipo.load_wipo_arrays),
    **{f"wipo_{key}": _npy_reader(WIPO, key, wipo.load_wipo_arrays) for key in WIPO},
    "letter_data": Reader(LETTERS, ocr_letters.read_letter_data),
    "letter_data_gz": Reader(gzip.compress(LETTERS), ocr_letters.read_letter_data),
    "svmlight": Reader(SVMLIGHT, svmlight.load_svmlight),
    "svmlight_gz": Reader(gzip.compress(SVMLIGHT), _svmlight("toy.gz")),
    "svmlight_bz2": Reader(bz2.compress(SVMLIGHT), _svmlight("toy.bz2")),
    "conll": Reader(CONLL, conll.read_conll),
    "fasta": Reader(FASTA, fasta.read_fasta),
    "fasta_gz": Reader(gzip.compress(FASTA), fasta.read_fasta),
    "trees": Reader(TREES, _trees),
    "json_queries": Reader(QUERIES, _clinc),
    "json_domains": Reader(DOMAINS, _domains),
    "xml": Reader(XML, lambda path: wipo.load_wipo_xml([path])),
}

NUMBERS = [b"4294967301", b"2147483647", b"2147483648", b"-1", b"0", b"1e999", b"nan", b"inf",
           b"9" * 30, b"9" * 5000, b"1_0", "\u0663".encode(), b"99999999", b"", b"0x1"]  # fmt: skip
PIECES = [b"\0", b"\n", b"\r", b"\t", b" ", b"\xff", b"\xc3", b"(", b")",
          b"[" * 100_000, b"(" * 5000, b"{", b"}", b":", b"@", b"%", b"#", b"'", b'"', b",", b"&",
          b"<", b">", b"\xe2\x80\xa8", b"\xef\xbb\xbf", b"1:1 ", b"a" * 100_000, b"?", b"\\",
          b"\\ud800", b"<a>" * 5000]  # fmt: skip


def damaged(content: bytes, rng: random.Random) -> bytes:
    """One to three damages, one after the other."""
    for _ in range(rng.choice([1, 1, 2, 3])):
        content = rng.choice(DAMAGES)(content, rng)
    return content


def _place(content: bytes, rng: random.Random) -> int:
    return rng.randrange(len(content) + 1)


def _flip(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice([1, 2, 8])):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _truncate(content: bytes, rng: random.Random) -> bytes:
    return content[: _place(content, rng)]


def _cut(content: bytes, rng: random.Random) -> bytes:
    start = _place(content, rng)
    return content[:start] + content[start + rng.choice([1, 4, 40]) :]


def _overwrite(content: bytes, rng: random.Random) -> bytes:
    """As a wrong size or offset would be written."""
    start, size = _place(content, rng), rng.choice([1, 2, 4, 8])
    return content[:start] + rng.choice([b"\xff", b"\0", b"\x7f"]) * size + content[start + size :]


def _insert(content: bytes, rng: random.Random) -> bytes:
    start = _place(content, rng)
    return content[:start] + rng.choice(PIECES) + content[start:]


def _number(content: bytes, rng: random.Random) -> bytes:
    found = list(re.finditer(rb"-?[0-9][0-9.]*", content))
    if not found:
        return content
    one = rng.choice(found)
    return content[: one.start()] + rng.choice(NUMBERS) + content[one.end() :]


def _repeat(content: bytes, rng: random.Random) -> bytes:
    start, end = sorted((_place(content, rng), _place(content, rng)))
    return content[:end] + content[start:end] + content[end:]


def _lines(content: bytes, rng: random.Random) -> bytes:
    lines = content.splitlines(keepends=True) or [b""]
    one = rng.randrange(len(lines))
    return b"".join(rng.choice([lines[:one] + lines[one + 1 :], [*lines, lines[one]], lines[::-1]]))


def _encoding(content: bytes, rng: random.Random) -> bytes:
    return content.decode("latin-1").encode(rng.choice(["utf-16", "utf-8-sig", "utf-32", "utf-7"]))


DAMAGES = (_flip, _flip, _truncate, _cut, _overwrite, _insert, _number, _number, _repeat, _lines,
           _encoding)  # fmt: skip


def fault(reader: Reader, content: bytes, folder: Path) -> str:
    """What is wrong with how the reader takes this content; empty where nothing is.

    A test has one folder, since to make one and remove it takes longer than to read a file.
    """
    path = folder / "toy"
    path.write_bytes(reader.packed(content))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        start, message = time.process_time(), "fine"
        try:
            reader.read(path)
        except OWN as error:
            message = str(error)
        except Exception as error:  # any other is what this looks for
            where = traceback.extract_tb(error.__traceback__)[-1]
            return f"{type(error).__name__} in {Path(where.filename).name}:{where.lineno}: {error}"
        if time.process_time() - start > SECONDS:
            return f"took {time.process_time() - start:.1f} s"
    if not message.isprintable() or len(message) - len(str(folder)) > LINE or not message:
        return f"no clear line: {len(message)} letters, {message[:300]!r}"
    return ""


@pytest.mark.parametrize("name", READERS)
def test_sound(name, tmp_path) -> None:
    """Otherwise the damages would prove nothing."""
    reader = READERS[name]
    (tmp_path / "toy").write_bytes(reader.packed(reader.content))
    reader.read(tmp_path / "toy")


@pytest.mark.parametrize("times", thorough_after(1, [60, 600]))
@pytest.mark.parametrize("name", READERS)
def test_damaged(name, times, tmp_path) -> None:
    rng = random.Random(f"{name}0")
    for _ in range(times):
        content = damaged(READERS[name].content, rng)
        assert not (found := fault(READERS[name], content, tmp_path)), (found, content[:2000])
