"""OCR words: letter.data written here, the packed file, bad ones of both, and the real corpus."""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from experiments.corpora.ocr_letters import LETTERS, OcrWords, load_ocr_letters, read_letter_data
from jaxstruct.data.errors import MalformedFile
from tests.experiments.corpora.packed import letter_data, letter_lines
from tests.lib.refusals import refused


def _words(seed: int = 0, lengths: tuple[int, ...] = (3, 1, 5)) -> OcrWords:
    rng = np.random.default_rng(seed)
    total = sum(lengths)
    return OcrWords(
        rng.integers(0, 2, (total, 128)).astype(np.uint8),
        rng.integers(0, 26, total).astype(np.int32),
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        rng.integers(0, 10, len(lengths)).astype(np.int32),
    )


def _equal(a: OcrWords, b: OcrWords) -> bool:
    return all(x.dtype == y.dtype and np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def test_letter_data(tmp_path: Path) -> None:
    """Pixels, letters, words and folds come back as they were written."""
    path = tmp_path / "letter.data"
    for pack, end in itertools.product((bytes, gzip.compress), ("\t\n", "\n", "\t\r\n")):
        path.write_bytes(pack(letter_data(letter_lines(_words()), end)))
        assert _equal(read_letter_data(path), _words())


def _changed(line: int, field: int, value: str) -> Callable:
    def change(lines: list[list[str]]) -> None:
        lines[line][field] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_changed(1, 1, "A"), "letter.data:2: letter is 'A', expected one of a .. z"),
        (_changed(4, 0, "x"), "letter.data:5: id, next_id and fold must be integers"),
        (_changed(3, 5, "-1"), "letter.data:4: id, next_id, fold are 10, -1, -1, expected"),
        (_changed(2, 133, "2"), "letter.data:3: a pixel is '2', expected 0 or 1"),
        (_changed(0, 2, "9"), "letter.data:2: id is 8, but the line before links to 9"),
        (_changed(1, 5, "12"), r"letter.data:2: fold is 12, but its word began in fold \d"),
        (_changed(8, 2, "16"), "letter.data: ends within a word, id 16 is missing"),
        (lambda lines: lines[5].append("0"), "letter.data:6: has 135 fields, expected 134"),
        (lambda lines: lines.clear(), "letter.data: holds no letter"),
    ],
)
def test_malformed_letter_data(change: Callable, message: str, tmp_path: Path) -> None:
    lines = letter_lines(_words())
    change(lines)
    path = tmp_path / "letter.data"
    path.write_bytes(letter_data(lines, "\n"))
    refused(message, read_letter_data, path, error=MalformedFile)


def _packed(words: OcrWords) -> dict[str, np.ndarray]:
    pixels, letters, offsets, folds = words
    return {
        "pixels_packed": np.packbits(pixels, axis=1), "letters": letters.astype(np.uint8),
        "offsets": offsets.astype(np.int32), "fold": folds.astype(np.uint8),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("fold", None, "expected an npz with pixels_packed, letters, offsets, fold"),
        ("pixels_packed", np.zeros((9, 15), np.uint8), r"pixels_packed is uint8 \(9, 15\)"),
        ("pixels_packed", np.zeros((0, 16), np.uint8), "with at least one letter"),
        ("letters", np.zeros(9), r"letters, offsets and fold are float64 \(9,\)"),
        ("letters", np.full(9, 26), "expected letters 0 .. 25"),
        ("fold", np.array([0, -1, 0]), "folds from 0"),
        ("offsets", np.array([0, 3, 9]), r"int64 \(3,\)"),
        ("offsets", np.array([0, 3, 4, 8]), "offsets must rise from 0 to 9"),
        ("letters", np.array([object()] * 9), "expected an npz with"),
    ],
)
def test_malformed_packed(name: str, value, message: str, tmp_path: Path) -> None:
    path = tmp_path / "own.npz"
    np.savez(path, **_packed(_words()))
    assert _equal(load_ocr_letters(path), _words())
    arrays = _packed(_words()) | {name: value}
    np.savez(path, **{k: v for k, v in arrays.items() if v is not None})
    refused(message, load_ocr_letters, path, error=MalformedFile)


def test_real_corpus(require_corpus) -> None:
    """The counts of the source; `test_fetching` writes and reads its letter.data."""
    require_corpus("ocr_letters", "ocr_letters.npz")
    words = load_ocr_letters()
    assert words.pixels.shape == (52152, 128) and set(np.unique(words.pixels)) == {0, 1}
    assert np.bincount(words.folds).tolist() == [626, 704, 684, 698, 693, 651, 739, 717, 690, 675]
    lengths = np.diff(words.offsets)
    assert len(lengths) == 6877 and lengths.min() == 3 and lengths.max() == 14
    spelled = "".join(LETTERS[i] for i in words.letters[: lengths[0]])
    assert spelled == "ommanding"
