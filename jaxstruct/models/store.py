"""Stores: training sets in a folder, memory-mapped, so that they may be larger than memory.

An archive in a folder (`core.archive`), whose header has the structure, the number of examples, and
the encoding as `plain_values`, and whose arrays are of all examples one after the other. It is
written once, by `store_writing`, under a temporary name. Opening it looks at the sizes of the
arrays, not at their numbers: what of these does not fit the structure a training refuses.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from jaxstruct.chains import ChainEncoding, chain_inputs
from jaxstruct.core.archive import Archive, FolderWriter, Schema
from jaxstruct.core.checks import text_of
from jaxstruct.core.encoding import check_encoding
from jaxstruct.core.prepared import Prepared
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.types import BinaryTree, PyTree, SparseFeatures
from jaxstruct.models.plain_values import from_plain, to_plain
from jaxstruct.models.records import RECORDS
from jaxstruct.multiclass import ClassEncoding
from jaxstruct.trees import SentenceInput, TreeEncoding

STORE = Schema("store", "jaxstruct-store", 1, "python -m experiments.make_store")

Arrays = Mapping[str, np.ndarray]


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

    encoding: ClassEncoding | ChainEncoding | TreeEncoding
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


def _of_rows(encoding: ClassEncoding, arrays: Arrays) -> tuple[PyTree, PyTree]:
    d, offsets = encoding.features.number_of_features, arrays["offsets"]
    stores = Ragged(arrays["indices"], offsets, d), Ragged(arrays["values"], offsets)
    return SparseFeatures(*stores), arrays["labels"]


def _of_sequences(encoding: ChainEncoding, arrays: Arrays) -> tuple[PyTree, PyTree]:
    features, labels = _of_rows(encoding, arrays)  # type: ignore[arg-type]
    return chain_inputs(features), Ragged(labels, arrays["offsets"], -1)


NODES = ("rules", "begins", "splits", "ends")
"""What a tree has of every inner node."""


def _of_trees(encoding: TreeEncoding, arrays: Arrays) -> tuple[PyTree, PyTree]:
    del encoding
    tokens, nodes = arrays["offsets"], arrays["node_offsets"]
    terminals = Ragged(arrays["terminals"], tokens, -1)
    outputs = BinaryTree(
        Ragged(arrays["symbols"], tokens, -1), *(Ragged(arrays[name], nodes, -1) for name in NODES)
    )
    return SentenceInput(terminals, terminals.lengths.astype(np.int32)), outputs


class Kind(NamedTuple):
    """A kind of store. arrays: their names. read: (encoding, arrays) -> (inputs, outputs)."""

    arrays: tuple[str, ...]
    read: Callable[[Any, Arrays], tuple[PyTree, PyTree]]


_ROWS = ("offsets", "indices", "values", "labels")
KINDS = {
    "multiclass": Kind(_ROWS, _of_rows),
    "chain": Kind(_ROWS, _of_sequences),
    "weighted_grammar": Kind(
        ("offsets", "node_offsets", "terminals", "symbols", *NODES), _of_trees
    ),
}
"""By the name of the structure."""


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
        if header["structure"] not in KINDS:
            raise archive.error(f"is of the structure {text_of(header['structure'])}")
        encoding = from_plain(header["encoding"], {}, RECORDS)
        check_encoding(encoding)
        if encoding.structure != header["structure"]:
            raise archive.error(f"has an encoding of {encoding.structure}")
        kind = KINDS[header["structure"]]
        if set(arrays) != set(kind.arrays):
            raise archive.error(f"has the arrays {sorted(arrays)}, expected {sorted(kind.arrays)}")
        store = Store(encoding, *kind.read(encoding, arrays))
        if len(store) != header["examples"]:
            raise archive.error(f"has {len(store)} examples, its header says {header['examples']}")
    return store


def end_store(writer: FolderWriter, encoding: Any, examples: int) -> None:
    """Write the header of a store."""
    plain = to_plain(encoding, "encoding", {}, RECORDS)
    writer.end({"structure": encoding.structure, "examples": examples, "encoding": plain})
