"""The growth of trainings: rows, slopes and what does not fit."""

from __future__ import annotations

import json

import numpy as np
import pytest

import jaxstruct as js
from experiments import large_data as command
from experiments import large_data as data
from experiments.large_data import Options
from jaxstruct.core.padding import bucketed
from tests.experiments.scripts import kept_settings


@pytest.mark.parametrize("task", data.TASKS)
def test_a_store_of_pieces(task, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(data, "PIECE", 40)
    folder = data.make_store(tmp_path / "a", task, 100, 3)
    store = js.open_store(folder, check=True)
    assert len(store) == 100
    x, y = store.inputs, store.outputs
    problem = store.encoding.problem()
    inputs, outputs = bucketed(problem.padding, x, y)
    for part, labels in zip(inputs.parts, outputs.parts, strict=True):
        problem.check(part, labels)
    again = js.open_store(data.make_store(tmp_path / "b", task, 40, 3))
    features = again.inputs.features if task == "sentences" else again.inputs
    whole = x.features if task == "sentences" else x
    rows = len(features.indices.rows)
    np.testing.assert_array_equal(features.indices.rows, whole.indices.rows[:rows])


def test_texts_are_of_length_one_and_classes_can_be_told() -> None:
    x, y = data.texts(np.random.default_rng(0), np.random.default_rng(1), 200)
    squares = np.add.reduceat(x.values.rows**2, x.values.offsets[:-1])
    np.testing.assert_allclose(squares, 1, rtol=1e-5)
    assert set(y) <= set(range(data.CLASSES)) and len(set(y)) > 10
    one = x.indices[0]
    assert (np.diff(one) > 0).all() and one.max() < data.WORDS


def test_words_follow_zipf() -> None:
    drawn = data._drawn(np.random.default_rng(0), 100, 50_000)
    counts = np.bincount(drawn, minlength=100)
    assert counts[0] / counts[9] == pytest.approx(10, rel=0.15) and len(counts) == 100


def test_a_part_writes_its_row_and_leaves_no_store(tmp_path) -> None:
    rows = []
    for part in ("blocks", "fit"):
        options = Options(
            sentences=(), texts=("60",), passes=2, blocks=3, part=part, output=str(tmp_path)
        )
        with kept_settings():
            command.run_part(options)
        rows += json.loads((tmp_path / f"large_data_{part}_texts_60.json").read_text())["rows"]
    blocks, whole = rows
    assert (blocks["blocks"], blocks["rounds"], blocks["n"]) == (3, 2, 60)
    assert blocks["dual"] <= whole["primal"] and whole["dual"] <= blocks["primal"]
    assert blocks["round_seconds"] > 0 and blocks["peak"] >= blocks["before"] > 0
    assert blocks["foretold"] > 0 and "foretold" not in whole
    assert not list(tmp_path.glob("*.store"))
    table = command._table(Options(), [blocks, whole])
    assert [row[0] for row in table.rows] == ["texts", "texts"]
    command._plot([blocks, whole])


def test_slopes_are_of_logarithms() -> None:
    sizes = np.array([10.0, 100, 1000])
    assert command.slope(sizes, 3 * sizes**1.1) == pytest.approx(1.1)
    assert np.isnan(command.slope([1], [2]))


def test_a_part_is_of_one_size() -> None:
    with kept_settings(), pytest.raises(ValueError, match="one size of one task"):
        command.run_part(Options(sentences=(), texts=("60", "70"), part="blocks"))
