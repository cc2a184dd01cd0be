"""SVM-light files: one example a line, `label index:value index:value ... # comment`."""

from __future__ import annotations

import bz2
import gzip
import sys
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxstruct.data.errors import MalformedFile
from jaxstruct.data.optional import sklearn_datasets
from jaxstruct.data.rows import CsrRows, from_scipy

MOST_FEATURES = 1 << 27
"""The highest dimension that is taken from a file alone: weights of half a GiB in float32."""

_HIGHEST = float(np.finfo(np.float32).max)


class SvmlightData(NamedTuple):
    """`rows`: n feature vectors; `labels`: [n] float64, as written in the file."""

    rows: CsrRows
    labels: np.ndarray


def load_svmlight(
    path: Path, *, number_of_features: int | None = None, zero_based: bool = False
) -> SvmlightData:
    """Reads an SVM-light file.

    A line that names an index twice is an error: repeated indices are not summed.

    Args:
      path: the file, plain or .gz or .bz2.
      number_of_features: the dimension d, below 2^31. None takes the highest index in the file,
        which must then be at most MOST_FEATURES: a higher one is more likely damage than a
        feature. Give the training set's d for a test set, or the two disagree.
      zero_based: whether the first feature is written 0. SVM-light writes 1; nothing is guessed.

    Raises:
      FileNotFoundError: no such file.
      MalformedFile: a line is not in the format, an index is below the base or above d, the
        indices of a line do not rise strictly, a number is not finite, or the file is damaged or
        empty. The message names the line at fault where there is one.
      ImportError: scikit-learn is not installed.
    """
    reader = sklearn_datasets("load_svmlight").load_svmlight_file
    most = MOST_FEATURES if number_of_features is None else number_of_features
    try:
        matrix, labels = reader(
            str(path), n_features=number_of_features, dtype=np.float64, zero_based=zero_based
        )
        if matrix.shape[1] > most:
            raise ValueError(f"the highest index gives {matrix.shape[1]} features")
        rows = from_scipy(matrix)
        if not np.isfinite(labels).all():
            raise ValueError("a label is not finite")
    except FileNotFoundError:
        raise
    except (ValueError, OverflowError, OSError, EOFError, zlib.error) as error:
        fault = _fault_of_file(Path(path), most, 0 if zero_based else 1)
        raise MalformedFile(fault or f"{path}: not a sound SVM-light file ({error})") from error
    if len(labels) == 0:
        raise MalformedFile(f"{path}: holds no example, expected lines 'label index:value ...'")
    return SvmlightData(rows, labels)


def _fault_of_file(path: Path, most: int, base: int) -> str:
    """Says which line breaks the format; empty where none does, or the file cannot be unpacked."""
    opener = {".gz": gzip.open, ".bz2": bz2.open}.get(path.suffix, open)
    try:
        with opener(path, "rb") as lines:
            for number, line in enumerate(lines, 1):
                if fault := _fault_of_line(line.split(b"#", 1)[0].split(), most, base):
                    return (
                        f"{path}:{number}: {fault}; expected 'label index:value ...' with indices "
                        f"that rise from {base}"
                    )
    except (OSError, EOFError, zlib.error):
        pass
    return ""


def _fault_of_line(cells: list[bytes], most: int, base: int) -> str:
    """What is wrong with one line; empty where nothing is."""
    label, *cells = cells or [b"0"]
    if not _is_number(label, sys.float_info.max):
        return f"the label {_text(label)!r} is not a finite number"
    previous = base - 1
    queries = 1 if cells and cells[0].startswith(b"qid") else 0
    for cell in cells[queries:]:
        name, colon, value = cell.partition(b":")
        try:
            index = int(name)
        except ValueError:
            return f"{_text(cell)!r} does not begin with an integer index"
        if index == previous and index >= base:
            return f"index {index} comes twice"
        if index <= previous:
            return f"index {index} {f'comes after {previous}' if index >= base else 'is too low'}"
        if index - base >= most:
            return f"index {index} is more than {most} features allow (see number_of_features)"
        if not colon or not _is_number(value, _HIGHEST):
            return f"{_text(cell)!r} has no value that is finite in float32"
        previous = index
    return ""


def _is_number(text: bytes, highest: float) -> bool:
    try:
        return abs(float(text)) <= highest
    except ValueError:
        return False


def _text(cell: bytes) -> str:
    return cell.decode("utf-8", "backslashreplace")
