"""SVM-light files, LETOR's among them: `label [qid:number] index:value index:value ... # comment`,
one example a line.

Feature vectors are compressed rows: Phi(x_i) = sum_j values[j] e_{indices[j]}, j = indptr[i] ..
indptr[i+1] - 1.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import sys
import zlib
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from jaxstruct.data.errors import MalformedFile, sklearn_datasets

_MOST_FEATURES = np.iinfo(np.int32).max


class CsrRows(NamedTuple):
    """n feature vectors by their non-zero entries, row after row.

    Fields:
      indptr: [n + 1] int64, not decreasing, from 0 to the number of entries.
      indices: [entries] int32, rising strictly within a row, in [0, number_of_features).
      values: [entries] float32, finite.
      number_of_features: the dimension d of Phi.
    """

    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    number_of_features: int


def from_scipy(matrix: Any) -> CsrRows:
    """Copies a SciPy sparse matrix or array [n, d]: repeats summed, zeros dropped, rows sorted.

    Raises:
      ValueError: `matrix` is not SciPy's, or see `csr_rows`.
    """
    if not hasattr(matrix, "tocsr"):
        raise ValueError(f"matrix: got {type(matrix).__name__}, expected a scipy.sparse matrix")
    csr = matrix.tocsr(copy=True)
    csr.sum_duplicates()  # sorts each row, too
    csr.eliminate_zeros()
    return csr_rows(csr.indptr, csr.indices, csr.data, int(csr.shape[1]))


def csr_rows(
    indptr: np.ndarray, indices: np.ndarray, values: np.ndarray, number_of_features: int
) -> CsrRows:
    """Rows in the dtypes of `CsrRows`; their indices rise within each row already.

    Raises:
      ValueError: a value is not finite in float32, or there are more than 2^31 - 1 columns, which
        int32 indices, or the index of padding, could not name.
    """
    if number_of_features > _MOST_FEATURES:
        raise ValueError(
            f"number_of_features: got {number_of_features}, expected at most {_MOST_FEATURES}; "
            "hash the features into fewer columns"
        )
    with np.errstate(over="ignore"):
        rounded = np.asarray(values, np.float64).astype(np.float32)
    wrong = np.flatnonzero(~np.isfinite(rounded))
    if wrong.size:
        row = np.searchsorted(indptr, wrong[0], side="right") - 1
        raise ValueError(f"values: row {row}, feature {indices[wrong[0]]} is not finite in float32")
    whole = np.asarray(indptr, np.int64), np.asarray(indices, np.int32)
    return CsrRows(*whole, rounded, number_of_features)


MOST_FEATURES = 1 << 27
"""The highest dimension that is taken from a file alone: weights of half a GiB in float32."""

_MOST_WHOLE = 2.0**53
"""Below it float64 holds every integer."""
_HIGHEST = float(np.finfo(np.float32).max)


class SvmlightData(NamedTuple):
    """n examples.

    Fields:
      rows: n feature vectors.
      labels: [n] int64 where all of them are integers, as grades are; else float64.
      queries: [n] int64, the qid of each line, `groups=` of `DocumentRanker`; None of a file
        without qid.
    """

    rows: CsrRows
    labels: np.ndarray
    queries: np.ndarray | None = None


def load_svmlight(
    path: Path, *, number_of_features: int | None = None, zero_based: bool = False
) -> SvmlightData:
    """Reads an SVM-light file.

    A line that names an index twice is an error: repeated indices are not summed. So is a line
    without qid where others have one. A byte order mark at the start is passed over.

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
        with _opened(Path(path)) as lines:
            matrix, labels, queries = reader(
                lines, n_features=number_of_features, dtype=np.float64, zero_based=zero_based,
                query_id=True,
            )  # fmt: skip
        if matrix.shape[1] > most:
            raise ValueError(f"the highest index gives {matrix.shape[1]} features")
        rows = from_scipy(matrix)
        if not np.isfinite(labels).all():
            raise ValueError("a label is not finite")
        if len(queries) not in (0, len(labels)):
            raise ValueError("some lines have a qid, others none")
    except FileNotFoundError:
        raise
    except (ValueError, OverflowError, OSError, EOFError, zlib.error) as error:
        fault = _fault_of_file(Path(path), most, 0 if zero_based else 1)
        raise MalformedFile(fault or f"{path}: not a sound SVM-light file ({error})") from error
    if len(labels) == 0:
        raise MalformedFile(f"{path}: holds no example, expected lines 'label index:value ...'")
    if (abs(labels) < _MOST_WHOLE).all() and (labels == np.floor(labels)).all():
        labels = labels.astype(np.int64)
    return SvmlightData(rows, labels, queries if len(queries) else None)


def _opened(path: Path) -> BinaryIO:
    """The file unpacked, behind a byte order mark."""
    opener = {".gz": gzip.open, ".bz2": bz2.open}.get(path.suffix, open)
    lines = opener(path, "rb")
    if lines.read(3) != codecs.BOM_UTF8:
        lines.seek(0)
    return lines


def _fault_of_file(path: Path, most: int, base: int) -> str:
    """Says which line breaks the format; empty where none does, or the file cannot be unpacked."""
    first: tuple[int, bool] | None = None
    try:
        with _opened(path) as lines:
            for number, line in enumerate(lines, 1):
                cells = line.split(b"#", 1)[0].split()
                if not cells:
                    continue
                has = len(cells) > 1 and cells[1].startswith(b"qid:")
                first = first or (number, has)
                if fault := _fault_of_line(cells, most, base):
                    return (
                        f"{path}:{number}: {fault}; expected 'label index:value ...' or 'label "
                        f"qid:integer index:value ...' with indices that rise from {base}"
                    )
                if has != first[1]:
                    own, other = ("a", "none") if has else ("no", "one")
                    return f"{path}:{number}: has {own} qid, but line {first[0]} has {other}"
    except (OSError, EOFError, zlib.error):
        pass
    return ""


def _fault_of_line(cells: list[bytes], most: int, base: int) -> str:
    """What is wrong with one line; empty where nothing is."""
    label, *cells = cells
    if not _is_number(label, sys.float_info.max):
        return f"the label {_text(label)!r} is not a finite number"
    previous = base - 1
    if cells and cells[0].startswith(b"qid:"):
        try:
            np.int64(int(cells.pop(0)[4:]))
        except (ValueError, OverflowError):
            return "the qid is no integer"
    for cell in cells:
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
