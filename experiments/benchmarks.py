"""What a person waits for: first fits, warm fits, programs and memory, a row a task.

    taskset -c 0 python -m experiments.benchmarks
    taskset -c 0 python -m experiments.benchmarks --tasks=words,spanish,tagger
    taskset -c 0 python -m experiments.benchmarks --growth=1000,3000,10000
    taskset -c 0 python -m experiments.benchmarks --path=.02,.05,.1,.2,.3,.5,.7,1 --size=300

Trainings by `fit` (svm1_margin; gum and homologues: SVM2) and by estimators, with default settings,
each to the relative gap of its row, in processor seconds. Every row has processes of its own: one
that compiles everything, one that finds the compiled programs on disk, and one for each tool beside
it (LinearSVC on the Crammer-Singer objective, CRFsuite and others), so that memory is its own. Read
ratios within one run; run it pinned to one core of a machine with nothing else to do.

--growth measures how time grows with n instead, on generated texts and sentences or on the tasks
named: slopes of the logarithms. --path measures warm starts along values of C / n beside cold ones,
of the handwritten words or of the tasks named.
"""

from __future__ import annotations

import itertools
import math
import shutil
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from experiments.lib import common, fields
from experiments.lib.apart import run_apart
from experiments.lib.options import flag
from experiments.lib.plots import Plot, bar_groups, curve_lines
from experiments.lib.record import peak_memory_bytes
from experiments.lib.report import Columns, Table, rows_table, write_results
from experiments.tasks.benchmarks import TASKS, Training
from experiments.tasks.users import USER_ROWS
from experiments.tasks.work import Tool, Work
from jaxstruct import Solution, fit, keep_programs
from jaxstruct.core.compiling import compile_clock, programs_traced
from jaxstruct.core.feature_encoding import UnseenFeatures
from jaxstruct.core.status import Status

ROWS = {name: task.row() for name, task in TASKS.items()} | USER_ROWS
PREDICTED = "+predict"
"""What is added to the name of a task in the line of training and prediction."""


def peer_key(place: int) -> str:
    """How the names of the numbers of a task's peer begin: peer, peer2, ..."""
    return f"peer{place + 1}" if place else "peer"


def table_of(rows: Sequence[Mapping[str, Any]]) -> Table:
    """A line a task, one more for each further peer, and one with prediction where it counts."""
    columns: Columns = {
        "task": "task", "gap": "tolerance", ("first, s", "whole"): "first",
        ("first, s", "compiling"): "compiling", ("first, s", "programs on disk"): "cached",
        "again, s": "again", "programs": "programs", "peak MB": "peak", "rounds": "rounds",
        "status": "status", "score": "score", ("beside it", "tool"): "tool",
        ("beside it", "s"): "peer", ("beside it", "peak MB"): "peer_peak",
        ("beside it", "score"): "peer_score", "n": "n", "in words": "title",
    }  # fmt: skip
    notes = [
        "Processor seconds, without imports and reading, with default settings, to this relative "
        "gap. first: in a new process; again: once more in it.",
        f"{PREDICTED}: with the prediction of held-out data; score: the share right (trees: F1). "
        ".2: beside a second tool.",
        "Others minimise other objectives (CRFsuite) or stop by other rules; peaks are of "
        "processes that have imported jax.",
    ]
    lines = [line for row in rows for line in _lines(row)]
    return rows_table("What a person waits for", columns, lines, notes)


_BLANK = {"title": ""} | dict.fromkeys((
    "tolerance", "first", "compiling", "cached", "again", "programs", "peak", "rounds", "status",
    "score", "tool", "peer", "peer_peak", "peer_score", "n",
))  # fmt: skip


def _lines(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    scored = row["first_score"] is not None
    for place, theirs in enumerate([*_peers(row)] or [({}, {})]):
        ours = ({}, {}) if place else (_trained(row), _predicted(row))
        names = row["task"], row["task"] + PREDICTED
        for name, mine, other in [*zip(names, ours, theirs, strict=True)][: 1 + scored]:
            yield _BLANK | {"task": f"{name}.{place + 1}" if place else name} | mine | other


def _trained(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "title": row["title"], "n": row["first_n"], "tolerance": f"{row['tolerance']:g}",
        "first": row["first_seconds"], "compiling": row["first_compiling"],
        "cached": row["cached_seconds"], "again": row["first_again"],
        "programs": row["first_programs"], "peak": row["first_peak_memory"] / 2**20,
        "rounds": row["first_passes"], "status": row["first_status"] and str(row["first_status"]),
    }  # fmt: skip


def _predicted(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "first": row["first_everything"], "cached": row["cached_everything"],
        "again": row["first_again_everything"], "score": row["first_score"],
    }  # fmt: skip


def _peers(row: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """(training, training and prediction) of each peer."""
    for key in map(peer_key, itertools.count()):
        if f"{key}_name" not in row:
            return
        memory = row[f"{key}_peak_memory"]
        trained = {
            "tool": row[f"{key}_name"], "peer": row[f"{key}_seconds"],
            "peer_peak": memory and memory / 2**20,
        }  # fmt: skip
        predicted = {"peer": row[f"{key}_everything"], "peer_score": row[f"{key}_score"]}
        yield trained, predicted


def plot_of(rows: Sequence[Mapping[str, Any]]) -> Plot:
    """A bar each for the first peer and our fits, a group a task."""
    series = {
        "peer": [row.get("peer_seconds") or math.nan for row in rows],
        "first fit": [row["first_seconds"] for row in rows],
        "first fit, programs on disk": [row["cached_seconds"] for row in rows],
        "again": [row["first_again"] for row in rows],
    }
    title = "First and later fits, beside other tools"
    return bar_groups([row["task"] for row in rows], series, title=title, ylabel="processor s")


def path_rows(name: str, size: int, values: Sequence[float], tolerance: float) -> Iterator[dict]:
    """One row a value of C / n: rounds and processor seconds, cold and started from the one before.

    Programs are compiled before the clock starts.

    Args:
      name: of a task. size: how many examples, 0 as the task is. values: C / n, rising.
    """
    training = TASKS[name].prepare(size or TASKS[name].size, "float32")
    _solve(training, values[0], tolerance, None)
    before = None
    for value in values:
        cold, cold_seconds = _solve(training, value, tolerance, None)
        warm, warm_seconds = _solve(training, value, tolerance, before)
        before = warm
        yield {
            "task": name, "n": training.n, "tolerance": tolerance, "C_over_n": value,
            "cold_rounds": cold.statistics.passes, "cold_seconds": cold_seconds,
            "warm_rounds": warm.statistics.passes, "warm_seconds": warm_seconds,
            "cold_primal": cold.primal, "warm_primal": warm.primal, "dual": warm.dual,
            "solved": cold.status.solved and warm.status.solved,
        }  # fmt: skip


def _solve(
    training: Training, value: float, tolerance: float, start: Solution | None
) -> tuple[Solution, float]:
    clock = time.process_time()
    solution = fit(
        training.problem, training.inputs, training.outputs, "svm1_margin", value * training.n,
        tolerance=tolerance, start=start,
    )  # fmt: skip
    jax.block_until_ready(solution.weights)
    return solution, time.process_time() - clock


_COUNTED = ("cold_rounds", "cold_seconds", "warm_rounds", "warm_seconds")


def path_table(rows: Sequence[dict[str, Any]]) -> Table:
    """A row a value of C, and the sums of every task."""
    columns: Columns = {
        "task": "task", "n": "n", "gap": "tolerance:g", "C/n": "C_over_n",
        ("cold", "rounds"): "cold_rounds",
        ("cold", "s"): "cold_seconds", ("from the one before", "rounds"): "warm_rounds",
        ("from the one before", "s"): "warm_seconds", "solved": "solved",
    }  # fmt: skip
    shown = list(rows)
    for name in dict.fromkeys(row["task"] for row in rows):
        own = [row for row in rows if row["task"] == name]
        sums = {key: sum(row[key] for row in own) for key in _COUNTED}
        solved = all(row["solved"] for row in own)
        shown.append(own[0] | sums | {"C_over_n": "all", "solved": solved})
    notes = [
        "svm1_margin to this relative gap, default settings, processor seconds without compiling."
    ]
    return rows_table("A path of C", columns, shown, notes)


def path_plot(rows: Sequence[dict[str, Any]]) -> Plot:
    """Rounds along the path, cold and warm."""
    curves = {}
    for name in dict.fromkeys(row["task"] for row in rows):
        own = [row for row in rows if row["task"] == name]
        for way in ("cold", "warm"):
            values = [row["C_over_n"] for row in own], [row[f"{way}_rounds"] for row in own]
            curves[f"{name}, {way}"] = values
    return curve_lines(
        curves, title="Rounds along a path of C", xlabel="C / n", ylabel="rounds", log_x=True
    )


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


def curves_of(rows: Sequence[dict[str, Any]]) -> list[Growth]:
    """The growth of each task of the rows."""
    found = []
    for name in dict.fromkeys(row["task"] for row in rows):
        own = [row for row in rows if row["task"] == name]
        found.append(Growth(name, [row["size"] for row in own], [row["again"] for row in own]))
    return found


def growth_table(rows: Sequence[dict[str, Any]]) -> Table:
    """A row a task and size, and the slopes."""
    columns = ["task", "n", "first fit, s", "again, s", "peak MB", "rounds", "slope"]
    body = [
        [row["task"], row["size"], row["seconds"], row["again"], row["peak_memory"] / 2**20,
         row["passes"], None]
        for row in rows
    ]  # fmt: skip
    body += [[each.task, "all", None, None, None, None, each.slope] for each in curves_of(rows)]
    notes = ["slope: of log seconds (again) over log n. Generated to look like real ones."]
    return Table("How a training grows", columns, body, notes)


def growth_plot(rows: Sequence[dict[str, Any]]) -> Plot:
    """Seconds over n, a curve a task."""
    return curve_lines(
        {each.task: (each.sizes, each.seconds) for each in curves_of(rows)},
        title="Growth with the number of examples", xlabel="examples", ylabel="processor s",
        log_x=True,
    )  # fmt: skip


def fits(work: Work) -> dict[str, Any]:
    """The first training of this process, and the same once more."""
    warnings.simplefilter("ignore", UnseenFeatures)
    jax.block_until_ready(jax.numpy.zeros(1))  # the backend's own start is no part of a fit
    memory, programs = peak_memory_bytes(), programs_traced()
    model, numbers = _timed(work.ours)
    numbers |= {"memory_before": memory, "programs": programs_traced() - programs}
    numbers |= _ends(work.solutions(model))
    programs = programs_traced()
    _, again = _timed(work.ours)
    return numbers | {
        "again": again["seconds"], "again_everything": again["everything"],
        "again_programs": programs_traced() - programs,
    }  # fmt: skip


def peer(work: Work, name: str) -> dict[str, Any]:
    """The peer's training; nan where its package is missing."""
    try:
        tool = work.peers[name]()
    except ImportError:
        return {"seconds": math.nan, "everything": math.nan, "score": None}
    memory = peak_memory_bytes()
    return _timed(tool)[1] | {"memory_before": memory}


def published(seconds: float) -> dict[str, Any]:
    """The numbers of a peer of which only the seconds are known."""
    return {"seconds": seconds, "everything": seconds, "score": None, "peak_memory": None}


def _timed(tool: Tool) -> tuple[Any, dict[str, Any]]:
    """(the model, the seconds of its training and the processor seconds with its score)."""
    compiling, wall, start = compile_clock().read(), time.perf_counter(), time.process_time()
    model = tool.train()
    numbers: dict[str, Any] = {
        "seconds": time.process_time() - start, "wall": time.perf_counter() - wall,
        "compiling": compile_clock().read().process - compiling.process,
    }  # fmt: skip
    numbers["score"] = tool.score and tool.score(model)
    return model, numbers | {"everything": time.process_time() - start}


def _ends(solutions: Sequence[Solution]) -> dict[str, Any]:
    """How trainings ended: sums, and the first status that is not CONVERGED."""

    def total(of: Callable[[Solution], Any]) -> Any:
        return sum(map(of, solutions))

    unsolved = [each.status for each in solutions if each.status is not Status.CONVERGED]
    return {
        "status": [*unsolved, Status.CONVERGED][0] if solutions else None,
        "primal": total(lambda each: each.primal), "dual": total(lambda each: each.dual),
        "passes": total(lambda each: each.statistics.passes),
        "oracle_calls": total(lambda each: each.statistics.oracle_calls),
        "capacity": max((each.statistics.capacity for each in solutions), default=0),
    }  # fmt: skip


GROWING = ("texts", "sentences")
FOLLOWED = ("words",)


class Options(fields.Common):
    """The flags of this command."""

    tasks: Sequence[str] = flag((), "Rows to measure; default: all of them.", list(ROWS))
    tolerance: float | None = flag(
        None, "Relative duality gap to stop at; default: that of each row.", above=0
    )
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
    part: str = flag(
        "all",
        "Measure this part of one task here and write its numbers, as 'all' does in processes "
        "of their own.",
        ["all", "first", "cached", "peer", "peer2", "peer3"],
    )
    size: int = flag(0, "With --part or --path: n of the task; 0: as it is.", least=0)
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
    rows: list[dict[str, Any]] = []
    with common.kept_if_stopped(options, {"rows": rows}):
        for name in options.tasks or ROWS:
            rows.append(_measured(options, name))
    return common.save(options, table_of(rows), {"rows": rows}, {"benchmarks": plot_of(rows)})


def _tolerance(options: Options, name: str) -> float:
    return options.tolerance or ROWS[name].tolerance


def _measured(options: Options, name: str) -> dict[str, Any]:
    """The numbers of one task: of the process that compiles, of the one after it, of the peers."""
    task, cache = ROWS[name], f"{options.output}/benchmarks_programs"
    own = options.replace(tasks=(name,), size=task.size, cache=cache)
    row: dict[str, Any] = {
        "task": name, "title": task.title, "size": task.size,
        "tolerance": _tolerance(options, name),
    }  # fmt: skip
    shutil.rmtree(cache, ignore_errors=True)
    for part in ("first", "cached", *map(peer_key, range(len(task.peers)))):
        beside = _peer_of(name, part)
        if beside in task.published:
            found = published(task.published[beside])
        else:
            part_options, part_name = own.replace(part=part), _part_name(name, part)
            (found,) = run_apart(part_options, part_name)
        found |= {"name": beside} if beside else {}
        row |= {f"{part}_{key}": value for key, value in found.items()}
    shutil.rmtree(cache, ignore_errors=True)
    return row


def _peer_of(task: str, part: str) -> str:
    """The name of the peer of a part; "" where it is of this package."""
    peers = ROWS[task].peers
    return next((name for k, name in enumerate(peers) if peer_key(k) == part), "")


def _part_name(task: str, part: str) -> str:
    return f"benchmarks_{task}_{part}"


def run_part(options: Options) -> None:
    """Measure one part of one task in this process; its numbers go to a JSON file of their own.

    Raises:
      ValueError: there is not exactly one task, or it has no such part.
    """
    if len(options.tasks) != 1:
        raise ValueError("part needs exactly one task, give --tasks=NAME")
    (name,) = options.tasks
    common.prepare(options)
    if options.cache:
        keep_programs(options.cache)
    row = _part(options, name) | {"peak_memory": peak_memory_bytes()}
    write_results(options.output, _part_name(name, options.part), {"rows": [row]})


def _part(options: Options, name: str) -> dict[str, Any]:
    dtype, tolerance = "float64" if options.x64 else "float32", _tolerance(options, name)
    size = options.size or ROWS[name].size
    beside = _peer_of(name, options.part)
    if options.part.startswith("peer") and not beside:
        raise ValueError(f"part: {name} has no {options.part}")
    work = ROWS[name].work(size, dtype, tolerance)
    row = peer(work, beside) if beside else fits(work)
    return row | {"n": work.n}


def _trainings(options: Options, usual: Sequence[str]) -> Sequence[str]:
    """The tasks of the options, each a training by `fit`; the usual ones where none is named."""
    estimated = [name for name in options.tasks if name not in TASKS]
    if estimated:
        raise ValueError(
            f"tasks: {', '.join(estimated)}: growth and path take trainings by "
            f"fit, expected some of {', '.join(TASKS)}"
        )
    return options.tasks or usual


def _followed(options: Options) -> common.Outcome:
    """A path of C for each task; of the words alone where none is named."""
    values = sorted(float(value) for value in options.path)
    rows: list[dict[str, Any]] = []
    with common.kept_if_stopped(options, {"rows": rows}, name="benchmarks_path"):
        for name in _trainings(options, FOLLOWED):
            rows.extend(path_rows(name, options.size, values, _tolerance(options, name)))
    table, plots = path_table(rows), {"benchmarks_path": path_plot(rows)}
    return common.save(options, table, {"rows": rows}, plots, name="benchmarks_path")


def _grown(options: Options) -> common.Outcome:
    rows: list[dict[str, Any]] = []
    with common.kept_if_stopped(options, {"rows": rows}, name="benchmarks_growth"):
        rows.extend(_growing(options))
    table, plots = growth_table(rows), {"benchmarks_growth": growth_plot(rows)}
    return common.save(options, table, {"rows": rows}, plots, name="benchmarks_growth")


def _growing(options: Options) -> Iterator[dict[str, Any]]:
    for name in _trainings(options, GROWING):
        for size in options.growth:
            own = options.replace(tasks=(name,), size=int(size), growth=(), part="first")
            (found,) = run_apart(own, _part_name(name, "first"))
            yield found | {"task": name, "size": int(size)}
