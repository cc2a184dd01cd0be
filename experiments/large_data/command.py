"""How time and memory of a training in blocks grow with the number of examples.

    python -m experiments.large_data
    python -m experiments.large_data --sentences=1000,10000 --texts=1000,10000,100000 --passes=5
    python -m experiments.large_data --sentences=2000 --texts=2000 --whole

Sentences (9 labels, 20,000 features, 8 a token) and texts (20 classes, 5,000 words) are generated
to look like real ones, written to a store, and trained on from there by `fit_in_blocks`, each size
in a process of its own: a store, then `--passes` rounds, the last of them certified. What a round
takes is the second one's processor seconds, since the first compiles. Memory is the process's peak
over what it held before the training began; what was foretold is printed beside it. `--whole`
trains to the tolerance instead, and by `fit` on all data at once for comparison.
"""

from __future__ import annotations

import math
import resource
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import jax
import numpy as np

from experiments.large_data.data import TASKS, make_store
from experiments.lib import common, fields
from experiments.lib.apart import run_apart
from experiments.lib.options import flag
from experiments.lib.plots import Plot, curve_lines
from experiments.lib.record import peak_memory_bytes
from experiments.lib.report import Table, write_results
from jaxstruct import fit, fit_in_blocks, open_store
from jaxstruct.solvers.memory import BLOCK_BYTES


class Options(NamedTuple):
    """The flags of this command."""

    sentences: Annotated[
        Sequence[str], flag("Numbers of sentences, rising.", each=int, least=1)
    ] = ("1000", "10000", "50000", "200000")
    texts: Annotated[Sequence[str], flag("Numbers of texts, rising.", each=int, least=1)] = (
        "1000", "10000", "100000", "1000000",
    )  # fmt: skip
    passes: Annotated[int, flag("Rounds of a training.", least=2)] = 3
    whole: Annotated[bool, flag("Train to the tolerance, and by fit on all data, too.")] = False
    tolerance: fields.Tolerance = 1e-3
    blocks: Annotated[int, flag("How many blocks; 0: by --block_bytes.", least=0)] = 0
    block_bytes: Annotated[int, flag("Bytes of the arrays of a block.", least=1)] = BLOCK_BYTES
    part: Annotated[
        str,
        flag("Train on the one size named here; 'all' does it in processes.", ["all", "blocks",
             "fit"]),
    ] = "all"  # fmt: skip
    output: fields.Output = "results"
    seed: fields.Seed = 0
    x64: fields.X64 = False
    compilation_cache: fields.CompilationCache = False
    progress: fields.ShowProgress = None


def main(options: Options) -> int | None:
    """One size in this process, or all of them in processes of their own."""
    if options.part == "all":
        run(options)
    else:
        run_part(options)


def run(options: Options) -> common.Outcome:
    """Train on every size, print the table and write it.

    Raises:
      ValueError: an option does not fit.
      subprocess.CalledProcessError: a part failed; its messages are on standard error.
    """
    common.prepare(options)
    rows: list[dict[str, Any]] = []
    name = "large_data_whole" if options.whole else "large_data"
    with common.kept_if_stopped("large_data", options, name, {"rows": rows}):
        for task in TASKS:
            for size in getattr(options, task):
                for part in ("blocks", "fit") if options.whole else ("blocks",):
                    rows.append(_apart(options, task, size, part))
    table, plots = _table(options, rows), {name: _plot(rows)}
    return common.save("large_data", options, name, table, {"rows": rows}, plots)


def _apart(options: Options, task: str, size: str, part: str) -> dict[str, Any]:
    empty = dict.fromkeys(TASKS, ())
    own = options._replace(**{**empty, task: (size,)}, part=part)
    (found,) = run_apart("large_data", own, f"large_data_{part}_{task}_{size}")
    return found


def run_part(options: Options) -> None:
    """Train on the one size named; its numbers go to a JSON file of their own."""
    common.prepare(options)
    named = [(task, int(size)) for task in TASKS for size in getattr(options, task)]
    if len(named) != 1:
        raise ValueError("part needs one size of one task, such as --sentences=1000 --texts=")
    ((task, n),) = named
    folder = Path(options.output) / f"large_data_{task}_{n}.store"
    shutil.rmtree(folder, ignore_errors=True)
    start = time.process_time()
    make_store(folder, task, n, options.seed)
    writing = time.process_time() - start
    try:
        row = _trained(options, task, folder) | {"writing_seconds": writing}
        row["store_bytes"] = sum(path.stat().st_size for path in folder.iterdir())
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    write_results(options.output, f"large_data_{options.part}_{task}_{n}", {"rows": [row]})


def resident_bytes() -> int:
    """What this process holds now; its peak where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return peak_memory_bytes()
    return pages * resource.getpagesize()


def _trained(options: Options, task: str, folder: Path) -> dict[str, Any]:
    store = open_store(folder)
    n, problem = len(store), store.encoding.problem()
    jax.block_until_ready(jax.numpy.zeros(1))  # the backend's own start is no part of a training
    before, least = resident_bytes(), peak_memory_bytes()
    start, wall = time.process_time(), time.perf_counter()
    given = problem, store.inputs, store.outputs, "svm1_margin", TASKS[task].C * n
    limits = {"max_passes": 500 if options.whole else options.passes,
              "tolerance": options.tolerance if options.whole else 1e-5}  # fmt: skip
    row: dict[str, Any] = {"task": task, "n": n, "way": options.part}
    if options.part == "fit":
        solution = fit(*given, **limits)
    else:
        solution = fit_in_blocks(
            *given, blocks=options.blocks or None, block_bytes=options.block_bytes,
            verbose=sys.stderr.isatty(), **limits,
        )  # fmt: skip
        row |= {"blocks": solution.details.blocks, "foretold": solution.details.memory.total}
    trace = solution.trace
    running = np.asarray(trace.processor_seconds) - np.asarray(trace.compile_seconds)
    return row | {
        "rounds": solution.statistics.passes, "status": str(solution.status),
        "primal": solution.primal, "dual": solution.dual,
        "planes": solution.statistics.planes_kept, "oracle_calls": solution.statistics.oracle_calls,
        "seconds": time.process_time() - start, "wall": time.perf_counter() - wall,
        "round_seconds": float(running[1] - running[0]) if len(running) > 1 else math.nan,
        "parts": solution.statistics.seconds, "before": before, "least": least,
        "peak": peak_memory_bytes(),
    }  # fmt: skip


def slope(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Of the logarithms, by least squares; nan for fewer than two sizes."""
    if len(sizes) < 2:
        return math.nan
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def _table(options: Options, rows: Sequence[dict[str, Any]]) -> Table:
    columns = [
        "examples", "n", "way", "blocks", "rounds", "gap", ("seconds", "a round"),
        ("seconds", "in all"), ("MB", "store"), ("MB", "foretold"), ("MB", "taken"),
        ("MB", "peak"), "planes",
    ]  # fmt: skip
    body = [
        [row["task"], row["n"], row["way"], row.get("blocks"), row["rounds"],
         (row["primal"] - row["dual"]) / abs(row["primal"]), row["round_seconds"], row["seconds"],
         row["store_bytes"] / 1e6, row["foretold"] / 1e6 if "foretold" in row else None,
         (row["peak"] - row["before"]) / 1e6, row["peak"] / 1e6, row["planes"]]
        for row in rows
    ]  # fmt: skip
    notes = [
        "processor seconds; a round: the second, whose programs are compiled. taken: the peak less "
        "what the process held before.",
    ]
    for task in TASKS:
        own = [row for row in rows if row["task"] == task and row["way"] == "blocks"]
        if len(own) > 1:
            sizes = [row["n"] for row in own]
            of_time = slope(sizes, [row["round_seconds"] for row in own])
            of_memory = slope(sizes, [row["peak"] for row in own])
            notes.append(f"{task}: slope of a round's seconds {of_time:.2f}, of the peak "
                         f"{of_memory:.2f}")  # fmt: skip
    title = "Trained in blocks, and whole" if options.whole else "Rounds in blocks"
    return Table(title, columns, body, notes)


def _plot(rows: Sequence[dict[str, Any]]) -> Plot:
    """Seconds of a round by the number of examples."""
    curves = {}
    for task in TASKS:
        own = [row for row in rows if row["task"] == task and row["way"] == "blocks"]
        sizes = [row["n"] for row in own]
        curves[f"{task}: s a round"] = sizes, [row["round_seconds"] for row in own]
        curves[f"{task}: peak, GB"] = sizes, [row["peak"] / 1e9 for row in own]
    return curve_lines(
        {name: curve for name, curve in curves.items() if curve[0]},
        title="Growth with the number of examples", xlabel="examples",
        ylabel="processor s, GB", log_x=True,
    )  # fmt: skip
