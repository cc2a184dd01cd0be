"""The table and the pictures of `named_entities_speed`, and the run of both contenders."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from experiments import common
from experiments.named_entities_speed import (
    CONTENDERS,
    LEVELS,
    TESTS,
    contenders,
    result_name,
    run_apart,
)
from experiments.plots import Plot, bar_groups, gap_curve
from experiments.report import Table

Row = Mapping[str, Any]


def run_speed(options: NamedTuple) -> common.Outcome:
    """Run the contenders in processes of their own, print the table and write it.

    Compiled programs are not kept on disk, since compiling is one of the things measured.

    Raises:
      CorpusMissing: the corpus is not on this machine; the message says how to get it.
      subprocess.CalledProcessError: a contender failed; its messages are on standard error.
    """
    options = options._replace(compilation_cache=False)
    found = contenders()
    rows = [row for contender in found for row in run_apart(options, contender)]
    name = result_name(options)
    plots = {name: _convergence_plot(options, rows), f"{name}_f1": _entity_plot(rows)}
    numbers = {"rows": rows, "left_out": [each for each in CONTENDERS if each not in found]}
    table = _table(options, rows, found)
    return common.save("named_entities", options, name, table, numbers, plots)


def _table(options: NamedTuple, rows: Sequence[Row], found: Sequence[str]) -> Table:
    columns = [
        "machine", ("seconds of training", "wall"), ("seconds of training", "processor"),
        ("seconds of training", "compiling"),
        *((f"gap {level:g}", what) for level in LEVELS for what in ("seconds", "calls")),
        *((f"P to {level:g}", "seconds") for level in LEVELS),
        ("in all", "calls"), ("in all", "programs"), ("memory, MB", "before"),
        ("memory, MB", "peak"),
        *((part, what) for part in TESTS for what in ("F1 %", "error %")),
    ]  # fmt: skip
    return Table(
        f"Spanish news, {rows[0]['sentences']} sentences: training beside CRFsuite", columns,
        [_cells(row) for row in rows], _notes(options, rows, found),
    )  # fmt: skip


def _cells(row: Row) -> list[Any]:
    reached = row.get("reached", {})
    levels = [reached.get(f"{level:g}", {}) for level in LEVELS]
    gaps = [level.get("gap") or {} for level in levels]
    primals = [level.get("primal") or {} for level in levels]
    tests = [row.get(part, {}) for part in TESTS]
    compiling = row.get("compile_seconds")
    return [
        row["name"], f"{row['wall_seconds']:.2f}", f"{row['process_seconds']:.2f}",
        None if compiling is None else f"{compiling:.1f}",
        *(cell for gap in gaps for cell in (_rounded(gap.get("wall")), gap.get("oracle_calls"))),
        *(_rounded(primal.get("wall")) for primal in primals),
        row.get("oracle_calls"), row.get("compilations"),
        f"{row['memory_before'] / 1e6:.0f}", f"{row['peak_memory'] / 1e6:.0f}",
        *(_rounded(test.get(what)) for test in tests for what in ("f1", "token_error")),
    ]  # fmt: skip


def _rounded(value: float | None) -> str | None:
    return None if value is None else f"{value:.2f}"


def _notes(options: NamedTuple, rows: Sequence[Row], found: Sequence[str]) -> list[str]:
    ours = [row for row in rows if "reached" in row]
    last = ours[-1]
    notes = [
        f"{last['sentences']} sentences, {last['tokens']} tokens, {last['features']} binary "
        f"features (jaxstruct.data.token_features, the same for both); {options.formulation}, "
        f"Hamming loss, C' = C / n = {options.c_over_n:g}, relative gap {options.tolerance:g}, "
        f"{'float64' if options.x64 else 'float32'}: {last['status']}, P = {last['primal']:.4f}, "
        f"D = {last['dual']:.4f}.",
        "gap: when (P - D) / P was certified to be so small; P to: when P was that close to the "
        "last D, which shows in hindsight only. calls: decodings of single sentences by the "
        "oracle. compiling: tracing, lowering and compiling; nothing is kept on disk.",
        f"Preparing the features took {last['preparing_seconds']:.1f} s. Peak memory is that of "
        "the process so far, with the features; each contender has a process of its own.",
    ]
    if "crfsuite" in found:
        notes.append(
            f"CRFsuite minimises -log P + c2 |w|^2 by L-BFGS with its own stopping rule; its "
            f"preparation took {rows[-1]['preparing_seconds']:.1f} s. Another objective: compare "
            "time, memory and F1."
        )
    else:
        notes.append(
            "CRFsuite is left out, since python-crfsuite is not installed: pip install "
            "'jaxstruct[compare]'."
        )
    return notes


def _convergence_plot(options: NamedTuple, rows: Sequence[Row]) -> Plot:
    curves = {}
    for row in rows:
        if "points" in row:
            seconds = [point["wall"] for point in row["points"]]
            gaps = [_gap(point) for point in row["points"]]
            curves[row["name"]] = (seconds, gaps)
    title = f"Spanish news, {rows[0]['sentences']} sentences: certified gap"
    return gap_curve(curves, title, "seconds", tolerance=options.tolerance)


def _gap(point: Mapping[str, float | None]) -> float:
    """(P - D) / P; nan while one of them is infinite, which JSON has as null."""
    primal, dual = point["primal"], point["dual"]
    return math.nan if primal is None or dual is None else (primal - dual) / abs(primal)


def _entity_plot(rows: Sequence[Row]) -> Plot:
    tested = [row for row in rows if TESTS[0] in row]
    series = {row["name"]: [round(row[part]["f1"], 2) for part in TESTS] for row in tested}
    title = f"Spanish news: entities after training on {rows[0]['sentences']} sentences"
    return bar_groups(TESTS, series, title=title, ylabel="F1, %")
