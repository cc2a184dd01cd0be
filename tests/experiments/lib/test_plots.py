"""Figures: what is drawn is what is saved, and nothing global is touched."""

from __future__ import annotations

import csv
import importlib
import math
import sys

import numpy as np
import pytest
from matplotlib.image import imread

from experiments.lib import plots
from experiments.lib.plots import bar_groups, curve_lines, save_figure
from tests.lib.refusals import refused

NAN = math.nan


def bars():
    series = {"paper": [9.36, 5.17], "measured": [9.41, NAN]}
    return bar_groups(["HMM", "CRF"], series, {"measured": [0.3, NAN]}, title="Test error",
                      ylabel="error (%)")  # fmt: skip


def test_bars_have_the_heights_and_colours_of_the_series():
    (axes,) = bars().figure.axes
    paper, measured = (group for group in axes.containers if hasattr(group, "patches"))
    assert [bar.get_height() for bar in paper] == [9.36, 5.17]
    assert measured[0].get_height() == 9.41
    assert paper[0].get_facecolor() != measured[0].get_facecolor()
    centres = [bar.get_x() + bar.get_width() / 2 for bar in (paper[0], measured[0])]
    assert centres[0] < 0 < centres[1] and sum(centres) == pytest.approx(0)
    segments = measured.errorbar.lines[2][0].get_segments()
    np.testing.assert_allclose(segments[0][:, 1], [9.11, 9.71])
    words = [text.get_text() for text in axes.texts]
    assert words.count("n/a") == 1 and {"9.36", "5.17", "9.41"} <= set(words)
    assert axes.get_ylabel() == "error (%)"


def test_curves_leave_holes_where_the_gap_has_no_logarithm():
    curves = {"R = 0": ([1, 2, 3], [1.0, 0.1, 0.0]), "R = 3": ([1, 2], [math.inf, 0.01])}
    (axes,) = curve_lines(curves, title="Gap", xlabel="seconds", tolerance=1e-3).figure.axes
    first, second, line = axes.lines
    np.testing.assert_array_equal(first.get_ydata(), [1.0, 0.1, NAN])
    np.testing.assert_array_equal(second.get_ydata(), [NAN, 0.01])
    assert set(line.get_ydata()) == {1e-3} and axes.get_yscale() == "log"
    assert first.get_color() != second.get_color()
    assert first.get_linestyle() != second.get_linestyle()
    assert axes.get_xlabel() == "seconds" and axes.get_xscale() == "linear"


def test_ticks_stand_where_it_was_measured_and_a_large_curve_apart():
    sizes = [1, 4, 10]
    plot = curve_lines(
        {"planes": (sizes, [9, 30, 70]), "bound": (sizes, [1e6, 4e6, 1e7]), "line": (sizes, sizes)},
        "t", "n", "planes", log_x=True, ticks=sizes, apart=["bound"],
    )  # fmt: skip
    left, right = plot.figure.axes
    assert [len(left.lines), len(right.lines)] == [2, 1]
    np.testing.assert_array_equal(right.lines[0].get_ydata(), [1e6, 4e6, 1e7])
    for axes in (left, right):
        assert [text.get_text() for text in axes.get_xticklabels()] == ["1", "4", "10"]
        assert list(axes.get_xticks()) == sizes and not len(axes.get_xticks(minor=True))
    names = [text.get_text() for text in plot.figure.legends[0].get_texts()]
    assert sorted(names) == ["bound", "line", "planes"]
    with pytest.raises(ValueError, match=r"apart: got \['x'\], expected some of \['a'\]"):
        curve_lines({"a": ([1], [1])}, apart=["x"])


def test_saved_bars_come_with_their_numbers_the_same_at_every_run(tmp_path):
    contents = []
    for folder in ("a", "b"):
        plot = bars()
        picture, numbers = save_figure(plot.figure, tmp_path / folder, "x", plot.data)
        kinds = ("png", "pdf", "svg")
        contents.append([(tmp_path / folder / f"x.{kind}").read_bytes() for kind in kinds])
    assert picture == tmp_path / "b" / "x.png" and len([*picture.parent.iterdir()]) == 4
    pixels = imread(picture)
    assert pixels.shape[1] >= 800 and pixels[..., :3].std() > 0.05
    assert list(csv.reader(numbers.read_text().splitlines())) == [
        ["group", "paper", "measured", "measured (error)"], ["HMM", "9.36", "9.41", "0.3"],
        ["CRF", "5.17", "", ""],
    ]  # fmt: skip
    assert contents[0] == contents[1]
    starts = (b"\x89PNG", b"%PDF", b"<?xml")
    assert all(text.startswith(start) for text, start in zip(contents[0], starts, strict=True))
    assert b">Test error<" in contents[0][2]  # text stays text


def test_matplotlib_is_imported_late_and_its_absence_is_explained(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    importlib.reload(plots)
    with pytest.raises(ImportError, match=r"jaxstruct\[plots\]"):
        plots.bar_groups(["a"], {"x": [1.0]})


def test_bars_name_the_argument_that_does_not_fit():
    for message, *arguments in (
        (r"series\['x'\]: got 1 values for 2 groups", ["a", "b"], {"x": [1.0]}),
        ("errors: got 'y'", ["a"], {"x": [1.0]}, {"y": [1.0]}),
        (r"errors\['x'\]: got 0 values", ["a"], {"x": [1.0]}, {"x": []}),
        ("got none", [], {"x": []}),
    ):
        refused(message, bar_groups, *arguments)
