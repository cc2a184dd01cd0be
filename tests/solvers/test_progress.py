"""What a training says: lines or a bar, compiling apart."""

from __future__ import annotations

import io
import math
import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from jaxstruct.core.compiling import Elapsed, program
from jaxstruct.multiclass.structure import multiclass
from jaxstruct.solvers.fit import fit, fit_path
from jaxstruct.solvers.loop import progress
from jaxstruct.solvers.loop.progress import NO_BAR, training_progress
from jaxstruct.solvers.settings import Settings
from tests.lib.refusals import refused


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
    """A clock that a test moves, and the seconds of compiling within it."""
    clock = SimpleNamespace(wall=0.0, compiling=0.0)
    monkeypatch.setattr(progress, "monotonic", lambda: clock.wall)
    compiling = SimpleNamespace(read=lambda: Elapsed(clock.compiling, 0.0))
    monkeypatch.setattr(progress, "compile_clock", lambda: compiling)
    return clock


@pytest.fixture
def no_tqdm(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)


def run(clock, stream, passed, verbose=True, every=10.0, **options):
    """Passes that end so many seconds after one another."""
    with training_progress(100, "C = 1", verbose, stream=stream, **options) as update:
        for each in passed:
            clock.wall += every
            assert update(each) is None


def passes(*gaps):
    return [info(i + 1, gap) for i, gap in enumerate(gaps)]


def share(track, passed):
    """What a bar is filled to after one more pass."""
    track.add(passed)
    return track.share()


def test_lines_say_passes_gap_and_time(clock):
    stream = io.StringIO()
    run(clock, stream, passes(math.inf, 2.0, 0.2, 0.02, 0.001))
    assert stream.getvalue().splitlines() == [
        "C = 1: pass 1/100, gap unknown (goal 1e-03), 0:10",
        "C = 1: pass 2/100, gap 1.0e+00 (goal 1e-03), 0:20",
        "C = 1: pass 3/100, gap 1.0e-01 (goal 1e-03), 0:30",
        "C = 1: pass 4/100, gap 1.0e-02 (goal 1e-03), 0:40",
        "C = 1: pass 5/100, gap 5.0e-04 (goal 1e-03), 0:50",
        "C = 1: ended after pass 5, gap 5.0e-04, 0:50 training",
    ]


def test_compiling_is_counted_apart(clock):
    """A minute of compiling before the first pass is said at the end alone."""
    stream, quiet = io.StringIO(), io.StringIO()
    run(clock, quiet, passes(2.0, 0.2, 0.02), every=1.0)
    clock.wall = 0.0
    with training_progress(100, "C = 1", stream=stream) as update:
        clock.wall, clock.compiling = clock.wall + 60, 60.0
        for each in passes(2.0, 0.2, 0.02):
            clock.wall += 1.0
            update(each)
    assert progress._clock(60) == "1:00"
    (first, last), (_, plain) = stream.getvalue().splitlines(), quiet.getvalue().splitlines()
    assert first.endswith(", 0:01")
    assert last == f"{plain} and 1:00 compiling" and "0:03 training" in last


def test_lines_come_now_and_then(clock):
    stream = io.StringIO()
    run(clock, stream, passes(*[1.0] * 3000), every=0.1)
    lines = stream.getvalue().splitlines()
    assert 25 < len(lines) < 35 and "pass 1/" in lines[0] and "after pass 3000" in lines[-1]
    few = io.StringIO()
    run(clock, few, passes(1.0, 0.1, 1e-4), every=0.1)
    assert len(few.getvalue().splitlines()) == 2  # the first and the end


def test_a_program_is_named_while_it_is_compiled(clock):
    def doubled_twice(x):
        return 4 * x

    of, stream = program(doubled_twice), io.StringIO()
    with training_progress(100, "C = 1", stream=stream) as update:
        of(np.ones(3))
        of(np.ones(3))
        update(info(1, 1.0))
        of(np.ones(4))
    of(np.ones(5))
    words = [line.removeprefix("C = 1: ") for line in stream.getvalue().splitlines()]
    assert words[0] == words[2] == "compiling doubled twice" and len(words) == 4


def test_a_pass_without_a_certificate_gives_its_estimate_and_moves_nothing(clock):
    stream = io.StringIO()
    proved = info(1, 2.0, certificate=object(), estimate=SimpleNamespace(gap=9.0))
    run(clock, stream, [
        proved, info(2, 0.2), info(3, 0.02), uncertified(4, 0.02, 0.4),
        uncertified(5, 0.02, math.inf), info(6, 0.001),
    ])  # fmt: skip
    assert stream.getvalue().splitlines()[2:6] == [
        "C = 1: pass 3/100, gap 1.0e-02 (goal 1e-03), 0:30",
        "C = 1: pass 4/100, gap 1.0e-02, estimated 1.0e-01 (goal 1e-03), 0:40",
        "C = 1: pass 5/100, gap 1.0e-02, estimated unknown (goal 1e-03), 0:50",
        "C = 1: pass 6/100, gap 5.0e-04 (goal 1e-03), 1:00",
    ]
    track = progress._Track(100, 1e-3)
    shares = [share(track, each) for each in (proved, uncertified(2, 2.0, 0.01), info(3, 0.2))]
    assert shares == pytest.approx([0, 0, 1 / 3])


def test_the_bar_fills_with_the_logarithm_of_the_gap(clock):
    stream = Terminal()
    run(clock, stream, passes(2.0, 0.2, 0.4, 0.002), "bar")
    text = stream.getvalue()
    assert text.count("C = 1") >= 5 and "\r" in text
    for share, words in [
        ("0%", "? left, pass 1/100, gap 1.0e+00 (goal 1e-03), 0:10"),
        ("33%", "pass 2/100, gap 1.0e-01 (goal 1e-03)"),
        ("33%", "pass 3/100, gap 2.0e-01 (goal 1e-03)"),
        ("100%", "pass 4/100, gap 1.0e-03 (goal 1e-03), 0:40"),
        ("100%", "ended after pass 4, gap 1.0e-03, 0:40 training"),
    ]:
        (line,) = {part.strip() for part in text.split("\r") if words in part}
        assert f" {share} |" in line
    assert re.search(r"\|[█#]{20}\|", text.split("\r")[-1])


def test_without_a_tolerance_the_passes_count(clock):
    stream = io.StringIO()
    run(clock, stream, passes(2.0, 1.0), tolerance=None)
    assert stream.getvalue().splitlines()[1] == "C = 1: pass 2/100, gap 5.0e-01, 0:20"
    track = progress._Track(100, None)
    assert share(track, info(25, 1.0)) == 0.25
    endless = progress._Track(None, None)
    assert share(endless, info(25, 1.0)) == 0.0 and endless.words().startswith("pass 25, ")


def test_without_a_terminal_or_tqdm_a_bar_is_lines(clock, no_tqdm):
    log, terminal = io.StringIO(), Terminal()
    for stream in (log, terminal):
        run(clock, stream, passes(2.0, 0.001), "bar")
        assert "\r" not in stream.getvalue()
    assert log.getvalue().splitlines()[0].startswith("C = 1: pass 1/100")
    assert terminal.getvalue().splitlines()[0] == f"C = 1: {NO_BAR}"


def test_nothing_is_said_where_nothing_is_wanted(capsys):
    with training_progress(5, "x", False) as update:
        update(info(1, 1.0))
    assert capsys.readouterr() == ("", "")
    with training_progress(5, "x") as update:  # standard error is the default
        update(info(1, 1.0))
    assert capsys.readouterr().err.startswith("x: pass 1/5")


def test_the_bar_is_closed_when_training_fails(clock):
    stream = Terminal()
    with pytest.raises(KeyError), training_progress(5, "x", "bar", stream=stream) as update:
        update(info(1, 1.0))
        raise KeyError
    assert stream.getvalue().endswith("\n")


def test_an_optimum_of_zero_is_reached():
    track = progress._Track(10, 1e-3)
    assert share(track, info(1, 0.0, primal=0.0)) == 1.0 and "gap 0.0e+00" in track.words()


def test_fit_reports_what_it_compiles_and_how_it_ends(capsys):
    random = np.random.default_rng(0)
    X, y = random.normal(size=(19, 3)), random.integers(0, 5, 19).astype(np.int32)
    problem, settings = multiclass(3, 5), Settings(cached_sweeps=1)
    options = {"settings": settings, "max_passes": 4}
    fit(problem, X, y, C=2.0, **options)
    assert capsys.readouterr() == ("", "")
    seen = []
    solution = fit(problem, X, y, "svm1", C=2.0, verbose=True, callback=seen.append, **options)
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert not out and all(line.startswith("svm1, C = 2: ") for line in lines)
    assert any("compiling" in line for line in lines) == (solution.statistics.compilations > 0)
    assert f"ended after pass {solution.statistics.passes}, gap" in lines[-1]
    assert len(seen) == solution.statistics.passes
    list(fit_path(problem, X, y, "svm1", [2.0, 4.0], verbose="bar", **options))
    assert capsys.readouterr().err.count("ended after pass") == 2
    for wrong in (1, "tqdm"):
        message = f'verbose must be False, True .* or "bar", got {wrong!r}'
        refused(message, fit, problem, X, y, verbose=wrong, **options)
