"""Stores, training sets in a folder, and writing one from records that come one after the other.

A store is memory-mapped, so that it may be larger than memory. It is an archive in a folder
(`core.archive`): the header has the structure, the number of examples, and the encoding as
`plain_values`, and arrays are of all examples one after the other. It is written once, under a
temporary name. Opening it looks at the sizes of the arrays, not at their numbers: what of these
does not fit the structure a training refuses.

Records are read once. Names of features are numbered as they come, and what was read goes to the
disk in these numbers; at the end, when all counts are known, the numbers on the disk become the
columns that `prepare` gives. Trees go to the disk as they are, since none can be written in
numbers before the grammar is known. What stays in memory is the dictionary of names and labels, or
the rules, and a chunk of records.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn

import numpy as np

from jaxstruct.chains import ChainEncoding
from jaxstruct.core.archive import Archive, FolderWriter, GrowingArray, Schema
from jaxstruct.core.checks import checked_number, checked_size, text_of
from jaxstruct.core.feature_encoding import (
    FeatureEncoding,
    fit_index,
    inputs_of,
    sparse_columns,
    summed_rows,
    with_constant,
)
from jaxstruct.core.feature_rows import (
    DenseRows,
    NamedRows,
    Rows,
    SparseRows,
    read_rows,
    read_sequences,
)
from jaxstruct.core.files import replacing
from jaxstruct.core.labels import fit_codec
from jaxstruct.core.plain_values import from_plain, to_plain
from jaxstruct.core.prepared import Prepared, check_encoding
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.types import PyTree
from jaxstruct.data.bracketing import without_outer
from jaxstruct.data.trees import Tree, preorder, words
from jaxstruct.models.model_files import RECORDS
from jaxstruct.multiclass.encoding import ClassEncoding
from jaxstruct.trees import Binarisation, TreeEncoding
from jaxstruct.trees.phrases.grammar import GrammarCounts, UnknownWords, frequent_words

STORE = Schema("store", "jaxstruct-store", 1, "python -m experiments.make_store")


class Store(NamedTuple):
    """A training set on a disk. Made by `open_store`.

        store = open_store("news.store")
        data = store.prepare(start_stop=True)
        solution = fit_in_blocks(*data, C=1000.0)
        model = trained(data, solution)

    Fields:
      encoding: what columns and numbers mean, as of `prepare` of its output type.
      inputs, outputs: of n examples, `Ragged` stores over memory-mapped rows.
    """

    encoding: Any
    inputs: PyTree
    outputs: PyTree

    def prepare(self, **options: Any) -> Prepared:
        """The training set, as a trainer takes it; options are those of the structure."""
        return Prepared(self.encoding, self.inputs, self.outputs, options)

    def __len__(self) -> int:
        """The number n of examples."""
        return len(self._offsets()) - 1

    def __repr__(self) -> str:
        """One line without the numbers."""
        return f"Store({self.encoding.structure}, {len(self)} examples)"

    def _offsets(self) -> np.ndarray:
        leaf = self.inputs
        while not isinstance(leaf, Ragged):
            leaf = leaf[0]
        return leaf.offsets


def open_store(folder: str | os.PathLike, *, check: bool = False) -> Store:
    """Open the store in a folder, of which nothing but the header and offsets is read.

    Args:
      folder: as `python -m experiments.make_store` or `write_sequences` and its like made it.
      check: whether to read all arrays once and compare their digests with the header.

    Returns:
      A Store.

    Raises:
      FileNotFoundError: there is no such store, or an array of it is gone.
      ValueError: it is no store, of another version, or does not hold together.
    """
    archive = Archive(STORE, folder)
    archive.open_folder(check=check)
    header, arrays = archive.header, archive.arrays
    with archive.refusing():
        encoding = from_plain(header["encoding"], {}, RECORDS)
        check_encoding(encoding)
        if encoding.structure != header["structure"] or not hasattr(encoding, "from_store"):
            raise archive.error(
                f"is of the structure {text_of(header['structure'])}, its encoding of "
                f"{encoding.structure}: expected one and the same whose encoding has from_store"
            )
        if set(arrays) != set(encoding.columns):
            wanted = sorted(encoding.columns)
            raise archive.error(f"has the arrays {sorted(arrays)}, expected {wanted}")
        store = Store(encoding, *encoding.from_store(arrays))
        if len(store) != header["examples"]:
            raise archive.error(f"has {len(store)} examples, its header says {header['examples']}")
    return store


def write_pieces(
    writer: FolderWriter, encoding: Any, pieces: Iterable[dict[str, np.ndarray]]
) -> int:
    """Write a store of examples in numbers, some at a time; how many there are.

    Args:
      encoding: of all of them. pieces: their columns, of its `to_store`, one at least.
    """
    columns: dict[str, GrowingArray] = {}
    ends: dict[str, int] = {}
    for piece in pieces:
        for name, part in piece.items():
            counts = name.endswith("offsets")
            if name not in columns:
                dtype = "<i8" if counts else "<f4" if part.dtype.kind == "f" else "<i4"
                columns[name], ends[name] = writer.new(name, dtype, *part.shape[1:]), 0
                if counts:
                    columns[name].add(np.zeros(1, np.int64))
            columns[name].add(part[1:] + ends[name] if counts else part)
            ends[name] += int(part[-1]) if counts else 0
    examples = columns["offsets"].rows - 1
    plain = to_plain(encoding, "encoding", {}, RECORDS)
    writer.end({"structure": encoding.structure, "examples": examples, "encoding": plain})
    return examples


CHUNK = 1024
"""Records that are encoded together."""


class Written(NamedTuple):
    """What was written. folder: of the store. examples: in it. bad: records passed over."""

    folder: Path
    examples: int
    bad: int


Report = Callable[[Any, str], object]
"""Called with the place of a bad record, as it came, and the reason."""


def _refuse(place: Any, reason: str) -> None:
    raise ValueError(f"records: the one of place {text_of(place)}: {reason}")


class _Bad:
    """Bad records: how many, and the first."""

    def __init__(self, report: Report) -> None:
        self._report, self.count, self._first = report, 0, ""

    def add(self, place: Any, error: ValueError) -> None:
        """Report one that was passed over."""
        reason = " ".join(str(error).split())
        self._report(place, reason)
        self._first = self._first or f"the first, of place {text_of(place)}: {reason}"
        self.count += 1

    def refuse(self) -> NoReturn:
        """Raise ValueError, since no record is left."""
        if not self.count:
            raise ValueError("records: none came, expected at least one")
        raise ValueError(f"records: {self.count} came and all were bad; {self._first}")


class _Numbers:
    """Names in numbers as they come, and how many rows have each."""

    def __init__(self) -> None:
        self.numbers: defaultdict[Any, int] = defaultdict(itertools.count().__next__)
        self._counts = np.zeros(1024, np.int64)

    def of(self, names: Sequence[Hashable]) -> np.ndarray:
        """[len(names)] their numbers."""
        return np.fromiter(map(self.numbers.__getitem__, names), np.int64, len(names))

    def count(self, which: np.ndarray, offsets: np.ndarray) -> None:
        """Count each name once a row; row r has which[offsets[r] : offsets[r + 1]]."""
        size = len(self.numbers)
        if size > len(self._counts):
            more = max(size, 2 * len(self._counts)) - len(self._counts)
            self._counts = np.concatenate([self._counts, np.zeros(more, np.int64)])
        row = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        distinct = np.unique(row * max(size, 1) + which) % max(size, 1)
        self._counts[:size] += np.bincount(distinct, minlength=size)

    @property
    def counts(self) -> dict[Any, int]:
        """name -> rows that have it."""
        return dict(zip(self.numbers, self._counts.tolist(), strict=False))


class _Kept:
    """What was read of all records, in a file: names (or columns), values and labels by number."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._chunks = file, 0
        self.names, self.codes = _Numbers(), _Numbers()
        self.kind, self.columns = "", 0

    def add(self, rows: Rows, labels: list, offsets: np.ndarray | None) -> None:
        """Some records with the labels of their rows; offsets: of sequences of rows.

        Raises:
          ValueError: the rows do not go with those before, or a label is none.
        """
        if isinstance(rows, DenseRows):
            raise ValueError("has a row of dense numbers, which stores do not hold: give names")
        kind = "named" if isinstance(rows, NamedRows) else "sparse"
        if self.kind not in ("", kind):
            raise ValueError(f"has {kind} rows, those before it are {self.kind}")
        fit_codec(labels)  # refuses what is no label
        self.kind = kind
        if isinstance(rows, NamedRows):
            which = self.names.of(rows.names)
            self.names.count(which, rows.offsets)
        else:
            which, self.columns = rows.indices, max(self.columns, rows.number_of_features)
        ends = rows.offsets if offsets is None else offsets
        values = np.asarray(rows.values, np.float32)
        for array in (which.astype(np.int32), values, rows.offsets, ends, self.codes.of(labels)):
            np.save(self._file, array)
        self._chunks += 1

    def encoding(
        self, min_count: int, constant: float
    ) -> tuple[FeatureEncoding, np.ndarray | None]:
        """(the features, the column of each name or -1; None where entries are columns).

        Raises:
          ValueError: no feature is left, or min_count is asked of features without names.
        """
        if self.kind == "sparse":
            if min_count > 1:
                raise ValueError(f"min_count must be 1 unless features have names, got {min_count}")
            return FeatureEncoding("sparse", None, self.columns, constant), None
        if not self.names.numbers:
            raise ValueError("no feature stands in any of the records: name some")
        index = fit_index(self.names.counts, min_count=min_count)
        find = index.columns.get
        columns = np.array([find(name, -1) for name in self.names.numbers], np.int64)
        return FeatureEncoding("named", index, index.number_of_features, constant), columns

    def encoded(
        self, features: FeatureEncoding, columns: np.ndarray | None
    ) -> Iterator[tuple[SparseRows, np.ndarray, np.ndarray]]:
        """(rows, offsets, labels by number), some records at a time; see `add`, `encoding`."""
        self._file.seek(0)
        for _ in range(self._chunks):
            which, values, offsets, ends, codes = (np.load(self._file) for _ in range(5))
            places = which.astype(np.int64) if columns is None else columns[which]
            rows = summed_rows(places, values, offsets, features.columns)
            yield with_constant(rows, features), ends, codes


def _in_chunks(
    records: Iterable[tuple[Any, Any, Any]], read: Callable[[list], object], report: Report
) -> _Bad:
    """Give records to `read`, many at a time where that works, else each alone; the bad ones."""
    bad, source = _Bad(report), iter(records)
    while chunk := list(itertools.islice(source, CHUNK)):
        try:
            read(chunk)
        except ValueError:
            for one in chunk:
                try:
                    read([one])
                except ValueError as error:
                    bad.add(one[0], error)
    return bad


@contextlib.contextmanager
def _store(target: Path) -> Iterator[tuple[FolderWriter, IO[bytes]]]:
    """The writer of a new store, and a file beside its arrays that is gone at the end."""
    with (
        replacing(target) as temporary,
        FolderWriter(STORE, temporary) as writer,
        tempfile.TemporaryFile(dir=temporary) as file,
    ):
        yield writer, file


def _new(folder: str | os.PathLike) -> Path:
    if os.path.lexists(folder):
        raise ValueError(
            f"folder: {os.fspath(folder)} is there already: remove it, or name another"
        )
    return Path(folder)


def write_rows(
    folder: str | os.PathLike,
    records: Iterable[tuple[Any, Any, Hashable]],
    *,
    min_count: int = 1,
    constant: float = 1.0,
    columns: int | None = None,
    report: Report = _refuse,
) -> Written:
    """Write rows with a class each, for `multiclass`; read once.

    Args:
      folder: of the store; it must not be there.
      records: (place, row, label) one after the other, the place of any kind. A row is a list of
        names or a mapping, or a pair (columns, values), columns from 0.
      min_count, constant: as in `multiclass.prepare`, whose encoding of all these it has.
      columns: the dimension d of rows of numbers; None for the highest column.
      report: called with the place and the fault of a bad record, passed over; by default it is
        an error.

    Raises:
      ValueError: the folder is there, a number does not fit, a record is bad and no report is
        given, no record is left, or there is one class only.
    """
    columns = None if columns is None else checked_size("columns", columns)

    def read(chunk: list) -> tuple:
        _, rows, labels = zip(*chunk, strict=True)
        numbers = all(isinstance(row, tuple) and len(row) == 2 for row in rows)
        found = _of_columns(rows, columns) if numbers else read_rows("record", list(rows))
        return found, list(labels), None

    return _write(folder, records, min_count, constant, report, read, ClassEncoding)


def write_sequences(
    folder: str | os.PathLike,
    records: Iterable[tuple[Any, Any, Sequence[Hashable]]],
    *,
    min_count: int = 1,
    constant: float = 0.0,
    report: Report = _refuse,
) -> Written:
    """Write sequences with a label a token, for `chain`; read once.

    Args:
      records: (place, sequence, labels) one after the other; a sequence is a list of rows of names
        or mappings.
      folder, report: as in `write_rows`. min_count, constant: as in `chains.prepare`, whose
        encoding of all these it has.

    Raises:
      ValueError: as `write_rows`.
    """

    def read(chunk: list) -> tuple:
        _, sequences, labels = zip(*chunk, strict=True)
        rows, offsets = read_sequences("record", list(sequences))
        lengths, wanted = [len(own) for own in labels], np.diff(offsets).tolist()
        if 0 in wanted:
            raise ValueError("has no token")
        if lengths != wanted:
            raise ValueError(f"has {lengths[0]} labels of {wanted[0]} tokens")
        return rows, [one for own in labels for one in own], offsets

    return _write(folder, records, min_count, constant, report, read, ChainEncoding)


def _of_columns(rows: tuple, columns: int | None) -> SparseRows:
    """Rows that are pairs (columns, values); columns: how many there are, None for those named."""
    offsets = np.cumsum([0, *(len(own) for own, _ in rows)], dtype=np.int64)
    indices = np.concatenate([np.asarray(own, np.int64) for own, _ in rows])
    with np.errstate(over="ignore"):  # reported below
        values = np.concatenate([np.asarray(own, np.float32) for _, own in rows])
    found = int(indices.max(initial=-1)) + 1
    if len(values) != len(indices) or indices.min(initial=0) < 0 or found >= 1 << 31:
        raise ValueError("has columns that are none, or others than values")
    if columns is not None and found > columns:
        raise ValueError(f"has column {found - 1}, but there are {columns}")
    if not np.isfinite(values).all():
        raise ValueError("has a value that is not finite")
    return SparseRows(indices.astype(np.int32), values, offsets, columns or found)


def _write(
    folder: str | os.PathLike,
    records: Iterable,
    min_count: int,
    constant: float,
    report: Report,
    read: Callable[[list], tuple],
    encoding: type[ClassEncoding | ChainEncoding],
) -> Written:
    """A store of records; read: some of them -> what `_Kept.add` takes, or ValueError."""
    min_count, constant = checked_size("min_count", min_count), checked_number("constant", constant)
    with _store(_new(folder)) as (writer, file):
        kept = _Kept(file)
        bad = _in_chunks(records, lambda chunk: kept.add(*read(chunk)), report)
        if not kept.kind:
            bad.refuse()
        codec = fit_codec(list(kept.codes.numbers))
        if len(codec.classes) < 2:
            raise ValueError(
                f"records have the label {text_of(list(codec.classes))} alone: give two"
            )
        number = {name: i for i, name in enumerate(codec.classes)}
        of_code = np.array([number[name] for name in kept.codes.numbers], np.int32)
        features, columns = kept.encoding(min_count, constant)
        ragged, width = encoding is ChainEncoding, 1
        if ragged:  # tokens are padded to the one that has most
            for rows, *_ in kept.encoded(features, columns):
                width = max(width, int(np.diff(rows.offsets).max(initial=1)))
        pieces = (
            sparse_columns(inputs_of(rows, ends if ragged else None, width), of_code[codes])
            for rows, ends, codes in kept.encoded(features, columns)
        )
        examples = write_pieces(writer, encoding(features, codec), pieces)
    return Written(Path(folder), examples, bad.count)


def write_trees(
    folder: str | os.PathLike,
    records: Iterable[tuple[Any, Tree]],
    *,
    read_words: bool = False,
    rare: int = 1,
    memory: int | None = 0,
    branching: str = "right",
    report: Report = _refuse,
) -> Written:
    """Write trees and the grammar that they have, for `weighted_grammar`; read once.

    The grammar must be complete before rules can be numbered: until then the trees lie in a file.

    Args:
      records: (place, tree) one after the other.
      folder, report: as in `write_rows`. The others: as in `trees.prepare`.

    Raises:
      ValueError: as `write_rows`.
    """
    target, unknown = _new(folder), UnknownWords(rare) if read_words else None
    binarisation, bad = Binarisation(branching, memory), _Bad(report)
    with _store(target) as (writer, file):
        seen: Counter[str] = Counter()
        counts, kept = GrammarCounts(binarisation), 0
        for place, tree in records:
            bare = without_outer(tree)
            try:
                counts.add(bare)
            except ValueError as error:
                bad.add(place, error)
                continue
            kept += 1
            file.write(_line_of(bare))
            if read_words:
                seen.update(words(bare))
        if not kept:
            bad.refuse()
        if unknown is not None:
            counts = GrammarCounts(binarisation, unknown, frequent_words(seen, unknown))
            for tree in _trees_in(file):
                counts.add(tree)
        encoding, source = TreeEncoding(counts.grammar()), _trees_in(file)
        chunks = iter(lambda: list(itertools.islice(source, CHUNK)), [])
        pieces = (encoding.to_store(encoding.inputs(own), encoding.outputs(own)) for own in chunks)
        examples = write_pieces(writer, encoding, pieces)
    return Written(target, examples, bad.count)


def _line_of(tree: Tree) -> bytes:
    """A tree as JSON: label, word and number of children of each node in preorder."""
    nodes = [[node.label, node.word, len(node.children)] for node in preorder(tree)]
    return json.dumps(nodes).encode() + b"\n"


def _trees_in(file: IO[bytes]) -> Iterator[Tree]:
    """The trees of a file of such lines, from its beginning."""
    file.seek(0)
    for line in file:
        trees: list[Tree] = []
        for label, word, count in reversed(json.loads(line)):
            trees.append(Tree(label, tuple(trees.pop() for _ in range(count)), word))
        yield trees.pop()
