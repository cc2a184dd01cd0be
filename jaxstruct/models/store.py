"""Stores: training sets in a folder, memory-mapped, so that they may be larger than memory.

An archive in a folder (`core.archive`), whose header has the structure, the number of examples, and
the encoding as `plain_values`, and whose arrays are of all examples one after the other. It is
written once, by `store_writing`, under a temporary name. Opening it looks at the sizes of the
arrays, not at their numbers: what of these does not fit the structure a training refuses.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from jaxstruct.core.archive import Archive, FolderWriter, GrowingArray, Schema
from jaxstruct.core.checks import text_of
from jaxstruct.core.plain_values import from_plain, to_plain
from jaxstruct.core.prepared import Prepared, check_encoding
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.types import PyTree
from jaxstruct.models.records import RECORDS

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
