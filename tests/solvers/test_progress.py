"""What a training says: its trace, lines or a bar, compiling apart; signals during a run."""

from __future__ import annotations

import csv
import io
import math
import os
import re
import signal
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from jaxstruct.core.compiling import Elapsed, program
from jaxstruct.multiclass.structure import multiclass
from jaxstruct.solvers.checkpoints.session import stop_signals
from jaxstruct.solvers.fit import fit, fit_path
from jaxstruct.solvers.loop import progress
from jaxstruct.solvers.loop.progress import NO_BAR, training_progress
from jaxstruct.solvers.loop.trace import MOST_PRINTED, Entry, trace_of
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


def shares(goal, *passed, most=100):
    """What a bar is filled to after each pass."""
    track, found = progress._Track(most, goal), []
    for each in passed:
        track.add(each)
        found.append(track.share())
    return found


def test_lines_say_passes_gap_and_time(clock):
    stream = io.StringIO()
    run(clock, stream, passes(math.inf, 2.0, 0.001))
    assert stream.getvalue().splitlines() == [
        "C = 1: pass 1/100, gap unknown (goal 1e-03), 0:10",
        "C = 1: pass 2/100, gap 1.0e+00 (goal 1e-03), 0:20",
        "C = 1: pass 3/100, gap 5.0e-04 (goal 1e-03), 0:30",
        "C = 1: ended after pass 3, gap 5.0e-04, 0:30 training",
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
    run(clock, stream, [proved, uncertified(2, 0.02, 0.4), uncertified(3, 0.02, math.inf)])
    assert stream.getvalue().splitlines()[1:3] == [
        "C = 1: pass 2/100, gap 1.0e-02, estimated 1.0e-01 (goal 1e-03), 0:20",
        "C = 1: pass 3/100, gap 1.0e-02, estimated unknown (goal 1e-03), 0:30",
    ]
    given = (proved, uncertified(2, 2.0, 0.01), info(3, 0.2))
    assert shares(1e-3, *given) == pytest.approx([0, 0, 1 / 3])


def test_the_bar_fills_with_the_logarithm_of_the_gap(clock):
    stream = Terminal()
    run(clock, stream, passes(2.0, 0.2, 0.4, 0.002), "bar")
    *text, last = (part.strip() for part in stream.getvalue().split("\r") if part.strip())
    for share, words in (("33%", "pass 3/100, gap 2.0e-01 (goal"), ("100%", "pass 4/100, gap")):
        assert any(f" {share} |" in line and words in line for line in text)
    assert re.search(r"\|[█#]{20}\|.* ended after pass 4, gap 1.0e-03, 0:40 training", last)
    stream = Terminal()
    with pytest.raises(KeyError), training_progress(5, "x", "bar", stream=stream) as update:
        update(info(1, 1.0))
        raise KeyError
    assert stream.getvalue().endswith("\n"), "closed"


def test_without_a_tolerance_the_passes_count(clock):
    stream = io.StringIO()
    run(clock, stream, passes(2.0, 1.0), tolerance=None)
    assert stream.getvalue().splitlines()[1] == "C = 1: pass 2/100, gap 5.0e-01, 0:20"
    assert shares(None, info(25, 1.0)) == [0.25]
    assert shares(None, info(25, 1.0), most=None) == [0.0]
    assert shares(1e-3, info(1, 0.0, primal=0.0)) == [1.0], "an optimum of 0"


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


random = np.random.default_rng(0)
X, Y = random.normal(size=(19, 3)), random.integers(0, 5, 19).astype(np.int32)
PROBLEM, SHORT = multiclass(3, 5), {"settings": Settings(cached_sweeps=1), "max_passes": 4}


def test_fit_reports_what_it_compiles_and_how_it_ends(capsys):
    fit(PROBLEM, X, Y, C=2.0, **SHORT)
    assert capsys.readouterr() == ("", "")
    seen = []
    solution = fit(PROBLEM, X, Y, "svm1", C=2.0, verbose=True, callback=seen.append, **SHORT)
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert not out and all(line.startswith("svm1, C = 2: ") for line in lines)
    assert any("compiling" in line for line in lines) == (solution.statistics.compilations > 0)
    assert f"ended after pass {solution.statistics.passes}, gap" in lines[-1]
    assert len(seen) == solution.statistics.passes
    list(fit_path(PROBLEM, X, Y, "svm1", [2.0, 4.0], verbose="bar", **SHORT))
    assert capsys.readouterr().err.count("ended after pass") == 2
    for wrong in (1, "tqdm"):
        message = f'verbose must be False, True .* or "bar", got {wrong!r}'
        refused(message, fit, PROBLEM, X, Y, verbose=wrong, **SHORT)


COLUMNS = [
    "round", "seconds", "processor_seconds", "compile_seconds", "oracle_calls", "planes",
    "primal", "dual", "gap", "round_primal", "round_dual",
    "certified",
]  # fmt: skip


def course(rounds, compiled=2.0):
    """Rounds of a second each after some of compiling."""
    return trace_of(
        [
            Entry(compiled + t, 2.0 * t, compiled, 9 - t, t, 2, 5, 9 - t, t, t > 0)
            for t in range(rounds)
        ]
    )


def test_the_table_has_sums_and_the_gap():
    table = course(3).table()
    assert list(table) == COLUMNS
    for name, wanted in {
        "round": [1, 2, 3], "oracle_calls": [5, 10, 15], "planes": [2, 4, 6], "gap": [9, 7, 5],
        "certified": [0, 1, 1],
    }.items():  # fmt: skip
        np.testing.assert_array_equal(table[name], wanted)
    np.testing.assert_array_equal(course(3).training_seconds, [0, 1, 2])


def test_all_clocks_go_on_from_the_run_before():
    both = trace_of([Entry(1.0, 1.5, 0.5, 3, 2, 1, 1, 3, 2, True)], before=course(3))
    assert (both.seconds[-1], both.processor_seconds[-1], both.compile_seconds[-1]) == (5, 5.5, 2.5)
    np.testing.assert_array_equal(both.training_seconds, [0, 1, 2, 2.5])


def test_the_file_has_every_number_unrounded(tmp_path):
    assert len(str(course(2 * MOST_PRINTED)).splitlines()) == MOST_PRINTED + 2
    first = Entry(0.1, 1 / 3, 0.0, math.inf, -math.inf, 7, 9, 1e-300, -0.0, True)
    trace = trace_of([first, *(Entry(*row) for row in zip(*course(2), strict=True))])
    assert trace.to_csv(tmp_path / "deep" / "trace.csv") == tmp_path / "deep" / "trace.csv"
    with open(tmp_path / "deep" / "trace.csv", encoding="utf-8", newline="") as file:
        names, *rows = csv.reader(file)
    assert names == COLUMNS and len(rows) == 3
    np.testing.assert_array_equal(
        np.array(rows, float).T, np.array(list(trace.table().values()), float)
    )


def test_compiling_stands_apart_in_the_seconds_of_a_run():
    """Of two equal runs only the first compiles, and its parts are not longer for it."""
    found = [fit(PROBLEM, X, Y, "svm1", 2.0, **SHORT) for _ in range(2)]
    for solution in found:
        seconds, trace = solution.statistics.seconds, solution.trace
        parts = [value for name, value in seconds.items() if name != "total"]
        assert seconds["total"] >= sum(parts) * 0.999 and min(parts) >= 0
        assert seconds["compile"] >= trace.compile_seconds[-1] >= 0
        assert (trace.training_seconds > 0).all() and (np.diff(trace.training_seconds) > 0).all()
        assert len(trace.seconds) == solution.statistics.passes
        assert trace.processor_seconds[-1] > 0
    first, again = (solution.statistics for solution in found)
    assert again.compilations == 0 and again.seconds["compile"] < 0.2 * again.seconds["total"]
    if first.compilations:  # else a test before has compiled the same programs
        assert first.seconds["compile"] > again.seconds["compile"]


SIGNALS = (signal.SIGINT, signal.SIGTERM)


@pytest.fixture(autouse=True)
def as_usual():
    """Python's own handlers, whatever the tests run in has."""
    before = [signal.getsignal(number) for number in SIGNALS]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    for number, handler in zip(SIGNALS, before, strict=True):
        signal.signal(number, handler)


def handlers():
    return [signal.getsignal(number) for number in SIGNALS]


@pytest.mark.parametrize(
    "number, error", [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)]
)
def test_a_signal_raises_and_is_noted(number, error):
    before = handlers()
    with stop_signals() as signals:
        assert all(now != then for now, then in zip(handlers(), before, strict=True))
        signals.raise_noted()
        with pytest.raises(error):
            os.kill(os.getpid(), number)
        with pytest.raises(error):  # as if the first had been lost
            signals.raise_noted()
    assert handlers() == before


def test_an_error_that_a_signal_was_made_into_is_the_signal():
    with stop_signals() as signals:
        error = ValueError("metadata fields of pytree")
        assert signals.meant(error) is error
        with pytest.raises(SystemExit) as raised:
            os.kill(os.getpid(), signal.SIGTERM)
        assert signals.meant(error) is signals.noted is raised.value
        assert signals.meant(raised.value) is raised.value
        other = KeyboardInterrupt()
        assert signals.meant(other) is other
    with stop_signals(patient=True) as signals:  # all processes raise their own errors together
        os.kill(os.getpid(), signal.SIGTERM)
        assert signals.meant(error) is error


def test_a_second_ctrl_c_raises_and_a_second_sigterm_does_not():
    with stop_signals():
        with pytest.raises(SystemExit) as ended:
            os.kill(os.getpid(), signal.SIGTERM)
        assert ended.value.code == 143
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)


def test_handlers_of_others_stay():
    """Those of before, also after an error, and one that was set meanwhile."""

    def mine(number, frame):
        raise ZeroDivisionError

    before = handlers()
    with pytest.raises(ZeroDivisionError), stop_signals():
        raise ZeroDivisionError
    assert handlers() == before
    signal.signal(signal.SIGINT, mine)
    with stop_signals() as signals:
        assert handlers()[0] is mine
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        with pytest.raises(ZeroDivisionError):
            os.kill(os.getpid(), signal.SIGINT)
        signals.raise_noted()
    assert handlers() == [mine, signal.SIG_IGN]


def test_other_threads_touch_no_signals():
    before, seen = handlers(), []

    def work():
        with stop_signals() as signals:
            seen.append(handlers())
            signals.raise_noted()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]
