"""experiments.calibration on the digit words that are always here."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.calibration import Options, load, reliability_diagram, stated
from jaxstruct import ragged
from tests.experiments.scripts import options_of, strict_json


def test_the_known_examples_are_divided_once() -> None:
    data = load("digits", 0.25, 80, 0, "float32")
    assert (len(data.train.outputs), len(data.held_out.outputs)) == (60, 20)
    train, held = ({row.tobytes() for row in part.inputs} for part in (data.train, data.held_out))
    assert not train & held
    words = load("digit_words", 0.5, 10, 0, "float32")
    assert len(words.train.outputs) == len(words.held_out.outputs) == 5


pytest.importorskip("matplotlib")


def test_bins_of_few_predictions_are_left_out() -> None:
    bins = {
        "edges": [0, 0.5, 1], "count": [3, 40], "confidence": [0.4, 0.8], "accuracy": [np.nan, 0.7],
    }  # fmt: skip
    rows = [
        {"machine": machine, "temperature": T, "error": 10.0, "reliability": bins}
        for machine in ("SVM", "random field")
        for T in (1.0, 0.5)
    ]
    plot = reliability_diagram("digits", rows)
    assert len(plot.data.rows) == 4
    assert plot.data.rows[1] == ["SVM, T = 0.5", 0.8, 0.7, 40]
    (axes,) = plot.figure.axes
    lines = axes.get_lines()
    assert [line.get_linestyle() for line in lines] == ["-", "--", "-", "--", "-"]
    assert lines[1].get_color() == lines[2].get_color() != lines[3].get_color()


options = options_of(Options, data=("digits",), examples=120, most_iterations=20, tolerance=1e-2)


def test_a_temperature_lowers_the_held_out_loss_and_changes_no_prediction(outcome):
    rows = strict_json(outcome.files[0])["rows"]
    assert len(rows) == 4
    for plain, fitted in zip(rows[::2], rows[1::2], strict=True):
        assert plain["temperature"] == 1 and fitted["temperature"] != 1
        assert plain["accuracy"] == fitted["accuracy"] > 50
        assert fitted["held_out_after"] <= fitted["held_out_before"] + 1e-6
        assert sum(plain["reliability"]["count"]) == sum(fitted["reliability"]["count"])
    assert rows[0]["machine"] == "SVM" and rows[0]["error"] > 2


def test_what_was_stated_is_read_at_the_labels():
    plain = stated(np.array([[0.2, 0.8], [0.6, 0.4]]), np.array([1, 0]))
    np.testing.assert_array_equal(plain, [0.8, 0.6])
    rows = ragged([np.array([[0.2, 0.8]]), np.array([[0.6, 0.4], [0.5, 0.5]])], -1)
    np.testing.assert_array_equal(stated(rows, ragged([[1], [0, 1]], -1)), [0.8, 0.6, 0.5])
