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

Every process ends with the same weights and certificate; the first one shows them and writes
--output.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

import jax

from experiments.cluster.parts import TASKS, path_of, read_part, write_parts
from experiments.cluster.watching import Ended, free_port, run_together
from experiments.lib import common, fields
from experiments.lib.options import check_options, flag
from experiments.lib.record import flag_arguments
from experiments.lib.report import Columns, rows_table
from experiments.tasks.benchmarks import digest
from jaxstruct import Settings, Solution, fit
from jaxstruct.core.files import write_file

NAME = "cluster"
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
    heartbeat: int = flag(
        30, "--join: seconds of silence after which a process is dead, and all end.", least=1
    )
    write_parts: bool = flag(
        False, "Write the files of --processes processes of --devices devices, and no more."
    )
    parts: str = flag("", "Folder of the files of parts; empty: OUTPUT/cluster_parts.")
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
    return None if ended.first is None else _told(options, ended)


def _folder(options: Options) -> Path:
    return Path(options.parts or f"{options.output}/cluster_parts")


def _told(options: Options, ended: Ended) -> int:
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
        coordinator=f"localhost:{free_port()}", parts=str(_folder(options)),
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
            heartbeat_timeout_seconds=options.heartbeat,
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
