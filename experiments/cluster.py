"""One training in several processes: on one machine, or one a machine, as under SLURM.

    python -m experiments.cluster --task=words --start=2 --devices=2 --checkpoint=run.npz
    python -m experiments.cluster --task=words --start=2 --devices=2 --checkpoint=run.npz --resume

    python -m experiments.cluster --task=words --write_parts --processes=4       # once, then
    srun python -m experiments.cluster --task=words --join                       # in each process

--start starts processes here and watches them: where one dies, the others end, a line says who died
and how to go on, and the exit code is 1. --join is what each process runs; it trains with the
others on its own part of the examples, a file of its own, which --write_parts writes (--start does
so by itself). Without --coordinator, --processes and --process it finds the others by what SLURM,
Open MPI or a TPU report to jax.distributed.

Whoever has the corpus writes the parts once. Which examples a device holds follows from their sizes
and from the number of all devices: 1 process of 4 devices, 2 of 2 and 4 of 1 hold the same.

Every process ends with the same weights and certificate; the first one shows them and writes
--output.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import jax
import numpy as np

from experiments.corpora.homologues import LETTERS
from experiments.lib import common, fields
from experiments.lib.options import check_options, flag
from experiments.lib.record import flag_arguments
from experiments.lib.report import Columns, rows_table
from experiments.machines.homologues import HomologueInput, HomologueOutput, homologue_search
from experiments.tasks.benchmarks import TASKS as BENCHMARKS
from experiments.tasks.benchmarks import digest
from jaxstruct import Problem, Ragged, Settings, Solution, fit, take
from jaxstruct.chains import chain
from jaxstruct.chains.potentials import ChainInput
from jaxstruct.core.files import write_file
from jaxstruct.core.types import BinaryTree, PyTree, SparseFeatures
from jaxstruct.multiclass import multiclass
from jaxstruct.solvers.placement.mesh import deal
from jaxstruct.trees.parts import SentenceInput


class Task(NamedTuple):
    """A training of `experiments.benchmarks`, in parts.

    Fields:
      machine: (shape of the first weights, dtype) -> its problem; None where the problem is made of
        the corpus, which each process then reads.
      structure: a pytree as (inputs, outputs).
      size: examples, 0 for all; of digits C / n in tenths.
    """

    title: str
    machine: Callable[[tuple[int, ...], str], Problem] | None
    structure: PyTree
    size: int


def _chain(shape: tuple[int, ...], dtype: str) -> Problem:
    return chain(*shape, dtype=dtype)


def _classes(shape: tuple[int, ...], dtype: str) -> Problem:
    return multiclass(*shape, dtype=dtype)


def _search(shape: tuple[int, ...], dtype: str) -> Problem:
    return homologue_search(LETTERS, dtype=dtype)


_SPARSE = ChainInput(SparseFeatures(0, 0), 0, None)
_SEARCH = HomologueInput(0, 0, 0, 0), HomologueOutput(0, 0, 0)
TASKS = {
    "digits": Task("digits, C/n = 0.1", _classes, (0, 0), 1),
    "words": Task("OCR words, fold 1", _chain, (ChainInput(0, 0, None), 0), 0),
    "spanish": Task("300 Spanish sentences", _chain, (_SPARSE, 0), 300),
    "gum": Task("GUM, short sentences", None, (SentenceInput(0, 0), BinaryTree(0, 0, 0, 0, 0)), 0),
    "homologues": Task("homologues of table 4", _search, _SEARCH, 80),
    "sentences": Task("60 generated sentences", _chain, (_SPARSE, 0), 60),
}


class Part(NamedTuple):
    """What one process trains on. n: examples of all processes."""

    problem: Problem
    inputs: PyTree
    outputs: PyTree
    C: float
    n: int
    formulation: str


def path_of(folder: Path, name: str, processes: int, devices: int, process: int) -> Path:
    """The file of one process."""
    return folder / f"{name}.{processes}x{devices}.{process}.npz"


def write_parts(name: str, size: int, processes: int, devices: int, folder: Path) -> list[Path]:
    """The files of all processes; devices: of each."""
    size = size or TASKS[name].size
    data = BENCHMARKS[name].prepare(size, "float32")
    first = jax.tree.leaves(data.outputs)[0]
    lengths = first.lengths if isinstance(first, Ragged) else np.ones(data.n)
    held = deal(lengths, processes * devices, data.n).reshape(processes, -1)
    shape = jax.tree.leaves(data.problem.initial_weights)[0].shape
    files = []
    for process, rows in enumerate(held):
        own = take((data.inputs, data.outputs), np.sort(rows[rows >= 0]))
        arrays = {"shape": np.array(shape), "C": np.array(data.C), "n": np.array(data.n),
                  "size": np.array(size), "formulation": np.array(data.formulation)}  # fmt: skip
        for number, leaf in enumerate(jax.tree.leaves(own)):
            arrays |= _arrays_of(number, leaf)
        files.append(path_of(folder, name, processes, devices, process))
        write_file(files[-1], partial(_save, arrays))
    return files


def _save(arrays: dict[str, Any], file: BinaryIO) -> None:
    np.savez(file, **arrays)


def _arrays_of(number: int, leaf: Any) -> dict[str, np.ndarray]:
    if not isinstance(leaf, Ragged):
        return {f"{number}.rows": np.asarray(leaf)}
    return {f"{number}.rows": leaf.rows, f"{number}.offsets": leaf.offsets,
            f"{number}.fill": np.array(leaf.fill)}  # fmt: skip


def read_part(name: str, path: Path, dtype: str) -> Part:
    """What one process trains on.

    Raises:
      FileNotFoundError: nobody has written it.
    """
    task = TASKS[name]
    with np.load(path) as held:

        def leaf(number: int) -> np.ndarray | Ragged:
            rows = held[f"{number}.rows"]
            if f"{number}.offsets" not in held:
                return rows
            return Ragged(rows, held[f"{number}.offsets"], held[f"{number}.fill"].item())

        structure = jax.tree.structure(task.structure)
        inputs, outputs = jax.tree.unflatten(structure, map(leaf, range(structure.num_leaves)))
        if task.machine is None:
            problem = BENCHMARKS[name].prepare(held["size"].item(), dtype).problem
        else:
            problem = task.machine(tuple(held["shape"].tolist()), dtype)
        C, n, formulation = held["C"].item(), held["n"].item(), str(held["formulation"])
        return Part(problem, inputs, outputs, C, n, formulation)


GRACE = 15.0
"""Seconds for the others to end by themselves once one is dead; then they are killed."""
POLL = 0.03


class Ended(NamedTuple):
    """How processes ended: exit codes in their order, and which of them was the first to fail."""

    codes: tuple[int, ...]
    first: int | None

    def words(self) -> str:
        """Who died of what."""
        if self.first is None:
            return "all processes have ended"
        code = self.codes[self.first]
        of = f"of {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        count = len(self.codes)
        rest = ", and the other was ended" if count == 2 else ", and the others were ended"
        return f"process {self.first} of {count} died {of}{rest if count > 1 else ''}"


def free_port() -> int:
    """A port of this machine that nobody listens at now."""
    with socket.socket() as found:
        found.bind(("localhost", 0))
        return found.getsockname()[1]


@contextlib.contextmanager
def _forwarded(processes: Sequence[subprocess.Popen]) -> Iterator[None]:
    """Within, SIGTERM goes to the processes, which then end by themselves."""

    def forward(number: int, frame: object) -> None:
        for process in processes:
            process.send_signal(number)

    before = signal.signal(signal.SIGTERM, forward)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def run_together(
    lines: Sequence[Sequence[str]],
    act: Callable[[float, Sequence[subprocess.Popen]], None] = lambda seconds, processes: None,
) -> Ended:
    """Start a process a command line, and wait until all have ended.

    Args:
      act: called again and again with the seconds so far and the processes.
    """
    processes = [subprocess.Popen(line, env=os.environ) for line in lines]
    first, died, start = None, 0.0, time.monotonic()
    try:
        with _forwarded(processes):
            while any(process.poll() is None for process in processes):
                failed = [n for n, process in enumerate(processes) if process.poll()]
                if failed and first is None:
                    first, died = _first_to_fail(processes, failed), time.monotonic()
                if failed and time.monotonic() - died > GRACE:
                    for process in processes:
                        process.kill()
                act(time.monotonic() - start, processes)
                time.sleep(POLL)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    codes = tuple(process.wait() for process in processes)
    if first is None and any(codes):
        first = _first_to_fail(processes, [n for n, code in enumerate(codes) if code])
    return Ended(codes, first)


def _first_to_fail(processes: Sequence[subprocess.Popen], failed: list[int]) -> int:
    """Of those that were seen to have failed at once, one that a signal has ended."""
    killed = [n for n in failed if processes[n].returncode == -signal.SIGKILL]
    return (killed or failed)[0]


NAME = "cluster"
HEARTBEAT = 30
"""Seconds of silence after which a process is dead, and all end."""
SHUTDOWN = 10
"""Seconds that a process waits at its end for those that have died."""
COLUMNS: Columns = {
    "task": "title", "processes": "processes", "devices each": "devices", "n": "n",
    "status": "status", "primal": "primal", "dual": "dual", "relative gap": "gap",
    "rounds": "rounds", "fit, wall s": "seconds",
}  # fmt: skip


class Options(fields.Tolerance, fields.Common):
    """The flags of this command."""

    task: str = flag("digits", "What to train.", list(TASKS))
    size: int = flag(
        0, "Number of examples of the task, 0 for all; for digits it is C / n in tenths.", least=0
    )
    start: int = flag(0, "Start so many processes on this machine and watch them.", least=0)
    devices: int = flag(
        1, "Devices that the processor makes in each process; --join: 0 for what there is.", least=0
    )
    join: bool = flag(False, "Be one of the processes of a run.")
    coordinator: str = flag(
        "", "--join: host:port of the first process; empty: taken from SLURM and the like."
    )
    processes: int = flag(
        0, "--join, --write_parts: number of processes; 0: taken from SLURM and the like.", least=0
    )
    process: int = flag(
        -1, "--join: number of this process, from 0; -1: taken from SLURM and the like.", least=-1
    )
    write_parts: bool = flag(
        False, "Write the files of --processes processes of --devices devices, and no more."
    )
    checkpoint: str = flag("", "File to keep the run in, a file a process beside it; empty: none.")
    checkpoint_seconds: float = flag(60.0, "Seconds between two checkpoints.", least=0)
    resume: bool = flag(False, "Go on from --checkpoint, where it is there.")
    max_passes: int = flag(500, "Rounds at most.", least=1)


def main(options: Options) -> int | None:
    """What `run` does; the exit code is 1 where a process has died."""
    found = run(options)
    return found if isinstance(found, int) else None


def run(options: Options) -> common.Outcome | int | None:
    """Be a process, or start some; print the table and write it.

    Returns:
      The results; 1 where a process has died; None of a process that is not the first one, and
      where only parts were written.

    Raises:
      ValueError: the options do not fit.
    """
    check_options(options)
    if options.join + options.write_parts + (options.start > 0) != 1:
        raise ValueError("give one of --start, --join and --write_parts")
    if options.join:
        return _join(options)
    if not options.write_parts:
        common.check_folder("output", options.output)
    if not options.devices:
        raise ValueError("--devices=0, what there is, is known to --join alone: give at least 1")
    if options.write_parts:
        if not options.processes:
            raise ValueError("--write_parts needs --processes, how many files there shall be")
        files = write_parts(options.task, options.size, options.processes, options.devices,
                            _folder(options))  # fmt: skip
        print("\n".join(f"wrote {path}" for path in files))
        return None
    ended = _start(options, options.start)
    return None if ended.first is None else _announced(options, ended)


def _folder(options: Options) -> Path:
    """Of the files of parts."""
    return Path(options.output) / "cluster_parts"


def _announced(options: Options, ended: Ended) -> int:
    """Say on standard error who died and how to go on."""
    again = (
        "the same command with --resume goes on from the last checkpoint "
        f"({options.checkpoint}.process*)"
        if options.checkpoint
        else "nothing was kept: give --checkpoint=FILE to be able to go on"
    )
    print(f"{NAME}: {ended.words()}; {again}", file=sys.stderr)
    return 1


def _lines(options: Options, processes: int) -> list[list[str]]:
    """The command lines of the processes of one run here."""
    own = options.replace(
        join=True, start=0, processes=processes,
        coordinator=f"localhost:{free_port()}",
    )  # fmt: skip
    lines = []
    for process in range(processes):
        arguments = flag_arguments(own.replace(process=process).values())
        lines.append([sys.executable, "-m", f"experiments.{NAME}", *arguments])
    return lines


def _start(options: Options, processes: int) -> Ended:
    paths = [
        path_of(_folder(options), options.task, processes, options.devices, process)
        for process in range(processes)
    ]
    if not options.resume or not all(path.exists() for path in paths):
        write_parts(options.task, options.size, processes, options.devices, _folder(options))
    return run_together(_lines(options, processes))


def _join(options: Options) -> common.Outcome | None:
    """Train with the others; the first process shows and writes what is found."""
    if options.devices:
        jax.config.update("jax_num_cpu_devices", options.devices)
    if options.processes != 1:
        jax.config.update("jax_enable_preemption_service", False)  # it swallows SIGTERM
        jax.distributed.initialize(
            options.coordinator or None,
            options.processes or None,
            None if options.process < 0 else options.process,
            heartbeat_timeout_seconds=HEARTBEAT,
            shutdown_timeout_seconds=SHUTDOWN,
        )
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # `fit` takes it, at the end of a common round
    dtype = common.prepare(options)
    count, process, devices = jax.process_count(), jax.process_index(), jax.local_device_count()
    part = read_part(
        options.task, path_of(_folder(options), options.task, count, devices, process), dtype
    )
    solution, seconds = _fitted(options, part)
    end = {"digest": digest(solution), "rounds": solution.statistics.passes}
    write_file(_end_of(options, process), json.dumps(end))
    if process:
        return None
    row = {
        "title": TASKS[options.task].title, "task": options.task, "n": part.n, "processes": count,
        "devices": devices, "status": str(solution.status), "primal": solution.primal,
        "dual": solution.dual, "gap": solution.gap / abs(solution.primal),
        "rounds": solution.statistics.passes, "seconds": seconds,
    }  # fmt: skip
    notes = [
        f"To a relative gap of {options.tolerance:g} in {dtype}, default settings; seconds with "
        "compiling, or reading compiled programs from the disk."
    ]
    table = rows_table("Processes and devices", COLUMNS, [row], notes)
    name = f"{NAME}_{options.task}_{count}x{devices}"
    return common.save(options, table, {"rows": [row]}, name=name)


def _end_of(options: Options, process: int) -> Path:
    """Where a process writes what it ended with."""
    return Path(options.output) / f"{NAME}_end.{process}.json"


def _fitted(options: Options, part: Any) -> tuple[Solution, float]:
    """(solution, wall seconds)."""
    mesh, start = jax.make_mesh((jax.device_count(),), ("shards",)), time.perf_counter()
    solution = fit(
        part.problem, part.inputs, part.outputs, part.formulation, part.C, mesh=mesh,
        tolerance=options.tolerance, max_passes=options.max_passes,
        settings=Settings(seed=options.seed), verbose="bar" if options.progress else False,
        checkpoint=options.checkpoint or None, checkpoint_seconds=options.checkpoint_seconds,
        resume=options.resume,
    )  # fmt: skip
    return solution, time.perf_counter() - start
