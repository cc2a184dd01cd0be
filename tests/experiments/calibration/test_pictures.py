"""Reliability diagrams of rows made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.calibration.pictures import reliability_diagram

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
    plot = reliability_diagram("digits", rows, 20)
    assert len(plot.data.rows) == 4
    assert plot.data.rows[1] == ["SVM, T = 0.5", 0.8, 0.7, 40]
    (axes,) = plot.figure.axes
    lines = axes.get_lines()
    assert [line.get_linestyle() for line in lines] == ["-", "--", "-", "--", "-"]
    assert lines[1].get_color() == lines[2].get_color() != lines[3].get_color()
