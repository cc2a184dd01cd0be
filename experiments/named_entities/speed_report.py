"""The table and the pictures of `speed`, and the run of both contenders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.lib import common
from experiments.lib.apart import run_apart
from experiments.lib.plots import TRAINING_SECONDS, Plot, bar_groups, curve_lines
from experiments.lib.report import Table
from experiments.named_entities.options import CONTENDERS, Options
from experiments.named_entities.speed import LEVELS, TESTS, contenders, part_name, result_name

Row = Mapping[str, Any]


def run_speed(options: Options) -> common.Outcome:
    """Run the contenders in processes of their own, print the table and write it.

    Compiled programs are not kept on disk, since compiling is one of the things measured.

    Raises:
      CorpusMissing: the corpus is not on this machine; the message says how to get it.
      subprocess.CalledProcessError: a contender failed; its messages are on standard error.
    """
    options = options._replace(compilation_cache=False)
    found = contenders()
    rows: list[dict[str, Any]] = []
    name = result_name(options)
    with common.kept_if_stopped("named_entities", options, name, {"rows": rows}):
        for contender in found:
            own = options._replace(contender=contender)
            rows += run_apart("named_entities", own, part_name(own))
    plots = {name: _convergence_plot(options, rows), f"{name}_f1": _entity_plot(rows)}
    numbers = {"rows": rows, "left_out": [each for each in CONTENDERS if each not in found]}
    table = _table(options, rows, found)
    return common.save("named_entities", options, name, table, numbers, plots)


def _table(options: Options, rows: Sequence[Row], found: Sequence[str]) -> Table:
    columns = [
        "machine", "compiling, s", ("training, s", "wall"), ("training, s", "processor"),
        *((f"to gap {level:g}", what) for level in LEVELS for what in ("s", "calls")),
        "peak MB", *((part, what) for part in TESTS for what in ("F1 %", "token error %")),
    ]  # fmt: skip
    title = f"Spanish news, {rows[0]['sentences']} sentences: training beside CRFsuite"
    body = [_cells(row, rows[0]) for row in rows if TESTS[0] in row]
    return Table(title, columns, body, _notes(options, rows, found))


def _cells(row: Row, first: Row) -> list[Any]:
    """One contender: the last of its trainings, and how long the first one compiled."""
    ours = "reached" in row
    gaps = [row.get("reached", {}).get(f"{level:g}", {}).get("gap") or {} for level in LEVELS]
    return [
        row["name"].split(", run")[0].split(", first")[0],
        f"{first['compile_seconds']:.1f}" if ours else None,
        f"{row['wall_seconds']:.2f}", f"{row['process_seconds']:.2f}",
        *(cell for gap in gaps for cell in (_round(gap.get("wall")), gap.get("oracle_calls"))),
        f"{row['peak_memory'] / 1e6:.0f}",
        *(_round(row[part][what]) for part in TESTS for what in ("f1", "token_error")),
    ]  # fmt: skip


def _round(value: float | None) -> str | None:
    return None if value is None else f"{value:.2f}"


def _notes(options: Options, rows: Sequence[Row], found: Sequence[str]) -> list[str]:
    ours = [row for row in rows if "reached" in row]
    last = ours[-1]
    notes = [
        f"{last['sentences']} sentences, {last['tokens']} tokens, {last['features']} binary "
        f"features (jaxstruct.data.token_features, the same for both); {options.formulation}, "
        f"Hamming loss, C' = C / n = {options.c_over_n:g}, relative gap {options.tolerance:g}, "
        f"{'float64' if options.x64 else 'float32'}: {last['status']}, P = {last['primal']:.4f}, "
        f"D = {last['dual']:.4f}.",
        f"training: {_training_told(ours)}. to gap: when (P - D) / P was certified to be so small, "
        "0.01 in a training of its own; "
        "calls: decodings of single sentences by the oracle until then. compiling: tracing, "
        "lowering and compiling of the first training; nothing is kept on disk.",
        f"Preparing the features took {last['preparing_seconds']:.1f} s. Peak memory is that of "
        "the process, with the features and what compiling took; each contender has its own. The "
        "JSON file has every training, its rounds, and when P was close to the optimum.",
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


def _training_told(ours: Sequence[Row]) -> str:
    if len(ours) == 1:
        return "one, with its compiling in it"
    return f"training {len(ours)} of {len(ours)} in one process, which compiles nothing"


def _convergence_plot(options: Options, rows: Sequence[Row]) -> Plot:
    curves = {}
    for row in rows:
        if "points" in row:
            seconds = [point["wall"] - point["compiling"] for point in row["points"]]
            gaps = [point["estimated"] for point in row["points"]]
            curves[row["name"]] = (seconds, gaps)
    title = f"Spanish news, {rows[0]['sentences']} sentences: gap, estimated between certificates"
    return curve_lines(curves, title, TRAINING_SECONDS, tolerance=options.tolerance)


def _entity_plot(rows: Sequence[Row]) -> Plot:
    tested = [row for row in rows if TESTS[0] in row]
    series = {row["name"]: [round(row[part]["f1"], 2) for part in TESTS] for row in tested}
    title = f"Spanish news: entities after training on {rows[0]['sentences']} sentences"
    return bar_groups(TESTS, series, title=title, ylabel="F1, %")
