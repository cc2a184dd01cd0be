"""The progress bar: what it says, when it is quiet, and its estimate of the time left."""

from __future__ import annotations

import io
import math
import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from experiments.lib import progress
from experiments.lib.progress import jobs_bar, seconds_left, training_progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def info(passes, gap, primal=2.0, **fields):
    return SimpleNamespace(
        passes=passes, primal=primal, dual=primal - gap, gap=gap, info=SimpleNamespace(**fields)
    )


def uncertified(passes, gap, estimated, primal=2.0):
    """A pass without a certificate, primal and gap being the best ones before it."""
    guess = SimpleNamespace(primal=4.0, gap=estimated)
    return info(passes, gap, primal, certificate=None, estimate=guess)


@pytest.fixture
def clock(monkeypatch):
    """A clock that moves on by ten seconds each time it is read."""
    ticks = iter(range(0, 10_000, 10))
    monkeypatch.setattr(progress, "monotonic", lambda: next(ticks))


@pytest.fixture
def no_tqdm(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)


def run(stream, gaps, **options):
    with training_progress(100, "C = 1", stream=stream, **options) as update:
        answers = [update(info(i + 1, gap)) for i, gap in enumerate(gaps)]
    assert answers == [None] * len(gaps)


def test_plain_lines_say_passes_gap_and_time_left(no_tqdm, clock):
    stream = io.StringIO()
    run(stream, [math.inf, 2.0, 0.2, 0.02, 0.001], enabled=True)
    assert stream.getvalue().splitlines() == [
        "C = 1: pass 1/100, gap unknown (goal 1e-03), <16:30 left",
        "C = 1: pass 2/100, gap 1.0e+00 (goal 1e-03), <16:20 left",
        "C = 1: pass 3/100, gap 1.0e-01 (goal 1e-03), <16:10 left",
        "C = 1: pass 4/100, gap 1.0e-02 (goal 1e-03), ~0:10 left",
        "C = 1: pass 5/100, gap 5.0e-04 (goal 1e-03), ~0:00 left",
    ]


def test_a_pass_without_a_certificate_tells_its_estimate_and_moves_nothing(no_tqdm, clock):
    stream = io.StringIO()
    with training_progress(100, "C = 1", enabled=True, stream=stream) as update:
        proved = info(1, 2.0, certificate=object(), estimate=SimpleNamespace(gap=9.0))
        for passed in (
            proved, info(2, 0.2), info(3, 0.02), uncertified(4, 0.02, 0.4),
            uncertified(5, 0.02, math.inf), info(6, 0.001),
        ):  # fmt: skip
            update(passed)
    assert stream.getvalue().splitlines() == [
        "C = 1: pass 1/100, gap 1.0e+00 (goal 1e-03), <16:30 left",
        "C = 1: pass 2/100, gap 1.0e-01 (goal 1e-03), <16:20 left",
        "C = 1: pass 3/100, gap 1.0e-02 (goal 1e-03), ~0:10 left",
        "C = 1: pass 4/100, gap 1.0e-02, estimated 1.0e-01 (goal 1e-03), ~0:00 left",
        "C = 1: pass 5/100, gap 1.0e-02, estimated unknown (goal 1e-03), <15:50 left",
        "C = 1: pass 6/100, gap 5.0e-04 (goal 1e-03), ~0:00 left",
    ]
    track = progress._Track(100, 1e-3)
    shares = [track.add(passed)[0] for passed in (proved, uncertified(2, 2.0, 0.01), info(3, 0.2))]
    assert shares == pytest.approx([0, 0, 1 / 3])


def test_tqdm_bar_fills_with_the_logarithm_of_the_gap(clock):
    stream = io.StringIO()
    run(stream, [2.0, 0.2, 0.4, 0.002], enabled=True)
    text = stream.getvalue()
    assert text.count("C = 1") >= 5 and "\r" in text
    for share, words in [
        ("0%", "pass 1/100, gap 1.0e+00 (goal 1e-03), <16:30 left"),
        ("33%", "pass 2/100, gap 1.0e-01 (goal 1e-03), <16:20 left"),
        ("33%", "pass 3/100, gap 2.0e-01 (goal 1e-03)"),
        ("100%", "pass 4/100, gap 1.0e-03 (goal 1e-03), ~0:00 left"),
    ]:
        (line,) = {part.strip() for part in text.split("\r") if words in part}
        assert f" {share} |" in line
    assert re.search(r"\|[█#]{20}\|", text.split("\r")[-1])


def test_without_a_tolerance_the_passes_count(no_tqdm, clock):
    stream = io.StringIO()
    run(stream, [2.0, 1.0], enabled=True, tolerance=None)
    assert stream.getvalue().splitlines()[1] == "C = 1: pass 2/100, gap 5.0e-01, ~16:20 left"
    track = progress._Track(100, None)
    assert track.add(info(25, 1.0))[0] == 0.25
    assert progress._Track(None, None).add(info(25, 1.0))[1].endswith("time left unknown")


@pytest.mark.parametrize(
    "stream, enabled, speaks",
    [
        (io.StringIO(), None, False),
        (io.StringIO(), True, True),
        (Terminal(), None, True),
        (Terminal(), False, False),
    ],
)
def test_quiet_unless_a_terminal_or_forced(stream, enabled, speaks):
    run(stream, [1.0], enabled=enabled)
    assert bool(stream.getvalue()) == speaks


def test_standard_error_is_the_default(capsys, no_tqdm):
    with training_progress(5, "x", enabled=True) as update:
        update(info(1, 1.0))
    assert capsys.readouterr().err.startswith("x: pass 1/5")


def test_the_bar_is_closed_when_training_fails(clock):
    stream = io.StringIO()
    with pytest.raises(KeyError), training_progress(5, "x", True, stream=stream) as update:
        update(info(1, 1.0))
        raise KeyError
    assert stream.getvalue().endswith("\n")


def test_an_optimum_of_zero_is_reached():
    share, words = progress._Track(10, 1e-3).add(info(1, 0.0, primal=0.0))
    assert share == 1.0 and "gap 0.0e+00" in words


def test_time_left_of_a_steady_fall_is_exact():
    seconds = np.arange(8) * 5.0
    assert seconds_left(seconds, 10.0 ** -(seconds / 20), 1e-4) == pytest.approx(45.0)
    late = np.where(seconds < 20, 1.0, np.exp(-(seconds - 20)))
    assert seconds_left(seconds, late, np.exp(-20.0)) == pytest.approx(5.0)


def test_time_left_looks_at_the_smallest_gap_and_passes_over_unknown_ones():
    steady = seconds_left([0, 1, 2, 3], [1.0, 0.5, 0.25, 0.125], 1e-3)
    assert seconds_left([-1, 0, 1, 2, 3], [math.inf, 1.0, 0.5, 0.25, 0.125], 1e-3) == steady
    assert seconds_left([0, 1, 2, 3], [1.0, 0.5, 0.25, 0.9], 1e-3) is not None
    assert steady == pytest.approx(math.log2(125))


@pytest.mark.parametrize("gaps", [[], [1.0, 0.5], [1.0, 1.0, 1.0], [math.nan] * 4])
def test_time_left_is_unknown_without_a_fall(gaps):
    assert seconds_left(range(len(gaps)), gaps, 1e-3) is None


def test_time_left_is_nothing_once_there():
    assert seconds_left([0.0], [1e-4], 1e-3) == 0.0


@pytest.mark.parametrize("options", [{"total": 0}, {"total": 5, "tolerance": 0.0}])
def test_the_door_names_the_argument(options):
    with pytest.raises(ValueError, match=f"{list(options)[-1]}: got 0"):
        training_progress(**options).__enter__()


def test_a_bar_of_jobs_is_shown_where_wanted(capsys):
    for enabled in (False, None):  # standard error is no terminal here
        with jobs_bar(range(3), "jobs", enabled) as bar:
            assert list(bar) == [0, 1, 2]
    assert not capsys.readouterr().err
    with jobs_bar(enabled=True, total=2) as bar:
        bar.update()
    assert "1/2" in capsys.readouterr().err
