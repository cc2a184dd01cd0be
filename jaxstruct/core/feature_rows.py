"""Rows of features as people hold them: named, numbered, dense, sparse, or of a data frame.

A row is what is known of one thing: a text, a token, a node. `read_rows` takes those of things that
stand alone, `read_sequences` those of things in a row, such as the tokens of sentences. Rows are

  named       a list of names, each a feature of value 1; or a mapping of names: to a number (its
              value), to True (1) or False (no feature), to a text or a list of texts (the features
              "name=text", of value 1). A feature named twice in a row counts twice.
  dense       an array [R, d] of numbers, or lists of d numbers.
  sparse      any SciPy sparse matrix [R, d].
  a frame     of pandas: dense where all columns are numbers, else mappings, by its column names.

What is missing (None, nan) is no value: leave the name out, or fill it in.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import numbers
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, NamedTuple

import numpy as np

from jaxstruct.core.checks import as_list, kind_and_text_of, text_of

ROWS = (
    "a list of rows (lists of names, or mappings name -> number, bool or text), an array [R, d] of "
    "numbers, a SciPy sparse matrix or a pandas frame"
)


class NamedRows(NamedTuple):
    """Rows of named features, one row after the other.

    names: of all entries, a list of texts. values: of all entries, a list of numbers. offsets:
    [R + 1]; row r has the entries offsets[r] .. offsets[r + 1] - 1, in any order, with repeats.
    """

    names: list[str]
    values: list[float]
    offsets: np.ndarray

    @property
    def count(self) -> int:
        """The number R of rows."""
        return len(self.offsets) - 1


class DenseRows(NamedTuple):
    """values: [R, d] numbers. names: of the d columns, if they have any."""

    values: np.ndarray
    names: tuple[str, ...] | None = None

    @property
    def count(self) -> int:
        """The number R of rows."""
        return len(self.values)


class SparseRows(NamedTuple):
    """Compressed rows: row r has indices[offsets[r] : offsets[r + 1]], rising, below d."""

    indices: np.ndarray
    values: np.ndarray
    offsets: np.ndarray
    number_of_features: int

    @property
    def count(self) -> int:
        """The number R of rows."""
        return len(self.offsets) - 1


Rows = NamedRows | DenseRows | SparseRows


def read_rows(name: str, rows: Any) -> Rows:
    """Rows of any of the kinds of this module.

    Args:
      name: of the argument, for messages. rows: see the module.

    Raises:
      ValueError: they are of no such kind, or of several; a value is missing or no feature.
    """
    return _read(name, rows, lambda row: f"{name}[{row}]")


def read_sequences(name: str, sequences: Any) -> tuple[Rows, np.ndarray]:
    """The rows of n sequences, one sequence after the other.

    Args:
      name: of the argument, for messages.
      sequences: a list of n sequences, each of them rows of the kinds of this module.

    Returns:
      (rows, offsets): sequence i has the rows offsets[i] .. offsets[i + 1] - 1, offsets [n + 1].

    Raises:
      ValueError: as `read_rows`.
    """
    sequences = as_list(name, sequences, f"a list of sequences, each {ROWS}")
    for i, one in enumerate(sequences):
        if isinstance(one, (str, bytes, Mapping)) or not hasattr(one, "__len__"):
            if not hasattr(one, "tocsr"):
                raise ValueError(
                    f"{name}[{i}] must be a sequence, itself {ROWS}, got {kind_and_text_of(one)}"
                )
    lengths = [one.shape[0] if hasattr(one, "tocsr") else len(one) for one in sequences]
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)

    def place(row: int) -> str:
        i = int(np.searchsorted(offsets, row, side="right")) - 1
        return f"{name}[{i}][{row - offsets[i]}]"

    filled = [one for one, length in zip(sequences, lengths, strict=True) if length]
    whole = [i for i, one in enumerate(filled) if _is_whole(one)]
    if not whole:
        return _read(name, [row for one in filled for row in one], place), offsets
    if len(whole) < len(filled):
        raise ValueError(
            f"{name} must hold sequences of one kind, got lists beside arrays, matrices or frames"
        )
    parts = [_read(f"{name}[{i}]", one, lambda row, i=i: f"{name}[{i}][{row}]")
             for i, one in enumerate(sequences) if lengths[i]]  # fmt: skip
    return _joined(name, parts, np.flatnonzero(lengths)), offsets


def _is_whole(rows: Any) -> bool:
    """Whether rows come as one array, matrix or frame."""
    return any(hasattr(rows, name) for name in ("tocsr", "iloc", "__array__"))


def _read(name: str, rows: Any, place: Any) -> Rows:
    if hasattr(rows, "tocsr"):
        return rows_of_matrix(name, rows)
    if hasattr(rows, "iloc") and hasattr(rows, "columns"):
        return _of_frame(rows, place)
    if hasattr(rows, "__array__") and not isinstance(rows, (list, tuple)):
        array = np.asarray(rows)
        if array.ndim == 2 and array.dtype.kind in "biuf":
            return _dense(array, place)
        if array.ndim != 1 or array.dtype.kind not in "OU":
            raise ValueError(
                f"{name} must be {ROWS}, got an array {array.dtype} of shape {array.shape}"
            )
    rows = as_list(name, rows, ROWS)
    if rows and all(_is_numbers(row) for row in rows):
        return _stacked(rows, place)
    return _named_rows(rows, place)


def _is_numbers(row: Any) -> bool:
    if isinstance(row, np.ndarray):
        return row.dtype.kind in "biuf"
    return (
        isinstance(row, (list, tuple))
        and len(row) > 0
        and all(isinstance(value, numbers.Real) for value in row)
    )


def _stacked(rows: list, place: Any) -> DenseRows:
    arrays = [np.asarray(row) for row in rows]
    for r, array in enumerate(arrays):
        if array.shape != arrays[0].shape or array.ndim != 1:
            raise ValueError(
                f"{place(r)} has numbers of shape {array.shape}, {place(0)} of "
                f"{arrays[0].shape}: dense rows have one length d"
            )
    return _dense(np.stack(arrays), place)


def _dense(values: np.ndarray, place: Any, names: tuple[str, ...] | None = None) -> DenseRows:
    """Dense rows, all of them finite."""
    if values.dtype.kind == "f":
        wrong = np.argwhere(~np.isfinite(values))
        if wrong.size:
            r, j = wrong[0]
            column = j if names is None else repr(names[j])
            raise ValueError(
                f"{place(r)} has {values[r, j]} in column {column} ({len(wrong)} such): expected "
                "finite numbers; fill in what is missing, or leave the row out"
            )
    return DenseRows(values, names)


def _named_rows(rows: list, place: Any) -> NamedRows:
    """The entries of all rows: those of lists are taken whole, those of mappings one by one."""
    names: list[str] = []
    values: list[float] = []
    offsets = np.zeros(len(rows) + 1, np.int64)
    for r, row in enumerate(rows):
        if isinstance(row, Mapping):
            _add_mapping(row, names, values, place, r)
        else:
            own = _names_of(row, place, r)
            names += own
            values += [1.0] * len(own)
        offsets[r + 1] = len(names)
    return NamedRows(names, values, offsets)


def _names_of(row: Any, place: Any, r: int) -> list[str]:
    """The features of a row that is a list of names."""
    if type(row) is list and set(map(type, row)) <= {str}:  # most rows
        return row
    if isinstance(row, str):
        raise ValueError(
            f"{place(r)} is the text {text_of(row)}, but a row is a list of names, or a mapping "
            "name -> number, bool or text: put each text into a list, or name it, {'word': text}"
        )
    if isinstance(row, bytes) or not isinstance(row, (Sequence, Set, np.ndarray)):
        raise ValueError(
            f"{place(r)} must be a row: a list of names, or a mapping name -> number, bool or "
            f"text, got {kind_and_text_of(row)}"
        )
    own = sorted(row, key=str) if isinstance(row, Set) else list(row)
    for key in own:
        if not isinstance(key, str):
            raise ValueError(
                f"{place(r)} must hold names, all of them text, got {kind_and_text_of(key)}"
            )
    return [str(key) for key in own]


def _add_mapping(row: Mapping, names: list, values: list, place: Any, r: int) -> None:
    """Append the entries of one mapping; texts and floats, most of all values, first."""
    for key, value in row.items():
        if not isinstance(key, str):
            raise ValueError(f"{place(r)} names a feature {kind_and_text_of(key)}, not a text")
        if isinstance(value, str):
            names.append(f"{key}={value}")
            values.append(1.0)
        elif type(value) is float and math.isfinite(value):
            names.append(str(key))
            values.append(value)
        else:
            own = _entries(str(key), value, place, r)
            names += own[0]
            values += own[1]


def _entries(key: str, value: Any, place: Any, r: int) -> tuple[list[str], list[float]]:
    """The features that one entry of a mapping stands for, and their values."""
    if isinstance(value, (bool, np.bool_)):
        return ([key], [1.0]) if value else ([], [])
    if isinstance(value, numbers.Real):
        with contextlib.suppress(OverflowError):  # an integer beyond every float
            if math.isfinite(value):
                return [key], [float(value)]
    if isinstance(value, (list, tuple, Set)) and all(isinstance(one, str) for one in value):
        own = [f"{key}={one}" for one in (sorted(value) if isinstance(value, Set) else value)]
        return own, [1.0] * len(own)
    raise ValueError(
        f"{place(r)} gives feature {key!r} the value {kind_and_text_of(value)}; expected a "
        "finite number, True or False, a text or a list of texts (leave out what is missing, in a "
        "frame fill it in)"
    )


def column_names(place: str, columns: Iterable[Any]) -> tuple[str, ...]:
    """The names of the columns of a frame, as texts; ValueError where one comes twice."""
    names = tuple(map(str, columns))
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{place}: the frame has two columns named {twice!r}")
    return names


def _of_frame(frame: Any, place: Any) -> Rows:
    names = column_names(place(0), frame.columns)
    array = np.asarray(frame.to_numpy())
    if array.ndim == 2 and array.dtype.kind in "biuf":
        return _dense(array, place, names)
    columns = [frame[column].tolist() for column in frame.columns]
    records = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    return _named_rows(records, place)


def rows_of_matrix(name: str, matrix: Any) -> SparseRows:
    """The rows of a SciPy matrix, sorted, repeats summed, zeros dropped; it stays as it is.

    Raises:
      ValueError: the matrix is not sparse, or not of real numbers.
    """
    if not hasattr(matrix, "tocsr"):
        raise ValueError(
            f"{name} must be a SciPy sparse matrix, got {type(matrix).__name__}: dense arrays are "
            "inputs as they are"
        )
    rows = matrix.tocsr(copy=True)
    if rows.dtype.kind not in "biuf" or rows.ndim != 2 or rows.shape[1] >= 2**31:
        raise ValueError(
            f"{name} must be [n, d] real numbers with d < 2**31, got {rows.dtype} of shape "
            f"{rows.shape}"
        )
    rows.sum_duplicates()  # sorts each row, too
    rows.eliminate_zeros()
    indices, offsets = rows.indices.astype(np.int32), rows.indptr.astype(np.int64)
    return SparseRows(indices, rows.data, offsets, rows.shape[1])


def _joined(name: str, parts: list[Any], places: Sequence[int] | np.ndarray) -> Rows:
    """Rows of one kind, one part after the other; part j is the sequence `places[j]`."""
    kinds = {type(part) for part in parts}
    if kinds == {NamedRows}:
        return NamedRows(
            [*itertools.chain(*(part.names for part in parts))],
            [*itertools.chain(*(part.values for part in parts))],
            _one_after_another([part.offsets for part in parts]),
        )
    found = [_kind_and_columns(part) for part in parts]
    first, other = found[0], next((j for j, one in enumerate(found) if one != found[0]), None)
    if other is not None:
        (kind, names), (of_first, firsts) = found[other], first
        if kind == of_first:  # frames of other columns
            own, wanted = next(pair for pair in zip(names, firsts, strict=True) if len({*pair}) > 1)
            kind, of_first = f"{kind}, {own!r} among them", f"{of_first}, {wanted!r} in its place"
        raise ValueError(
            f"{name} must hold sequences of one kind with the same columns, got {kind} in "
            f"{name}[{places[other]}], {of_first} in {name}[{places[0]}]"
        )
    if kinds == {DenseRows}:
        return DenseRows(np.concatenate([part.values for part in parts]), parts[0].names)
    return SparseRows(
        np.concatenate([part.indices for part in parts]),
        np.concatenate([part.values for part in parts]),
        _one_after_another([part.offsets for part in parts]),
        parts[0].number_of_features,
    )


def _one_after_another(offsets: list[np.ndarray]) -> np.ndarray:
    """The offsets of parts that stand one behind the other."""
    lengths = np.concatenate([np.diff(own) for own in offsets])
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _kind_and_columns(rows: Rows) -> tuple[str, tuple[str, ...]]:
    """(words for what rows are, the names of their columns, none of arrays)."""
    if isinstance(rows, NamedRows):
        return "rows of named features", ()
    if isinstance(rows, SparseRows):
        return f"sparse rows of {rows.number_of_features} columns", ()
    kind = "dense rows" if rows.names is None else "a frame"
    return f"{kind} of {rows.values.shape[1]} columns", rows.names or ()
