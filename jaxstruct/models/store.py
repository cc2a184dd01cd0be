"""Stores: training sets in a folder, memory-mapped, so that they may be larger than memory.

    header.json      format, its version, jaxstruct's, the structure, the number of examples, a
                     table of the arrays (dtype, shape, sha256), and the encoding as `plain_values`
    NAME.npy         the arrays, one after the other of all examples; numpy.load reads them

A store is written once, by `store_writing`, under a temporary name. Opening one reads the header
and looks at the sizes of the arrays, not at their numbers: what of these does not fit the structure
a training refuses. `check=True` reads all of them and compares their digests.
"""

from __future__ import annotations

import json
import os
import tokenize
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxstruct.chains import ChainEncoding, chain_inputs
from jaxstruct.core.checks import text_of
from jaxstruct.core.encoding import check_encoding
from jaxstruct.core.prepared import Prepared
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.types import BinaryTree, PyTree, SparseFeatures
from jaxstruct.models.growing_arrays import GrowingArray, digest_of
from jaxstruct.models.plain_values import from_plain, one_line, to_plain
from jaxstruct.models.records import RECORDS
from jaxstruct.multiclass import ClassEncoding
from jaxstruct.trees import SentenceInput, TreeEncoding

FORMAT, VERSION = "jaxstruct-store", 1
HEADER = "header.json"

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
    folder = Path(folder)
    if not (folder / HEADER).is_file():
        raise FileNotFoundError(
            f"folder: there is no store in {os.fspath(folder)}, which has no {HEADER}: make one "
            "with python -m experiments.make_store"
        )
    try:
        header = _header(folder)
        arrays = {name: _array(folder, name, entry, check) for name, entry in header["arrays"]}
        encoding = from_plain(header["encoding"], {}, RECORDS)
        check_encoding(encoding)
        if encoding.structure != header["structure"]:
            raise ValueError(f"its encoding is of {encoding.structure}")
        kind = KINDS[header["structure"]]
        if set(arrays) != set(kind.arrays):
            raise ValueError(f"its arrays are {sorted(arrays)}, expected {sorted(kind.arrays)}")
        store = Store(encoding, *kind.read(encoding, arrays))
        if len(store) != header["examples"]:
            raise ValueError(f"it has {len(store)} examples, its header says {header['examples']}")
    except FileNotFoundError:
        raise
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(
            f"the store {os.fspath(folder)} does not hold together: {one_line(error)}"
        ) from error
    return store


def _header(folder: Path) -> dict[str, Any]:
    header = json.loads((folder / HEADER).read_text(encoding="utf-8"))
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ValueError(f"{HEADER} is of no format {FORMAT!r}")
    if header.get("version") != VERSION:
        raise ValueError(
            f"it is of version {text_of(header.get('version'))} of the format, this jaxstruct "
            f"reads {VERSION}"
        )
    if header.get("structure") not in KINDS:
        raise ValueError(f"it is of the structure {text_of(header.get('structure'))}")
    header["arrays"] = list(header["arrays"].items())
    return header


def _array(folder: Path, name: str, entry: Any, check: bool) -> np.ndarray:
    """A memory-mapped array, of the dtype and shape that the header says."""
    if not name.isidentifier():
        raise ValueError(f"an array is called {text_of(name)}")
    path = folder / f"{name}.npy"
    empty = 0 in entry["shape"]
    try:
        array = np.load(path, mmap_mode=None if empty else "r", allow_pickle=False)
    except (ValueError, EOFError, SyntaxError, tokenize.TokenError) as error:
        raise ValueError(f"{path.name} is damaged: {one_line(error)}") from error
    if [array.dtype.str, list(array.shape)] != [entry["dtype"], entry["shape"]]:
        raise ValueError(
            f"{path.name} is {array.dtype.str}{list(array.shape)}, its header says {text_of(entry)}"
        )
    if check and digest_of(path) != entry["sha256"]:
        raise ValueError(f"{path.name} does not have its digest: it is damaged, make it again")
    return array


class StoreArrays:
    """The arrays of a store, and those that are there while it is written."""

    def __init__(self, folder: Path) -> None:
        """None yet, in a folder that is there."""
        self.folder, self._open = folder, {}
        self._passing: list[Path] = []

    def new(self, name: str, dtype: str, *shape: int) -> GrowingArray:
        """An array of the store."""
        self._open[name] = GrowingArray(self.folder / f"{name}.npy", dtype, shape)
        return self._open[name]

    def passing(self, name: str, dtype: str) -> GrowingArray:
        """One that `closed` maps and that is gone at the end."""
        array = GrowingArray(self.folder / f"{name}.passing", dtype)
        self._passing.append(array.path)
        return array

    def end(self, encoding: Any, examples: int) -> None:
        """Write the header."""
        from jaxstruct import __version__

        for path in self._passing:
            path.unlink()
        table = {name: array.close() for name, array in self._open.items()}
        header = {
            "format": FORMAT, "version": VERSION, "jaxstruct": __version__,
            "structure": encoding.structure, "examples": examples, "arrays": table,
            "encoding": to_plain(encoding, "encoding", {}, RECORDS),
        }  # fmt: skip
        text = json.dumps(header, allow_nan=False, separators=(",", ":"))
        (self.folder / HEADER).write_text(text, encoding="utf-8")
