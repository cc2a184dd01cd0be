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

import shutil
from collections.abc import Iterator, Sequence
from typing import Any

from experiments.benchmarks.growth import growth_plot, growth_table
from experiments.benchmarks.measuring import fits, peer, published
from experiments.benchmarks.paths import path_plot, path_rows, path_table
from experiments.benchmarks.rows import ROWS, peer_key, plot_of, table_of
from experiments.lib import common, fields
from experiments.lib.apart import run_apart
from experiments.lib.options import flag
from experiments.lib.record import peak_memory_bytes
from experiments.lib.report import write_results
from experiments.tasks.benchmarks import TASKS
from jaxstruct import keep_programs

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
