"""What a person waits for: first fits, warm fits, programs and memory, a row a task.

    taskset -c 0 python -m experiments.benchmarks
    taskset -c 0 python -m experiments.benchmarks --tasks=words,spanish
    taskset -c 0 python -m experiments.benchmarks --growth=1000,3000,10000
    taskset -c 0 python -m experiments.benchmarks --path=.02,.05,.1,.2,.3,.5,.7,1 --size=300
    taskset -c 0 python -m experiments.benchmarks --grid=.1,1,10
    python -m experiments.benchmarks --shards=1,2,4,8
    python -m experiments.benchmarks --shards=1,2,4,8 --tasks=digits,gum --tolerance=1e-6 --x64

svm1_margin (gum and homologues: SVM2) with the default settings, to a relative gap of 1e-3, in
processor seconds. Every row has processes of its own: one that compiles everything, one that finds
the compiled programs on disk, and one for the peer (LinearSVC on the Crammer-Singer objective, or
CRFsuite), so that memory is its own. Read ratios within one run; run it pinned to one core of a
machine with nothing else to do.

--growth measures how time grows with n instead, on generated texts and sentences or on the tasks
named: slopes of the logarithms. --path measures warm starts along values of C / n beside cold ones,
of the handwritten words or of the tasks named. --grid searches values of C / n on held-out texts,
from strings. --shards trains on a mesh of so many devices, of which the processor makes as many.
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from experiments.benchmarks.grids import grid_rows, grid_table
from experiments.benchmarks.paths import path_plot, path_rows, path_table
from experiments.lib import common, fields
from experiments.lib.apart import run_apart
from experiments.lib.options import flag
from experiments.lib.plots import Plot, bar_groups, curve_lines
from experiments.lib.record import peak_memory_bytes
from experiments.lib.report import Columns, Table, rows_table, write_results
from experiments.tasks.benchmarks import TASKS, Task, Training
from experiments.tasks.meshes import have_devices, mesh_plot, mesh_row, mesh_table
from jaxstruct import fit, keep_programs
from jaxstruct.core.compile_clock import compile_clock

PARTS = ("first", "cached", "peer")
SHARDED = ("digits", "words", "spanish")
GROWING = ("texts", "sentences")
USUAL = tuple(name for name in TASKS if name != "spanish_whole")


class Options(fields.Tolerance, fields.Common):
    """The flags of this command."""

    tasks: Sequence[str] = flag(USUAL, "Rows to measure.", list(TASKS), some=True)
    growth: Sequence[str] = flag(
        (),
        "Sizes n of generated texts and sentences, or of --tasks, in place of the rows.",
        each=int,
        least=1,
    )
    path: Sequence[str] = flag(
        (),
        "Values of C / n, rising: a path of warm starts in place of the rows.",
        each=float,
        above=0,
    )
    grid: Sequence[str] = flag(
        (),
        "Values of C / n: a grid search of 5 folds over generated texts of 20 classes, in "
        "place of the rows.",
        each=float,
        above=0,
    )
    shards: Sequence[str] = flag(
        (),
        "Numbers of devices of a mesh, in place of the rows: digits, words and sentences, or "
        "--tasks.",
        each=int,
        least=1,
    )
    part: str = flag(
        "all",
        "Measure this part of one task here and write its numbers, as 'all' does in processes "
        "of their own.",
        ["all", *PARTS, "shards"],
    )
    size: int = flag(
        0, "With --part, --path, --grid or --shards: n of the task; 0: as it is.", least=0
    )
    cache: str = flag("", "With --part: folder of the compiled programs.")
    compilation_cache: bool = False


def main(options: Options) -> int | None:
    """One part in this process, or all of them in processes of their own."""
    if options.part == "all":
        run(options)
    else:
        run_part(options)


def run(options: Options) -> common.Outcome:
    """Measure, print the table and write it.

    Raises:
      ValueError: an option does not fit.
      CorpusMissing: a corpus is not on this machine; the message says how to get it.
      subprocess.CalledProcessError: a part failed; its messages are on standard error.
    """
    common.prepare(options)
    if options.growth:
        return _grown(options)
    if options.path:
        return _followed(options)
    if options.grid:
        return _searched(options)
    if options.shards:
        return _sharded(options)
    rows: list[dict[str, Any]] = []
    with common.kept_if_stopped(options, {"rows": rows}):
        for name in options.tasks:
            rows.append(_measured(options, name, TASKS[name].size))
    table, plots = _table(options, rows), {"benchmarks": _plot(rows)}
    return common.save(options, table, {"rows": rows}, plots)


def _measured(options: Options, name: str, size: int) -> dict[str, Any]:
    """The numbers of one task: of the process that compiles, of the one after it, of the peer."""
    own = options.replace(
        tasks=(name,), size=size, growth=(), cache=f"{options.output}/benchmarks_programs"
    )
    shutil.rmtree(own.cache, ignore_errors=True)
    row: dict[str, Any] = {"task": name, "title": TASKS[name].title, "size": size}
    for part in PARTS:
        if part == "peer" and not TASKS[name].peer:
            continue
        (found,) = run_apart(own.replace(part=part), _part_name(name, part))
        row |= {f"{part}_{key}": value for key, value in found.items()}
    shutil.rmtree(own.cache, ignore_errors=True)
    return row


def _part_name(task: str, part: str) -> str:
    return f"benchmarks_{task}_{part}"


def run_part(options: Options) -> None:
    """Measure one part of one task in this process; its numbers go to a JSON file of their own."""
    if len(options.tasks) != 1:
        raise ValueError("part needs exactly one task, give --tasks=NAME")
    (name,) = options.tasks
    if options.part == "shards":
        have_devices(int(options.shards[0]))
    common.prepare(options)
    if options.cache:
        keep_programs(options.cache)
    task: Task = TASKS[name]
    training = task.prepare(options.size or task.size, "float64" if options.x64 else "float32")
    measure = {"peer": _peer, "shards": _on_a_mesh}.get(options.part, _fits)
    row = measure(training, options) | {"n": training.n, "peak_memory": peak_memory_bytes()}
    write_results(options.output, _part_name(name, options.part), {"rows": [row]})


def _fits(training: Training, options: Options) -> dict[str, Any]:
    """The first fit of this process, and the same once more."""
    jax.block_until_ready(jax.numpy.zeros(1))  # the backend's own start is no part of a fit
    clock, before, memory = compile_clock(), compile_clock().read(), peak_memory_bytes()
    start, wall = time.process_time(), time.perf_counter()
    solution = _fit(training, options)
    first = time.process_time() - start
    numbers = {
        "seconds": first, "wall": time.perf_counter() - wall,
        "compiling": clock.read().process - before.process, "memory_before": memory,
        "programs": solution.statistics.compilations, "status": solution.status,
        "primal": solution.primal, "dual": solution.dual, "passes": solution.statistics.passes,
        "oracle_calls": solution.statistics.oracle_calls,
        "capacity": solution.statistics.capacity,
    }  # fmt: skip
    start = time.process_time()
    again = _fit(training, options)
    return numbers | {
        "again": time.process_time() - start,
        "again_programs": again.statistics.compilations,
    }


def _fit(training: Training, options: Options) -> Any:
    solution = fit(
        training.problem, training.inputs, training.outputs, training.formulation, training.C,
        tolerance=options.tolerance,
    )  # fmt: skip
    jax.block_until_ready(solution.weights)
    return solution


def _peer(training: Training, options: Options) -> dict[str, Any]:
    """The peer's training; nan where it is not installed."""
    if training.peer is None:
        return {"seconds": math.nan}
    start = time.process_time()
    training.peer()
    return {"seconds": time.process_time() - start}


def _on_a_mesh(training: Training, options: Options) -> dict[str, Any]:
    return mesh_row(training, int(options.shards[0]), options.tolerance)


def _sharded(options: Options) -> common.Outcome:
    """Each task on each number of devices, in a process of its own."""
    names = SHARDED if tuple(options.tasks) == USUAL else options.tasks
    rows: list[dict[str, Any]] = []
    with common.kept_if_stopped(options, {"rows": rows}, name="benchmarks_shards"):
        for name in names:
            for count in options.shards:
                own = options.replace(tasks=(name,), shards=(count,), part="shards")
                (found,) = run_apart(own, _part_name(name, "shards"))
                rows.append(found | {"task": name})
    table, plots = mesh_table(rows, options.tolerance), {"benchmarks_shards": mesh_plot(rows)}
    return common.save(options, table, {"rows": rows}, plots, name="benchmarks_shards")


def _table(options: Options, rows: Sequence[dict[str, Any]]) -> Table:
    columns: Columns = {
        "task": "title", "n": "first_n", ("first fit, s", "whole"): "first_seconds",
        ("first fit, s", "compiling"): "first_compiling",
        ("first fit, s", "programs on disk"): "cached_seconds", "again, s": "first_again",
        "programs": "first_programs", "peak MB": lambda row: row["first_peak_memory"] / 2**20,
        "rounds": "first_passes", "oracle calls": "first_oracle_calls",
        "status": lambda row: str(row["first_status"]),
        ("peer", "name"): lambda row: TASKS[row["task"]].peer or None,
        ("peer", "s"): lambda row: row.get("peer_seconds"),
        ("peer", "peak MB"): lambda row: (
            row["peer_peak_memory"] / 2**20 if "peer_peak_memory" in row else None
        ),
    }  # fmt: skip
    notes = [
        f"svm1_margin to a relative gap of {options.tolerance:g}, default settings, processor "
        "seconds, without imports and reading.",
        "again: the same fit once more in the same process. Peers minimise other objectives "
        "(CRFsuite) or stop by other rules, so compare orders of magnitude.",
    ]
    return rows_table("What a person waits for", columns, rows, notes)


def _plot(rows: Sequence[dict[str, Any]]) -> Plot:
    series = {
        "peer": [row.get("peer_seconds") or math.nan for row in rows],
        "first fit": [row["first_seconds"] for row in rows],
        "first fit, programs on disk": [row["cached_seconds"] for row in rows],
        "again": [row["first_again"] for row in rows],
    }
    title = "First and later fits, beside LinearSVC and CRFsuite"
    return bar_groups([row["task"] for row in rows], series, title=title, ylabel="processor s")


def _followed(options: Options) -> common.Outcome:
    """A path of C for each task; of the words alone where none is named."""
    names = ("words",) if tuple(options.tasks) == USUAL else options.tasks
    values = sorted(float(value) for value in options.path)
    rows: list[dict[str, Any]] = []
    with common.kept_if_stopped(options, {"rows": rows}, name="benchmarks_path"):
        for name in names:
            rows.extend(path_rows(name, options.size, values, options.tolerance))
    table, plots = path_table(rows, options.tolerance), {"benchmarks_path": path_plot(rows)}
    return common.save(options, table, {"rows": rows}, plots, name="benchmarks_path")


def _searched(options: Options) -> common.Outcome:
    """A grid search on generated texts, ours and LinearSVC's."""
    values = sorted(float(value) for value in options.grid)
    rows: list[dict[str, Any]] = []
    with common.kept_if_stopped(options, {"rows": rows}, name="benchmarks_grid"):
        size = options.size or TASKS["texts"].size
        rows.extend(grid_rows(size, values, options.tolerance, options.seed))
    table = grid_table(rows, options.tolerance)
    return common.save(options, table, {"rows": rows}, {}, name="benchmarks_grid")


class Growth(NamedTuple):
    """How a task grew: sizes, seconds of the warm fit, and the slope of the logarithms."""

    task: str
    sizes: list[int]
    seconds: list[float]

    @property
    def slope(self) -> float:
        """Of log seconds over log n, by least squares; nan for fewer than two sizes."""
        if len(self.sizes) < 2:
            return math.nan
        return float(np.polyfit(np.log(self.sizes), np.log(self.seconds), 1)[0])


def _grown(options: Options) -> common.Outcome:
    rows: list[dict[str, Any]] = []
    with common.kept_if_stopped(options, {"rows": rows}, name="benchmarks_growth"):
        rows.extend(_growing(options))
    curves = [
        Growth(name, *(
            [row[key] for row in rows if row["task"] == name] for key in ("size", "again")
        ))
        for name in _growing_tasks(options)
    ]  # fmt: skip
    columns = ["task", "n", "first fit, s", "again, s", "peak MB", "rounds", "slope"]
    body = [
        [row["task"], row["size"], row["seconds"], row["again"], row["peak_memory"] / 2**20,
         row["passes"], None]
        for row in rows
    ] + [[each.task, "all", None, None, None, None, each.slope] for each in curves]  # fmt: skip
    notes = ["slope: of log seconds (again) over log n. Generated to look like real ones."]
    plot = curve_lines(
        {each.task: (each.sizes, each.seconds) for each in curves},
        title="Growth with the number of examples", xlabel="examples", ylabel="processor s",
        log_x=True,
    )  # fmt: skip
    table = Table("How a training grows", columns, body, notes)
    plots = {"benchmarks_growth": plot}
    return common.save(options, table, {"rows": rows}, plots, name="benchmarks_growth")


def _growing_tasks(options: Options) -> Sequence[str]:
    return GROWING if tuple(options.tasks) == USUAL else options.tasks


def _growing(options: Options) -> Iterator[dict[str, Any]]:
    for name in _growing_tasks(options):
        for size in options.growth:
            own = options.replace(tasks=(name,), size=int(size), growth=(), part="first")
            (found,) = run_apart(own, _part_name(name, "first"))
            yield found | {"task": name, "size": int(size)}
