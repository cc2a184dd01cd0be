"""Generated examples: the same in any pieces' order, and stores of them."""

from __future__ import annotations

import numpy as np
import pytest

import jaxstruct as js
from experiments.large_data import data
from jaxstruct.core.padding import bucketed


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
