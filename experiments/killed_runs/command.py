"""Runs killed at random moments and resumed: whether they end as one that was never stopped.

    python -m experiments.killed_runs                   # 100 kills of each training
    python -m experiments.killed_runs --cost=2000       # what a checkpoint costs instead

A training in a process of its own keeps a checkpoint after every round. It is killed by SIGKILL,
SIGTERM or SIGINT, drawn at random like the moment, started again by the same line, killed again,
until it ends; then another begins. Its weights, multipliers, planes, certificate, counts and trace
(but for seconds) must have the sha256 of the run that nobody stopped.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from json import loads
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.killed_runs.training import BEGINS, TASKS
from experiments.lib import common, fields
from experiments.lib.options import check_options, flag
from experiments.lib.report import rows_table
from experiments.tasks.benchmarks import TASKS as BENCHMARKS
from jaxstruct import Solution, fit, keep_programs
from jaxstruct.solvers.checkpoints.run_state import save_solution

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
ENDINGS = {
    signal.SIGKILL: (-signal.SIGKILL,),
    signal.SIGTERM: (-signal.SIGTERM, 128 + signal.SIGTERM),
    signal.SIGINT: (-signal.SIGINT,),
}
"""Exit codes after a signal: as of a program that does not handle it, and as `fit` leaves."""
COLUMNS = {
    "training": "title", "rounds": "rounds", ("kills", "SIGKILL"): "SIGKILL",
    ("kills", "SIGTERM"): "SIGTERM", ("kills", "SIGINT"): "SIGINT",
    ("kills", "while writing"): "writing", ("runs", "ended"): "ended", ("runs", "the same"): "same",
}  # fmt: skip
COST_COLUMNS = {
    "training": "title", "rounds": "rounds", ("seconds", "without"): "plain",
    ("seconds", "with checkpoints"): "kept", ("one checkpoint", "seconds"): "each",
    ("one checkpoint", "megabytes"): "megabytes", ("all of them", "seconds"): "keeping",
    ("all of them", "% of the time"): "percent",
}  # fmt: skip


class Options(fields.Output, fields.Seed, fields.Cached, fields.Tolerance):
    """The flags of this command."""

    kills: int = flag(100, "Kills of each training.", least=1)
    tasks: Sequence[str] = flag(
        ("digits", "words"),
        f"Some of {', '.join(TASKS)}; words and blocks need their corpus.",
        list(TASKS),
        some=True,
    )
    cost: int = flag(
        0, "Generated sentences to measure the cost of a checkpoint on; 0: none.", least=0
    )
    seconds: float = flag(60.0, "--cost: seconds between two checkpoints.", least=0)


def run(options: Options) -> common.Outcome:
    """Kill and resume, or measure the cost; print the table and write it."""
    check_options(options)
    common.check_folder("output", options.output)
    if options.cost:
        return _cost(options)
    rows = common.finished_rows(options, (_killed(options, name) for name in options.tasks))
    notes = [
        "The moment of a kill is uniform over the time that an undisturbed run takes, compiled "
        "programs read from the disk. While writing: kills that left a file half-written under "
        "its temporary name. The same: all that a run ends with, bit by bit, but for seconds."
    ]
    table = rows_table("Runs killed and resumed", COLUMNS, rows, notes)
    return common.save(options, table, {"rows": rows})


def _killed(options: Options, name: str) -> Iterator[common.Row]:
    """The row of one training."""
    random, task = np.random.default_rng(options.seed), TASKS[name]
    with tempfile.TemporaryDirectory() as folder:
        for repeat in range(2):  # the first one compiles
            part = _part(options, name, Path(folder) / str(repeat), None, signal.SIGKILL)
        if part.code:
            raise RuntimeError(f"the undisturbed training of {name} failed: {part.words}")
        whole = _end(Path(folder) / "1")
    row = {"task": name, "title": task.title, "rounds": whole["rounds"], "seconds": part.seconds}
    row |= dict.fromkeys([*(number.name for number in SIGNALS), "writing", "ended", "same"], 0)
    while sum(row[number.name] for number in SIGNALS) < options.kills:
        with tempfile.TemporaryDirectory() as folder:
            _until_the_end(options, name, Path(folder), part.seconds, row, random)
            row["ended"] += 1
            row["same"] += _end(Path(folder))["digest"] == whole["digest"]
    yield row


def _end(folder: Path) -> dict[str, Any]:
    return loads((folder / "end.json").read_text(encoding="utf-8"))


def _until_the_end(
    options: Options,
    name: str,
    folder: Path,
    seconds: float,
    row: dict[str, Any],
    random: np.random.Generator,
) -> None:
    """One run, killed and resumed until it ends; the row counts the kills."""
    while True:
        enough = sum(row[number.name] for number in SIGNALS) >= options.kills
        number = SIGNALS[int(random.integers(len(SIGNALS)))]
        delay = None if enough else random.uniform(0, seconds)
        part = _part(options, name, folder, delay, number)
        if part.code == 0:
            return
        if enough or part.code not in ENDINGS[number]:
            raise RuntimeError(f"{name} ended with {part.code} after {number.name}: {part.words}")
        row[number.name] += 1
        row["writing"] += bool(list(folder.glob(".run.npz.*.part")))


class _Part(NamedTuple):
    """A process: its exit code, what it said on standard error, its seconds of training."""

    code: int
    words: str
    seconds: float


def _part(
    options: Options, name: str, folder: Path, delay: float | None, number: signal.Signals
) -> _Part:
    """Train in a process of its own; a delay after it begins it gets a signal, with None never."""
    folder.mkdir(exist_ok=True)
    line = [sys.executable, "-m", "experiments.killed_runs.training", name, str(folder), "0"]
    line += ["cache"] if options.compilation_cache else []
    pipe = subprocess.PIPE
    with subprocess.Popen(line, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            assert process.stdout is not None
            if process.stdout.readline().strip() == BEGINS:
                start = time.perf_counter()
                if delay is not None:
                    killer = threading.Timer(delay, process.send_signal, [number])
                    killer.start()
                _, words = process.communicate()
                if delay is not None:
                    killer.cancel()
                return _Part(process.returncode, words, time.perf_counter() - start)
            _, words = process.communicate()
            return _Part(process.returncode, words, 0.0)
        finally:
            process.kill()


def _cost(options: Options) -> common.Outcome:
    """What checkpoints cost a training of generated sentences, at the usual interval."""
    if options.compilation_cache:
        keep_programs()
    data = BENCHMARKS["sentences"].prepare(options.cost, "float32")

    def train(**more: Any) -> Solution:
        return fit(
            data.problem, data.inputs, data.outputs, "svm1_margin", data.C,
            tolerance=options.tolerance, **more,
        )  # fmt: skip

    train()  # compiles
    plain = train().statistics.seconds["total"]
    output = Path(options.output)
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output) as folder:
        path = Path(folder) / "run.npz"
        solution = train(checkpoint=path, checkpoint_seconds=options.seconds)
        size = path.stat().st_size / 1e6
        start = time.perf_counter()
        save_solution(path, solution)
        each = time.perf_counter() - start
    seconds = solution.statistics.seconds
    keeping = seconds.get("checkpoint", 0.0)
    row = {
        "title": f"{options.cost:,} generated sentences", "rounds": solution.statistics.passes,
        "plain": plain, "kept": seconds["total"], "each": each, "keeping": keeping,
        "megabytes": size, "percent": 100 * keeping / seconds["total"],
    }  # fmt: skip
    notes = [
        f"A checkpoint every {options.seconds:g} seconds, onto the disk of --output; the last two "
        "columns are of all of them, but for the one at the end. One: a solution written at the "
        "end."
    ]
    table = rows_table("What checkpoints cost", COST_COLUMNS, [row], notes)
    return common.save(options, table, {"rows": [row]}, name="checkpoint_cost")
