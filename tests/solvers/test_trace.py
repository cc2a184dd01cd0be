"""The trace of a run as a table: its columns, its file, its text, and what is compiling."""

from __future__ import annotations

import csv
import math

import numpy as np

from jaxstruct.multiclass.structure import multiclass
from jaxstruct.solvers.fit import fit
from jaxstruct.solvers.loop.trace import MOST_PRINTED, Entry, trace_of
from jaxstruct.solvers.settings import Settings

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
    first = Entry(0.1, 1 / 3, 0.0, math.inf, -math.inf, 7, 9, 1e-300, -0.0, True)
    trace = trace_of([first, *(Entry(*row) for row in zip(*course(2), strict=True))])
    assert trace.to_csv(tmp_path / "deep" / "trace.csv") == tmp_path / "deep" / "trace.csv"
    with open(tmp_path / "deep" / "trace.csv", encoding="utf-8", newline="") as file:
        names, *rows = csv.reader(file)
    assert names == COLUMNS and len(rows) == 3
    np.testing.assert_array_equal(
        np.array(rows, float).T, np.array(list(trace.table().values()), float)
    )


def test_a_trace_prints_as_a_table_that_fits():
    lines = str(course(3)).splitlines()
    assert len(lines) == 4 and lines[0].split()[0] == "round" and lines[-1].split()[0] == "3"
    assert len({len(line) for line in lines}) == 1
    long = trace_of([Entry(1e5, 1e5, 1e5, -1.23456e-5, -1e9, 1, 10**8, 0, 0, True)] * 999)
    lines = str(long).splitlines()
    assert len(lines) == MOST_PRINTED + 2 and max(map(len, lines)) <= 100
    assert lines[-1].split()[0] == "999" and set(lines[MOST_PRINTED // 2 + 1].split()) == {"..."}
    assert str(trace_of([])).split() == COLUMNS[:-3]


def test_compiling_stands_apart_in_the_seconds_of_a_run():
    """Of two equal runs only the first compiles, and its parts are not longer for it."""
    random = np.random.default_rng(0)
    X, y = random.normal(size=(19, 3)), random.integers(0, 5, 19).astype(np.int32)
    options = {"settings": Settings(cached_sweeps=1)}
    problem = multiclass(3, 5)
    found = [fit(problem, X, y, "svm1", 2.0, max_passes=4, **options) for _ in range(2)]
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
