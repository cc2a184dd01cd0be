"""Which feature is which column: learned from the rows of a training set, used for all others.

`prepare` of each output type rests on it. Its features are those of training: one that comes
later, in the rows to predict, is dropped, and a warning counts them (`UnseenFeatures`).
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from jaxstruct.core.checks import checked_number, checked_size, warn
from jaxstruct.core.feature_rows import (
    DenseRows,
    NamedRows,
    Rows,
    SparseRows,
    read_sequences,
    rows_of_matrix,
)
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.types import PyTree, SparseFeatures


class UnseenFeatures(UserWarning):
    """Inputs hold what training did not have: features, which are dropped, or tokens of trees.

    Attributes:
      count: how many entries there are of them.
    """

    def __init__(self, words: str, count: int = 1) -> None:
        """What the warning says, and the count."""
        super().__init__(words)
        self.count = count


class FeatureIndex(NamedTuple):
    """Which feature is which column. Made by `fit_index` or `index_of_names`.

    Fields:
      names: the d features, column j is names[j].
      columns: feature -> column.
    """

    names: tuple[str, ...]
    columns: Mapping[str, int]

    @property
    def number_of_features(self) -> int:
        """The dimension d."""
        return len(self.names)


def fit_index(counts: Mapping[str, int], *, min_count: int = 1) -> FeatureIndex:
    """Numbers the features that occur at least `min_count` times in the training set.

    Frequent features come first; ties go by name. The order of the examples does not matter.

    Args:
      counts: feature -> how many rows have it, of the training set alone.
      min_count: at least 1.

    Raises:
      ValueError: no feature is left.
    """
    kept = frequent(counts, min_count)
    if not kept:
        raise ValueError(
            f"counts: none of the {len(counts)} features occurs {min_count} times; lower min_count"
        )
    return index_of_names(kept)


def frequent(counts: Mapping[str, int], min_count: int) -> list[str]:
    """The names that are counted at least so often, the most frequent first, ties by name."""
    kept = sorted(name for name, count in counts.items() if count >= min_count)
    return sorted(kept, key=counts.__getitem__, reverse=True)


def index_of_names(names: Iterable[str]) -> FeatureIndex:
    """The index in which column j is the j-th of these names, each once."""
    names = tuple(names)
    return FeatureIndex(names, {name: column for column, name in enumerate(names)})


class FeatureEncoding(NamedTuple):
    """The columns of a training set. Made by `fit_features`.

    Fields:
      kind: "named", "dense" or "sparse", the rows it takes.
      index: names and columns; None where columns have numbers only.
      columns: d without the constant one. constant: value of a last feature that every row has;
        0 where there is none.
    """

    kind: str
    index: FeatureIndex | None
    columns: int
    constant: float

    @property
    def number_of_features(self) -> int:
        """The dimension d, the constant feature included."""
        return self.columns + (self.constant != 0)

    @property
    def names(self) -> tuple[str, ...]:
        """[d] texts; "0", "1", ... where features have no names, "constant" for the constant."""
        names = map(str, range(self.columns)) if self.index is None else self.index.names
        return (*names, *(("constant",) if self.constant else ()))


def fit_features(rows: Rows, *, min_count: int = 1, constant: float = 0.0) -> FeatureEncoding:
    """Numbers the features of a training set: the most frequent first, ties by name.

    Args:
      rows: of `core.feature_rows`.
      min_count: rows that must have a named feature for it to count; 1 for other rows.
      constant: value >= 0 of a feature added to every row, which learns a constant for each class
        or label; 0 for none. As all weights it is regularised, the less the larger its value.

    Raises:
      ValueError: there is no row, none has a feature, the constant one included, or a number does
        not fit.
    """
    min_count, constant = checked_size("min_count", min_count), checked_number("constant", constant)
    if isinstance(rows, NamedRows):
        if not rows.count:
            raise ValueError("the training set is empty: there is no row; pass one at least")
        if not rows.names and not constant:
            raise ValueError(
                f"no feature stands in any of the {rows.count} rows: name one at least"
            )
        index = index_of_names(())
        if rows.names:
            index = fit_index(_rows_with(rows), min_count=min_count)
        return FeatureEncoding("named", index, index.number_of_features, constant)
    if min_count > 1:
        raise ValueError(f"min_count must be 1 unless features have names, got {min_count}")
    if isinstance(rows, SparseRows):
        return FeatureEncoding("sparse", None, rows.number_of_features, constant)
    index = None if rows.names is None else index_of_names(rows.names)
    return FeatureEncoding("dense", index, rows.values.shape[1], constant)


def _rows_with(rows: NamedRows) -> dict[str, int]:
    """name -> how many rows have it, once or several times."""
    numbers: defaultdict[str, int] = defaultdict(itertools.count().__next__)  # in order of coming
    which = np.fromiter(map(numbers.__getitem__, rows.names), np.int64, len(rows.names))
    distinct = list(numbers)
    row = np.repeat(np.arange(rows.count), np.diff(rows.offsets))
    keys = np.sort(row * len(distinct) + which)
    first = np.concatenate([[True], keys[1:] != keys[:-1]])
    counts = np.bincount(keys[first] % len(distinct), minlength=len(distinct))
    return dict(zip(distinct, counts.tolist(), strict=True))


def dense_or_sparse(encoding: FeatureEncoding, name: str, rows: Rows) -> DenseRows | SparseRows:
    """The rows in the columns of the encoding, which names what came if they do not fit it.

    Args:
      encoding: of the training set. name: of the argument, for messages. rows: R rows.

    Returns:
      DenseRows of dense rows, SparseRows of others; d = encoding.number_of_features.

    Raises:
      ValueError: the rows are of another kind or have other columns than those of training.
    """
    kind = _KINDS[type(rows)]
    if not rows.count:
        return _no_rows(encoding)
    if kind != encoding.kind:
        raise ValueError(
            f"{name} has {kind} rows, but the encoding was fitted to {encoding.kind} ones: give "
            "rows of one kind"
        )
    if isinstance(rows, NamedRows):
        return with_constant(_numbered(encoding, name, rows), encoding)
    if isinstance(rows, SparseRows):
        _check_columns(encoding, name, rows.number_of_features, None)
        return with_constant(rows, encoding)
    _check_columns(encoding, name, rows.values.shape[1], rows.names)
    values = _floats(rows.values)
    if encoding.constant:
        last = np.full((len(values), 1), encoding.constant, values.dtype)
        values = np.concatenate([values, last], axis=1)
    return DenseRows(values)


def _floats(values: np.ndarray) -> np.ndarray:
    """Floats as they are, others as float32."""
    return values if values.dtype.kind == "f" else values.astype(np.float32)


def _no_rows(encoding: FeatureEncoding) -> DenseRows | SparseRows:
    """None, of the kind of training: those of sequences without tokens."""
    d = encoding.number_of_features
    if encoding.kind == "dense":
        return DenseRows(np.zeros((0, d), np.float32))
    none = np.zeros(0, np.int32), np.zeros(0, np.float32)
    return SparseRows(*none, np.zeros(1, np.int64), d)


_KINDS = {NamedRows: "named", DenseRows: "dense", SparseRows: "sparse"}


def inputs_of(
    rows: DenseRows | SparseRows, offsets: np.ndarray | None = None, least: int = 1
) -> PyTree:
    """Encoded rows as the inputs of a structure.

    Args:
      rows: R rows of `dense_or_sparse`.
      offsets: [n + 1] where rows are the tokens of n sequences; None where each row is an input.
      least: entries of a token, at least.

    Returns:
      Of dense rows an array [R, d], or a `Ragged` of n sequences; of sparse ones `SparseFeatures`
      of `Ragged` stores: of R inputs, or of n sequences of tokens [l, m], m the most features of a
      token. Padding has index d and value 0.
    """
    if isinstance(rows, DenseRows):
        return rows.values if offsets is None else Ragged(rows.values, offsets)
    d = rows.number_of_features
    stores = Ragged(rows.indices, rows.offsets, d), Ragged(rows.values, rows.offsets)
    if offsets is None:
        return SparseFeatures(*stores)
    width = max(least, int(stores[0].lengths.max(initial=1)))
    indices, values = (store.padded(np.arange(len(store)), width) for store in stores)
    return SparseFeatures(Ragged(indices, offsets, d), Ragged(values, offsets))


def from_scipy(matrix: Any, *, offsets: np.ndarray | None = None) -> SparseFeatures:
    """The rows of a SciPy sparse matrix as `SparseFeatures`.

    Repeated entries are summed, zeros dropped, the entries of a row sorted by their feature.

    Args:
      matrix: [n, d], any SciPy sparse matrix or array (anything with `tocsr`); left as it is.
      offsets: [n + 1] where rows are the tokens of n sequences: sequence i has the rows
        offsets[i] .. offsets[i + 1] - 1. None where each row is an input.

    Returns:
      int32 indices and values of the matrix's floating-point dtype (float32 for integers and bool):
      `Ragged` stores of n inputs of as many entries as each has; with offsets, of n sequences of
      tokens [l, m], m the most entries of a token. Padding has index d and value 0.

    Raises:
      ValueError: matrix is not sparse or of numbers, or offsets do not rise from 0 to the number of
        rows.
    """
    rows = rows_of_matrix("matrix", matrix)
    return inputs_of(rows._replace(values=_floats(rows.values)), offsets)


def encoded_sequences(encoding: FeatureEncoding, name: str, sequences: Any) -> PyTree:
    """The rows of n sequences as the inputs of a structure: see `read_sequences`, `dense_or_sparse`
    and `inputs_of`."""
    rows, offsets = read_sequences(name, sequences)
    return inputs_of(dense_or_sparse(encoding, name, rows), offsets)


def _check_columns(
    encoding: FeatureEncoding, name: str, columns: int, names: tuple[str, ...] | None
) -> None:
    if columns != encoding.columns:
        raise ValueError(
            f"{name} has {columns} columns, the encoding was fitted to {encoding.columns}"
        )
    known = None if encoding.index is None else encoding.index.names
    if names is not None and known is not None and names != known:
        j = next(j for j, pair in enumerate(zip(names, known, strict=True)) if len(set(pair)) > 1)
        raise ValueError(
            f"{name} has column {j} named {names[j]!r}, where the encoding was fitted to "
            f"{known[j]!r}: put the columns in the order of training"
        )


def _numbered(encoding: FeatureEncoding, name: str, rows: NamedRows) -> SparseRows:
    """Named rows by column, each sorted, features named twice summed, unseen ones dropped."""
    assert encoding.index is not None, "named rows have an index"
    find = encoding.index.columns.get
    found = map(find, rows.names, itertools.repeat(-1))
    which = np.fromiter(found, np.int64, len(rows.names))
    values = np.array(rows.values, np.float32)
    if (which < 0).any():
        unseen = Counter(rows.names[i] for i in np.flatnonzero(which < 0))
        warn(_notice(name, unseen), UnseenFeatures, unseen.total())
    return summed_rows(which, values, rows.offsets, encoding.columns)


def summed_rows(
    which: np.ndarray, values: np.ndarray, offsets: np.ndarray, columns: int
) -> SparseRows:
    """Rows by column, each sorted, columns named twice summed, zeros left out.

    Args:
      which: of all entries the column, -1 for none. values: float32. offsets: [R + 1].
      columns: d.
    """
    count, d = len(offsets) - 1, max(columns, 1)
    row = np.repeat(np.arange(count), np.diff(offsets))
    known = (which >= 0) & (values != 0)
    keys, values = (row * d + which)[known], values[known]
    if (np.diff(keys) <= 0).any():
        order = np.argsort(keys, kind="stable")
        keys, values = keys[order], values[order]
        first = np.flatnonzero(np.concatenate([[True], np.diff(keys) > 0]))
        keys, values = keys[first], np.add.reduceat(values, first)
    counts = np.bincount(keys // d, minlength=count)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return SparseRows((keys % d).astype(np.int32), values, offsets, columns)


def _notice(name: str, unseen: Counter[str]) -> str:
    [(most, _)] = unseen.most_common(1)
    if len(unseen) == 1:
        times = "once" if unseen.total() == 1 else f"{unseen.total()} times"
        return f"{name} names feature {most!r}, which training did not have, {times}; it is dropped"
    return (
        f"{name} names {len(unseen)} features that training did not have, {unseen.total()} times "
        f"in all (most often {most!r}); they are dropped"
    )


def with_constant(rows: SparseRows, encoding: FeatureEncoding) -> SparseRows:
    """Every row ends in the constant feature, if there is one."""
    kept = _floats(rows.values)
    if not encoding.constant:
        return rows._replace(values=kept)
    ends = rows.offsets[1:]
    return SparseRows(
        np.insert(rows.indices, ends, encoding.columns).astype(np.int32),
        np.insert(kept, ends, encoding.constant),
        rows.offsets + np.arange(len(rows.offsets)),
        encoding.number_of_features,
    )


SPARSE_COLUMNS = ("offsets", "indices", "values", "labels")
"""Of a store of labelled sparse rows, or of sequences of them."""


def sparse_columns(features: SparseFeatures, labels: np.ndarray) -> dict[str, np.ndarray]:
    """The columns of ragged sparse rows, or sequences of them, with their labels."""
    indices, values = features
    every = indices.offsets, indices.rows, values.rows, np.asarray(labels)
    return dict(zip(SPARSE_COLUMNS, every, strict=True))


def sparse_from(arrays: Mapping[str, np.ndarray], d: int) -> SparseFeatures:
    """The ragged sparse features of such columns; d: how many features there are."""
    offsets = arrays["offsets"]
    return SparseFeatures(Ragged(arrays["indices"], offsets, d), Ragged(arrays["values"], offsets))


def one_matrix(records: list) -> Any:
    """Records of a stream: rows of SciPy's as one matrix, any others as they are."""
    if not all(hasattr(one, "tocsr") for one in records):
        return records
    from scipy import sparse

    rows = [one.reshape(1, -1) if one.ndim == 1 else one for one in records]
    if any(row.shape[0] != 1 for row in rows):
        raise ValueError("a matrix of several rows stands where a record, one row, should")
    return sparse.vstack(rows, format="csr")
