"""Stores are opened as they were written, or refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

import jaxstruct as js
from jaxstruct.models import Store, write_rows, write_sequences
from jaxstruct.models.store import open_store
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


def test_what_is_damaged_is_refused(folder, tmp_path) -> None:
    header = json.loads((folder / "header.json").read_text())

    def is_refused(words: str, error: type = ValueError, **options) -> None:
        refused(words, open_store, folder, **options, error=error)
        (folder / "header.json").write_text(json.dumps(header))

    (folder / "header.json").write_text(json.dumps(header | {"format": "zip"}))
    is_refused("is of no format")
    (folder / "header.json").write_text(json.dumps(header | {"version": 2}))
    is_refused("is of version 2 of the format, this jaxstruct reads 1")
    (folder / "header.json").write_text(json.dumps(header | {"structure": "chain"}))
    is_refused("its encoding of multiclass")
    (folder / "header.json").write_text(json.dumps(header | {"structure": "tables"}))
    is_refused("is of the structure 'tables'")
    (folder / "header.json").write_text(json.dumps(header | {"examples": 7}))
    is_refused("has 4 examples, its header says 7")
    (folder / "header.json").write_text("[")
    is_refused("does not hold together")
    fewer = {name: entry for name, entry in header["arrays"].items() if name != "values"}
    (folder / "header.json").write_text(json.dumps(header | {"arrays": fewer}))
    is_refused("has the arrays .*, expected")
    outside = {"../values": header["arrays"]["values"]}
    (folder / "header.json").write_text(json.dumps(header | {"arrays": outside}))
    is_refused("has an array called '../values'")
    values = np.load(folder / "values.npy")
    values[0] += 1
    np.save(folder / "values.npy", values)
    open_store(folder)
    is_refused("'values.npy' that does not have its digest", check=True)
    np.save(folder / "values.npy", values[:-1])
    is_refused("'values.npy' of .*, its header says")
    (folder / "values.npy").write_bytes(b"PK")
    is_refused("'values.npy' that cannot be read")
    (folder / "values.npy").unlink()
    is_refused("values.npy", FileNotFoundError)
    refused("there is no store in", open_store, tmp_path, error=FileNotFoundError)


def test_arrays_that_are_no_offsets_are_refused(tmp_path) -> None:
    folder = write_sequences(tmp_path / "s", [(0, [["a"], ["b"]], ["N", "V"])]).folder
    offsets = np.load(folder / "offsets.npy")
    np.save(folder / "offsets.npy", offsets[::-1].copy())
    refused("offsets must rise", open_store, folder)
