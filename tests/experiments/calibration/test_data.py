"""How the known examples of `experiments.calibration` are divided."""

from __future__ import annotations

import pytest

from experiments.calibration.data import load


def test_the_known_examples_are_divided_once() -> None:
    data = load("digits", 0.25, 80, 0, "float32")
    assert (len(data.train.outputs), len(data.held_out.outputs)) == (60, 20)
    train, held = ({row.tobytes() for row in part.inputs} for part in (data.train, data.held_out))
    assert not train & held
    words = load("digit_words", 0.5, 10, 0, "float32")
    assert len(words.train.outputs) == len(words.held_out.outputs) == 5


def test_no_part_is_empty() -> None:
    with pytest.raises(ValueError, match="held_out: 0.1 of 4 examples leaves none to train"):
        load("digits", 0.1, 4, 0, "float32")
