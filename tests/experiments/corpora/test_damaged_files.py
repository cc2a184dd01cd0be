"""Every reader ends a damaged file in one clear line of their own errors, never otherwise.

A plain run tries a few damages a reader, always the same ones, a thorough one hundreds.
"""

from __future__ import annotations

import gzip
import io
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

from experiments.corpora import clinc150, conll2002, ocr_letters, treebanks, wipo
from experiments.corpora import errors as corpora_errors
from jaxstruct.data import conll, errors, fasta, svmlight
from jaxstruct.data.errors import sklearn_datasets
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


CONLL = b"El DA O\nAbogado NC B-PER\n\nMadrid NP B-LOC\n. Fp O\n" * 3
TREES = b"(ROOT (S (NP (DT The) (NN cat)) (VP (VBD sat))) (. .))\n( (X (Y y)))\n"
SVMLIGHT = b"# made\n+1 qid:3 1:0.5 4:-2 # one\n-1 qid:3\n3 qid:4 2:1e-1 7:4\n-1 qid:4 3:1 5:2.5\n"
FASTA = b">one first\nACDE\nFG\n>two\nKLMN\n"
QUERIES = b'{"train": [["a b", "x"], ["c", "y"]], "val": [["d", "x"]], "test": [["e", "y"]]}'
LETTERS = b"".join(
    b"\t".join([b"%d" % (i + 1), letter, b"%d" % link, b"1", b"1", b"0", *[b"0", b"1"] * 64])
    + b"\n"
    for i, (letter, link) in enumerate([(b"a", 2), (b"b", -1), (b"c", -1)])
)
WIPO = {
    "X_train": np.ones((2, 3), np.float32), "y_train": np.array(["D01D00", "D02G01"]),
    "X_test": np.ones((1, 3), np.float32), "y_test": np.array(["D01D00"]),
}  # fmt: skip
GUM = {"splits.md": b"## train\n  * GUM_a\n## dev\n  * GUM_b\n", "const/GUM_a.ptb": TREES,
       "const/GUM_b.ptb": TREES}  # fmt: skip
NAMES = {f"conll2002/esp.{part}": CONLL for part in ("train", "testa", "testb")}


def _conll(path: Path) -> object:
    return conll2002.load_conll2002("esp", path)


def _clinc(path: Path) -> object:
    path.rename(path.with_name("data_full.json"))
    path.with_name("domains.json").write_bytes(b'{"one": ["x"], "two": ["y"]}')
    return clinc150.load_clinc150(path.parent)


def _npz() -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **WIPO)
    return stream.getvalue()


def _npy(key: str) -> Reader:
    """One array as .npy, which is put, damaged, among the others of an .npz."""
    with zipfile.ZipFile(io.BytesIO(_npz())) as whole:
        members = {name: whole.read(name) for name in whole.namelist()}
    name = f"{key}.npy"
    return Reader(members[name], wipo.load_wipo_arrays, lambda npy: zipped({**members, name: npy}))


READERS: dict[str, Reader] = {
    "zip": Reader(zipped(NAMES), _conll),
    "zip_bzip2": Reader(zipped(NAMES, zipfile.ZIP_BZIP2), _conll),
    "tar_xz": Reader(tarred(GUM, "xz"), treebanks.load_gum),
    "tar": Reader(tarred(GUM), treebanks.load_gum),
    "gum_splits": Reader(
        GUM["splits.md"], treebanks.load_gum, lambda text: tarred({**GUM, "splits.md": text})
    ),
    "npz": Reader(_npz(), wipo.load_wipo_arrays),
    **{f"npy_{key}": _npy(key) for key in ("X_train", "y_train")},
    "letter_data": Reader(LETTERS, ocr_letters.read_letter_data),
    "letter_data_gz": Reader(gzip.compress(LETTERS), ocr_letters.read_letter_data),
    "svmlight": Reader(SVMLIGHT, svmlight.load_svmlight),
    "conll": Reader(CONLL, conll.read_conll),
    "fasta": Reader(FASTA, fasta.read_fasta),
    "fasta_gz": Reader(gzip.compress(FASTA), fasta.read_fasta),
    "json": Reader(QUERIES, _clinc),
}

PIECES = [b"\0", b"\n", b"\r", b"\t", b" ", b"\xff", b"\xc3", b"(", b")", b"[" * 100_000,
          b"(" * 5000, b"{", b":", b"#", b'"', b",", b"<", b"\xe2\x80\xa8", b"\xef\xbb\xbf",
          b"1:1 ", b"a" * 100_000, b"\\ud800", b"4294967301", b"2147483648", b"-1", b"1e999",
          b"nan", b"9" * 5000, b"1_0", "\u0663".encode()]  # fmt: skip


def damaged(content: bytes, rng: random.Random) -> bytes:
    """One to three damages, one after the other."""
    for _ in range(rng.choice([1, 1, 2, 3])):
        start, end = sorted(rng.randrange(len(content) + 1) for _ in range(2))
        content = rng.choice([
            content[:start] + bytes([rng.randrange(256)]) + content[start + 1 :],
            content[:start],
            content[:start] + content[start + rng.choice([1, 4, 40]) :],
            content[:start] + rng.choice([b"\xff", b"\0", b"\x7f"]) * 4 + content[start + 4 :],
            content[:start] + rng.choice(PIECES) + content[start:],
            re.sub(rb"[0-9][0-9.]*", rng.choice(PIECES).replace(b"\\", b""), content, count=1),
            content[:end] + content[start:end] + content[end:],
            b"".join(content.splitlines(keepends=True)[::-1]),
            content.decode("latin-1").encode(rng.choice(["utf-16", "utf-8-sig", "utf-7"])),
        ])  # fmt: skip
    return content


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


@pytest.mark.parametrize("times", thorough_after(1, [60, 600]))
@pytest.mark.parametrize("name", READERS)
def test_damaged(name, times, tmp_path) -> None:
    """The sound file is read; otherwise the damages would prove nothing."""
    reader, rng = READERS[name], random.Random(f"{name}0")
    (tmp_path / "toy").write_bytes(reader.packed(reader.content))
    reader.read(tmp_path / "toy")
    for _ in range(times):
        content = damaged(reader.content, rng)
        assert not (found := fault(reader, content, tmp_path)), (found, content[:2000])
