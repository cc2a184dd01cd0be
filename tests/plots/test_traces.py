"""The picture of a training: what it shows, where it is saved, and what is refused."""

from __future__ import annotations

import math
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import jaxstruct as js
from jaxstruct.solvers.loop.trace import Entry, trace_of
from tests.lib.refusals import refused

COMPILED = 90.0
ROUNDS = [
    Entry(COMPILED + 1, 2.0, COMPILED, math.inf, -math.inf, 5, 9, 8.0, 1.0, False),
    Entry(COMPILED + 2, 4.0, COMPILED, 6.0, 3.0, 2, 9, 6.0, 3.0, True),
    Entry(COMPILED + 4, 6.0, COMPILED, 6.0, 3.0, 2, 9, 5.5, 4.0, False),
    Entry(COMPILED + 7, 8.0, COMPILED, 5.0, 4.5, 0, 9, 5.0, 4.5, True),
]
COURSE = trace_of(ROUNDS)


def points(axes):
    return [np.stack(line.get_data(), axis=1) for line in axes.lines]


def test_the_axis_begins_with_training_and_compiling_stands_apart():
    figure = js.plots.trace(COURSE, tolerance=0.01, title="digits")
    objective, gap = figure.axes
    primal, full, hollow, dual = points(objective)[:4]
    np.testing.assert_array_equal(primal, [(1, 8), (2, 6), (4, 5.5), (7, 5)])
    np.testing.assert_array_equal(full, [(2, 6), (7, 5)])
    np.testing.assert_array_equal(hollow, [(1, 8), (4, 5.5)])
    np.testing.assert_array_equal(dual, [(1, 1), (2, 3), (4, 4), (7, 4.5)])
    steps, proved, estimated, line = points(gap)
    np.testing.assert_allclose(steps, [(1, 7 / 8), (2, 0.5), (4, 1.5 / 5.5), (7, 0.1)])
    np.testing.assert_allclose(proved, [(2, 0.5), (7, 0.1)])
    np.testing.assert_allclose(estimated, [(1, 7 / 8), (4, 1.5 / 5.5)])
    assert (line[:, 1] == 0.01).all() and gap.get_yscale() == "log"
    assert objective.get_xlim()[0] == 0 and objective.get_xlim()[1] < 10
    assert "90.0 of compiling" in objective.get_xlabel()


@pytest.mark.smoke
def test_several_trainings_share_a_picture():
    figure = js.plots.trace({"one": COURSE, "two": SimpleNamespace(trace=COURSE)})
    words = [text.get_text() for text in figure.legends[0].get_texts()]
    assert words == ["one", "two", "primal", "dual", "certified", "estimated"]
    assert js.plots.trace(trace_of([])).axes[0].lines  # of no rounds


def test_a_path_saves_it(tmp_path):
    for name, start in (("a.png", b"\x89PNG"), ("a.pdf", b"%PDF"), ("a.svg", b"<?xml")):
        path = tmp_path / name[2:] / name
        js.plots.trace(COURSE, path)
        content = path.read_bytes()
        assert content.startswith(start) and len(content) > 5000
        assert [each.name for each in path.parent.iterdir()] == [name]


def test_refusals():
    for message, *arguments in (
        ("solution must be a Solution of fit, its trace, .* got int 3", 3),
        ("solution is an empty mapping", {}),
        (r"path must end in .png, .pdf or .svg, got 'a.jpg'", COURSE, "a.jpg"),
        (r"path must end in .png, .pdf or .svg, got 4", COURSE, 4),
    ):
        refused(message, js.plots.trace, *arguments)


def test_without_matplotlib_one_line_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    refused(r"pip install 'jaxstruct\[plots\]'", js.plots.trace, COURSE, error=ImportError)
