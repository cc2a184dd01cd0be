"""OCR handwritten words (Kassel 1995; Taskar, Guestrin, Koller 2004), packed or as letter.data."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments.corpora.archives import read_npz
from experiments.corpora.locate import find_file
from jaxstruct.data.errors import MalformedFile
from jaxstruct.data.fasta import read_plain_or_gzip

PIXELS = 128
"""Pixels of a letter: 16 rows of 8, row after row."""
LETTERS = "abcdefghijklmnopqrstuvwxyz"
"""The classes in their order."""

_KEYS = ("pixels_packed", "letters", "offsets", "fold")
_FIELDS = 6  # before the pixels: id, letter, next_id, word_id, position, fold


class OcrWords(NamedTuple):
    """n words without their first letters: these are capitals, and the makers left them out.

    Fields:
      pixels: [letters, 128] uint8, 0 or 1, 16 rows of 8.
      letters: [letters] int32, 0 .. 25 for a .. z.
      offsets: [n + 1] int64; word i is letters offsets[i] .. offsets[i + 1] - 1.
      folds: [n] int32, 0 .. 9.
    """

    pixels: np.ndarray
    letters: np.ndarray
    offsets: np.ndarray
    folds: np.ndarray


def load_ocr_letters(path: Path | None = None) -> OcrWords:
    """Reads the packed corpus: 6,877 words, 52,152 letters, 3 to 14 letters a word, 10 folds.

    Nothing in the file is unpickled.

    Args:
      path: an .npz file of this form (not checked by checksum), or None for the registered one.

    Raises:
      CorpusMissing, ChecksumMismatch: see `locate.find_file`.
      FileNotFoundError: no such file.
      MalformedFile: damaged, an array missing or of another type, or arrays that do not fit.
    """
    path = Path(path) if path else find_file("ocr_letters", "ocr_letters.npz")
    packed, letters, offsets, folds = read_npz(path, _KEYS)
    _check_packed(path, packed, letters, offsets, folds)
    return OcrWords(
        np.unpackbits(packed, axis=1),
        letters.astype(np.int32),
        offsets.astype(np.int64),
        folds.astype(np.int32),
    )


def _check_packed(
    path: Path, packed: np.ndarray, letters: np.ndarray, offsets: np.ndarray, folds: np.ndarray
) -> None:
    if packed.shape[1:] != (PIXELS // 8,) or packed.dtype != np.uint8 or not packed.size:
        raise MalformedFile(
            f"{path}: pixels_packed is {packed.dtype} {packed.shape}, expected uint8 "
            "[letters, 16] with at least one letter"
        )
    shapes = letters.shape == packed.shape[:1] and offsets.shape == (folds.size + 1,)
    whole = all(array.dtype.kind in "iu" for array in (letters, offsets, folds))
    if not shapes or not whole or folds.ndim != 1:
        raise MalformedFile(
            f"{path}: letters, offsets and fold are {letters.dtype} {letters.shape}, "
            f"{offsets.dtype} {offsets.shape}, {folds.dtype} {folds.shape}, expected integers "
            f"[{len(packed)}], [words + 1], [words]"
        )
    bounds = offsets.astype(np.int64)
    if bounds[0] != 0 or bounds[-1] != len(packed) or (np.diff(bounds) < 1).any():
        raise MalformedFile(f"{path}: offsets must rise from 0 to {len(packed)}, no word empty")
    if letters.max() >= len(LETTERS) or min(letters.min(), folds.min()) < 0:
        raise MalformedFile(f"{path}: expected letters 0 .. 25 and folds from 0")


def read_letter_data(path: Path) -> OcrWords:
    """Reads letter.data as its makers distribute it, plain or .gz.

    A line is one letter. Its fields lie between tabs: id, letter, next_id, word_id, position, fold,
    then 128 pixels, 0 or 1. The lines of a word follow each other; next_id is the id of the next
    line, and -1 at the end of a word. word_id and position are not read: next_id decides.

    Raises:
      FileNotFoundError: no such file.
      UnsafeArchive: a .gz file unpacks to more than 256 MiB.
      MalformedFile: a line breaks the format or the links, or the file holds no letter; the
        message names the line.
    """
    path = Path(path)
    pixels, letters, ends, folds = [], [], [0], []
    awaited = -1  # the id that the next line must have, -1 where a word may start
    for number, line in enumerate(_lines(path), 1):
        place = f"{path}:{number}"
        fields = line.rstrip("\r\n\t ").split("\t")
        identity, letter, following, fold, row = _letter(place, fields)
        if awaited not in (-1, identity):
            raise MalformedFile(
                f"{place}: id is {identity}, but the line before links to {awaited}"
            )
        if awaited == -1:
            folds.append(fold)
        elif fold != folds[-1]:
            raise MalformedFile(f"{place}: fold is {fold}, but its word began in fold {folds[-1]}")
        pixels.append(row)
        letters.append(letter)
        awaited = following
        if following == -1:
            ends.append(len(letters))
    if not letters or awaited != -1:
        what = f"ends within a word, id {awaited} is missing" if letters else "holds no letter"
        raise MalformedFile(f"{path}: {what}")
    return OcrWords(
        np.array(pixels, dtype=np.uint8),
        np.array(letters, dtype=np.int32),
        np.array(ends, dtype=np.int64),
        np.array(folds, dtype=np.int32),
    )


def _lines(path: Path) -> list[str]:
    try:
        text = read_plain_or_gzip(path).decode("ascii")
    except UnicodeDecodeError as error:
        raise MalformedFile(f"{path}: not plain or gzip-compressed ASCII text ({error})") from error
    return [line for line in text.split("\n") if line.strip()]


def _letter(place: str, fields: list[str]) -> tuple[int, int, int, int, np.ndarray]:
    """The id, letter, next_id, fold and pixels of one line."""
    if len(fields) != _FIELDS + PIXELS:
        raise MalformedFile(
            f"{place}: has {len(fields)} fields, expected {_FIELDS + PIXELS} between tabs"
        )
    letter, pixels = fields[1], fields[_FIELDS:]
    if len(letter) != 1 or letter not in LETTERS:
        raise MalformedFile(f"{place}: letter is {letter!r}, expected one of a .. z")
    try:
        identity, following, fold = (int(fields[i]) for i in (0, 2, 5))
    except ValueError as error:
        raise MalformedFile(f"{place}: id, next_id and fold must be integers ({error})") from error
    if identity < 0 or following < -1 or fold < 0:
        raise MalformedFile(
            f"{place}: id, next_id, fold are {identity}, {following}, {fold}, expected at least "
            "0, -1, 0"
        )
    if odd := set(pixels) - {"0", "1"}:
        raise MalformedFile(f"{place}: a pixel is {min(odd)!r}, expected 0 or 1")
    row = np.frombuffer("".join(pixels).encode("ascii"), dtype=np.uint8) - ord("0")
    return identity, LETTERS.index(letter), following, fold, row
