"""Handwritten words: processor seconds and oracle calls to a primal suboptimality.

    taskset -c 0 python -m experiments.handwriting_speed

svm1_margin with the Hamming loss, C' = 0.1, fold 1 (704 words): the objective of
`experiments.handwriting`, whose optimum J* is known. Suboptimality is P / J* - 1, of primals that
the run certified. The timed runs follow one that compiles, which has a row of its own.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from experiments.lib import common, fields
from experiments.lib.options import flag
from experiments.lib.record import peak_memory_bytes
from experiments.lib.report import Columns, Table, rows_table
from experiments.tasks.handwriting import KNOWN_OPTIMUM, Data, load, one_split
from experiments.tasks.letter_machines import chain_problem
from jaxstruct import fit, take
from jaxstruct.solvers.loop.host_loop import Progress

LEVELS = (1e-2, 1e-3)
MEASURES = ("seconds", "oracle_calls", "passes")
RATIO = 0.1


class Options(fields.Training):
    """The flags of this command."""

    repeats: int = flag(5, "Timed runs; the median is shown.", least=1)
    compilation_cache: bool = False


def run(options: Options, optimum: float = KNOWN_OPTIMUM) -> common.Outcome:
    """Time the training, print the table and write it.

    Args:
      options: the flags. optimum: J*, of the words that are timed.

    Raises:
      CorpusMissing: the corpus is not on this machine; the message says how to get it.
    """
    data = load(None, common.prepare(options))
    before = peak_memory_bytes()
    split = one_split(data.words, ("1",), 0)
    chosen = {name: take(getattr(data, name), split.train) for name in ("inputs", "outputs")}
    data = data._replace(**chosen)
    runs: list[dict[str, Any]] = []
    with common.kept_if_stopped(options, {"runs": runs}):
        for _ in range(options.repeats + 1):
            runs.append(_one_fit(options, data, optimum))
    first, *runs = runs
    middle = _median(runs)
    rows = [
        {"run": "with compiling"} | first,
        {"run": f"median of {len(runs)} after it"} | middle,
        {"run": "fastest of these"} | min(runs, key=lambda each: each["cpu"]),
    ]
    numbers = {
        "rows": rows, "runs": runs, "optimum": optimum, "memory_before": before,
        "peak_memory": peak_memory_bytes(), "compile_cpu_seconds": first["cpu"] - middle["cpu"],
    }  # fmt: skip
    table = _table(options, len(split.train), numbers)
    return common.save(options, table, numbers)


def _one_fit(options: Options, data: Data, optimum: float) -> dict[str, Any]:
    """What a run took until each level, the first level in a run that wants no more than that.

    A run certifies where it believes to be done, so a level below what it wants shows late.
    """
    whole = _fit(options, data, optimum, options.tolerance)
    coarse = _fit(options, data, optimum, max(LEVELS[0], options.tolerance))
    for measure in MEASURES:
        whole[measure] = whole[measure] | {LEVELS[0]: coarse[measure][LEVELS[0]]}
    return whole


def _fit(options: Options, data: Data, optimum: float, tolerance: float) -> dict[str, Any]:
    """Seconds, oracle calls and passes until each level, and what the whole run took."""
    reached: dict[str, dict[float, float]] = {
        measure: dict.fromkeys(LEVELS, float("nan")) for measure in MEASURES
    }
    calls = 0

    def look(progress: Progress) -> None:
        nonlocal calls
        calls += progress.info.oracle_calls
        now = (time.process_time() - start, calls, progress.passes)
        for level in LEVELS:
            if np.isnan(reached["seconds"][level]) and progress.primal <= optimum * (1 + level):
                for measure, value in zip(MEASURES, now, strict=True):
                    reached[measure][level] = value

    problem = chain_problem("hamming", data.dtype)
    start, wall = time.process_time(), time.perf_counter()
    solution = fit(
        problem, data.inputs, data.outputs, "svm1_margin", RATIO * len(data.outputs),
        tolerance=tolerance, settings=options.settings(), callback=look,
    )  # fmt: skip
    return reached | {
        "cpu": time.process_time() - start, "wall": time.perf_counter() - wall,
        "calls": calls, "status": solution.status, "primal": solution.primal,
        "dual": solution.dual, "compilations": solution.statistics.compilations,
        "parts": solution.statistics.seconds,
    }  # fmt: skip


def _median(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The median of what is timed; runs of one seed agree in the rest."""
    levels = {
        measure: {x: float(np.median([run[measure][x] for run in runs])) for x in LEVELS}
        for measure in MEASURES
    }
    whole = {name: float(np.median([run[name] for run in runs])) for name in ("cpu", "wall")}
    return runs[-1] | levels | whole


def _table(options: Options, words: int, numbers: dict[str, Any]) -> Table:
    columns: Columns = {
        "run": "run",
        ("processor seconds to", "1e-2"): lambda row: row["seconds"][LEVELS[0]],
        ("processor seconds to", "1e-3"): lambda row: row["seconds"][LEVELS[1]],
        ("oracle calls to", "1e-2"): lambda row: _count(row["oracle_calls"][LEVELS[0]]),
        ("oracle calls to", "1e-3"): lambda row: _count(row["oracle_calls"][LEVELS[1]]),
        ("whole run", "processor s"): "cpu", ("whole run", "wall s"): "wall",
        ("whole run", "oracle calls"): "calls", ("whole run", "status"): "status",
        ("whole run", "programs compiled"): "compilations",
    }  # fmt: skip
    before, peak = (numbers[name] / 2**20 for name in ("memory_before", "peak_memory"))
    notes = [
        f"svm1_margin, Hamming loss, C' = {RATIO}, {words} words, J* = {numbers['optimum']:.5f}; "
        f"levels of P / J* - 1 at the first certified pass, 1e-2 in a run to that tolerance; "
        f"tolerance of the whole run {options.tolerance:g}, "
        f"{'float64' if options.x64 else 'float32'}.",
        f"Compiling took {numbers['compile_cpu_seconds']:.1f} processor seconds. Peak memory of "
        f"the process {peak:.0f} MB, {before:.0f} MB of it before training.",
    ]
    title = "Handwritten words: time to primal suboptimality"
    return rows_table(title, columns, numbers["rows"], notes)


def _count(value: float) -> int | None:
    return None if np.isnan(value) else int(value)
