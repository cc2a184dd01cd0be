"""Substitution matrices as text in the layout of the BLOSUM files.

    # comments
       A  R  N
    A  4 -1 -2
    R -1  5  0
    N -2  0  6

The rows are letters of the first sequence, the columns of the second.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxstruct.core.files import write_file
from jaxstruct.data.errors import MalformedFile
from jaxstruct.data.utf8 import read_text


class SubstitutionMatrix(NamedTuple):
    """Scores of pairs of letters.

    Fields:
      letters: A letters in the order of rows and columns.
      scores: [A, A] float64.
      comments: the lines that began with `#`, without it.
    """

    letters: str
    scores: np.ndarray
    comments: tuple[str, ...]


def read_substitution_matrix(path: Path) -> SubstitutionMatrix:
    """Reads a matrix file; see `parse_substitution_matrix`.

    Raises:
      FileNotFoundError: no such file. MalformedFile: see `parse_substitution_matrix`.
    """
    return parse_substitution_matrix(read_text(path), str(path))


def parse_substitution_matrix(text: str, name: str) -> SubstitutionMatrix:
    """Returns the matrix of a file's text.

    Lines that begin with `#` are comments, blank lines are left out, numbers may be integers or
    decimals, and the rows may come in another order than the columns.

    Args:
      text: of the file. name: of it, for messages.

    Raises:
      MalformedFile: a letter has several characters or comes twice, a row has another number of
        scores than there are columns, a row is missing, or a score is no finite number; with the
        line.
    """
    comments, columns, rows = [], "", {}
    for number, line in enumerate(text.splitlines(), 1):
        fields = line.split()
        if line.startswith("#"):
            comments.append(line[1:].strip())
        elif fields and not columns:
            columns = _columns(name, number, fields)
        elif fields:
            letter, scores = _row(name, number, fields, columns)
            if letter in rows:
                raise MalformedFile(f"{name}:{number}: a second row of {letter!r}")
            rows[letter] = scores
    if not columns:
        raise MalformedFile(f"{name}: holds no matrix, expected a line of letters such as '  A C'")
    missing = [letter for letter in columns if letter not in rows]
    if missing:
        raise MalformedFile(
            f"{name}: no row of {', '.join(map(repr, missing))}, expected one for each column"
        )
    matrix = np.array([rows[letter] for letter in columns])
    return SubstitutionMatrix(columns, matrix, tuple(comments))


def _columns(name: str, number: int, fields: list[str]) -> str:
    long = [field for field in fields if len(field) != 1]
    if long or len(set(fields)) < len(fields):
        what = f"{long[0]!r} has several characters" if long else "a letter comes twice"
        raise MalformedFile(
            f"{name}:{number}: {what}; expected the letters of the columns, each once and apart"
        )
    return "".join(fields)


def _row(name: str, number: int, fields: list[str], columns: str) -> tuple[str, list[float]]:
    letter, *scores = fields
    if letter not in columns or len(letter) != 1:
        raise MalformedFile(
            f"{name}:{number}: the row begins with {letter!r}, expected one of {columns!r}"
        )
    if len(scores) != len(columns):
        raise MalformedFile(
            f"{name}:{number}: the row of {letter!r} has {len(scores)} scores, expected "
            f"{len(columns)}, one for each column"
        )
    try:
        numbers = [float(score) for score in scores]
    except ValueError as error:
        raise MalformedFile(f"{name}:{number}: {error} in the row of {letter!r}") from error
    if not np.isfinite(numbers).all():
        raise MalformedFile(f"{name}:{number}: a score of {letter!r} is not finite")
    return letter, numbers


def format_substitution_matrix(
    letters: str,
    scores: np.ndarray,
    *,
    comments: Sequence[str] = (),
    scale: float | None = None,
    decimals: int = 4,
) -> str:
    """The text of a matrix in the layout of the BLOSUM files.

    Args:
      letters: A letters. scores: [A, A] finite numbers.
      comments: lines that come first, each after a `# `.
      scale: None writes decimals. A positive number writes the integers round(scale * score),
        halves away from 0, for programs that know integers only; a comment names the scale.
      decimals: behind the point, where scale is None.

    Raises:
      ValueError: letters are not distinct or do not fit the scores, a score is not finite, a
        comment holds a line end, scale is not positive, or decimals are negative.
    """
    scores = np.asarray(scores, np.float64)
    _check(letters, scores, comments, scale, decimals)
    lines = [f"# {comment}".rstrip() for comment in comments]
    if scale is not None:
        lines.append(f"# scores multiplied by {scale:.12g} and rounded to integers")
        whole = np.sign(scores) * np.floor(np.abs(scores) * scale + 0.5)
        cells = [[f"{score:.0f}" for score in row] for row in whole + 0.0]
    else:
        rounded = np.round(scores, decimals) + 0.0
        cells = [[f"{score:.{decimals}f}" for score in row] for row in rounded]
    width = 1 + max(2, *(len(cell) for row in cells for cell in row))
    lines.append(" " + "".join(f"{letter:>{width}}" for letter in letters))
    for letter, row in zip(letters, cells, strict=True):
        lines.append(letter + "".join(f"{cell:>{width}}" for cell in row))
    return "\n".join(lines) + "\n"


def _check(
    letters: str, scores: np.ndarray, comments: Sequence[str], scale: float | None, decimals: int
) -> None:
    A = len(letters)
    if not A or len(set(letters)) < A or "#" in letters or any(map(str.isspace, letters)):
        raise ValueError(f"letters: got {letters!r}, expected distinct letters, no blank or '#'")
    if scores.shape != (A, A) or not np.isfinite(scores).all():
        raise ValueError(
            f"scores: got shape {scores.shape}, expected [{A}, {A}] finite numbers for the {A} "
            f"letters {letters!r}"
        )
    for place, comment in enumerate(comments):
        if "\n" in comment or "\r" in comment:
            raise ValueError(f"comments[{place}]: {comment!r} holds a line end; give two comments")
    if scale is not None and not (np.isfinite(scale) and scale > 0):
        raise ValueError(f"scale: got {scale}, expected a positive number or None")
    if decimals < 0:
        raise ValueError(f"decimals: got {decimals}, expected at least 0")


def write_substitution_matrix(
    path: Path,
    letters: str,
    scores: np.ndarray,
    *,
    comments: Sequence[str] = (),
    scale: float | None = None,
    decimals: int = 4,
) -> Path:
    """Writes `format_substitution_matrix` to a file, and returns its path.

    The file is written under a temporary name and renamed: it is whole or as it was before; its
    folder is made where it does not exist.

    Raises:
      ValueError: see `format_substitution_matrix`.
    """
    text = format_substitution_matrix(
        letters, scores, comments=comments, scale=scale, decimals=decimals
    )
    return write_file(path, text)
