"""Stores are opened as they were written, or refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

import jaxstruct as js
from jaxstruct.models import Store, write_rows, write_sequences
from jaxstruct.models.store_writing import open_store
from tests.lib.refusals import refused

ROWS = [["a", "b"], ["b", "c", "b"], ["c"], ["a", "d"]]
LABELS = ["x", "y", "x", "z"]


@pytest.fixture
def folder(tmp_path):
    records = [(i, *pair) for i, pair in enumerate(zip(ROWS, LABELS, strict=True))]
    return write_rows(tmp_path / "a.store", records).folder


def test_a_store_trains_and_its_model_predicts(folder) -> None:
    store = js.open_store(folder, check=True)
    assert isinstance(store, Store) and len(store) == 4
    assert repr(store) == "Store(multiclass, 4 examples)"
    assert not store.inputs.values.rows.flags.writeable  # it lies on the disk
    data = store.prepare()
    solution = js.fit_in_blocks(*data, C=100.0, blocks=2)
    assert solution.status.solved and js.trained(data, solution).predict(ROWS) == LABELS


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "zip"}, "is of no format"),
        ({"version": 2}, "is of version 2 of the format, this jaxstruct reads 1"),
        ({"structure": "chain"}, "its encoding of multiclass"),
        ({"structure": "tables"}, "is of the structure 'tables'"),
        ({"examples": 7}, "has 4 examples, its header says 7"),
        ({"arrays": {}}, "has the arrays .*, expected"),
        ({"arrays": {"../values": {}}}, "has an array called '../values'"),
    ],
)
def test_a_header_that_does_not_fit_is_refused(folder, change, words) -> None:
    header = json.loads((folder / "header.json").read_text())
    (folder / "header.json").write_text(json.dumps(header | change))
    refused(words, open_store, folder)
    (folder / "header.json").write_text("[")
    refused("does not hold together", open_store, folder)


def test_damaged_arrays_are_refused(folder, tmp_path) -> None:
    values = np.load(folder / "values.npy")
    values[0] += 1
    np.save(folder / "values.npy", values)
    open_store(folder)
    refused("'values.npy' that does not have its digest", open_store, folder, check=True)
    np.save(folder / "values.npy", values[:-1])
    refused("'values.npy' of .*, its header says", open_store, folder)
    (folder / "values.npy").write_bytes(b"PK")
    refused("'values.npy' that cannot be read", open_store, folder)
    (folder / "values.npy").unlink()
    refused("values.npy", open_store, folder, error=FileNotFoundError)
    refused("there is no store in", open_store, tmp_path, error=FileNotFoundError)


def test_arrays_that_are_no_offsets_are_refused(tmp_path) -> None:
    folder = write_sequences(tmp_path / "s", [(0, [["a"], ["b"]], ["N", "V"])]).folder
    offsets = np.load(folder / "offsets.npy")
    np.save(folder / "offsets.npy", offsets[::-1].copy())
    refused("offsets must rise", open_store, folder)
