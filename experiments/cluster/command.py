"""One training in several processes: on one machine, or one a machine, as under SLURM.

    python -m experiments.cluster --task=words --start=2 --devices=2 --checkpoint=run.npz
    python -m experiments.cluster --task=words --start=2 --devices=2 --checkpoint=run.npz --resume
    python -m experiments.cluster --compare=1x1,1x2,1x4,2x1,2x2 --tolerance=1e-6 --x64
    python -m experiments.cluster --kills=20

    python -m experiments.cluster --task=words --write_parts --processes=4       # once, then
    srun python -m experiments.cluster --task=words --join                       # in each process

--start starts processes here and watches them: where one dies, the others end, a line says who died
and how to go on, and the exit code is 1. --join is what each process runs; it trains with the
others on its own part of the examples, a file of its own, which --write_parts writes (--start does
so by itself). Without --coordinator, --processes and --process it finds the others by what SLURM,
Open MPI or a TPU report to jax.distributed.

Every process ends with the same weights and certificate; the first one shows them and writes
--output. --compare trains on P x D, that is P processes of D devices of the processor each.
--kills kills one of two processes or both at random moments, resumes, and compares the ends.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from experiments.cluster.parts import TASKS, path_of, read_part, write_parts
from experiments.cluster.watching import Ended, free_port, run_together
from experiments.lib import common, fields
from experiments.lib.options import check_options, flag, size_reader
from experiments.lib.record import flag_arguments
from experiments.lib.report import Table, rows_table
from experiments.tasks.benchmarks import digest
from experiments.tasks.meshes import difference, have_devices
from jaxstruct import Settings, Solution, fit
from jaxstruct.core.files import write_file
from jaxstruct.solvers.checkpoints.files import Checkpoint

NAME = "cluster"
SHUTDOWN = 10
"""Seconds that a process waits at its end for those that have died."""
COUNTERS = Path("/proc/net/dev")
COLUMNS = {
    "task": "title", "processes": "processes", "devices each": "devices", "n": "n",
    "status": "status", "primal": "primal", "dual": "dual", "relative gap": "gap",
    "rounds": "rounds", ("fit, wall s", "first"): "first", ("fit, wall s", "again"): "again",
    "MB sent a round": "megabytes",
}  # fmt: skip
KILL_COLUMNS = {
    "task": "title", "rounds": "rounds", ("killed", "first"): "0", ("killed", "second"): "1",
    ("killed", "both"): "both", ("kills", "files of two rounds"): "apart",
    ("the others ended", "s, at most"): "slowest", ("runs", "ended"): "ended",
    ("runs", "the same"): "same",
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
    compare: Sequence[str] = flag(
        (),
        "Layouts PxD, of P processes of D devices each, that are started one after the other.",
        each=size_reader("processes x devices", "2x2"),
    )
    kills: int = flag(0, "Kill one of two processes, or both, so often at random moments.", least=0)
    repeat: bool = flag(False, "Train twice, and report the seconds of both.")
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
    ways = [options.join, options.write_parts, options.start > 0, bool(options.compare),
            options.kills > 0]  # fmt: skip
    if sum(ways) != 1:
        raise ValueError("give one of --start, --compare, --kills, --join and --write_parts")
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
    if options.start:
        ended = _start(options, options.start)
        return None if ended.first is None else _told(options, ended)
    return _compare(options) if options.compare else _kill(options)


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
        join=True, start=0, compare=(), kills=0, processes=processes,
        coordinator=f"localhost:{free_port()}", parts=str(_folder(options)),
    )  # fmt: skip
    lines = []
    for process in range(processes):
        arguments = flag_arguments(own.replace(process=process).values())
        lines.append([sys.executable, "-m", f"experiments.{NAME}", *arguments])
    return lines


def _start(options: Options, processes: int, **more: Any) -> Ended:
    paths = [
        path_of(_folder(options), options.task, processes, options.devices, process)
        for process in range(processes)
    ]
    if not options.resume or not all(path.exists() for path in paths):
        write_parts(options.task, options.size, processes, options.devices, _folder(options))
    return run_together(_lines(options, processes), **more)


def _join(options: Options) -> common.Outcome | None:
    """Train with the others; the first process shows and writes what is found."""
    if options.devices:
        have_devices(options.devices)
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
    first, *_ = found = [_fitted(options, part) for _ in range(1 + options.repeat)]
    end = {"digest": digest(first[0]), "rounds": first[0].statistics.passes}
    write_file(_end_of(options, process), json.dumps(end))
    if process:
        return None
    row = _row(options, part.n, count, devices, found)
    table = _table(options, [row])
    return common.save(options, table, {"rows": [row]}, name=_name_of(options, count, devices))


def _name_of(options: Options, processes: int, devices: int) -> str:
    return f"{NAME}_{options.task}_{processes}x{devices}"


def _end_of(options: Options, process: int) -> Path:
    """Where a process writes what it ended with."""
    return Path(options.output) / f"{NAME}_end.{process}.json"


def _sent() -> float | None:
    """Bytes that the processes of this machine have sent one another; None where nobody counts."""
    if not COUNTERS.exists():
        return None
    for line in COUNTERS.read_text().splitlines():
        name, _, numbers = line.partition(":")
        if name.strip() == "lo":
            return float(numbers.split()[8])
    return None


def _fitted(options: Options, part: Any) -> tuple[Solution, float, float | None]:
    """(solution, wall seconds, bytes)."""
    mesh = jax.make_mesh((jax.device_count(),), ("shards",))
    start, before = time.perf_counter(), _sent()
    solution = fit(
        part.problem, part.inputs, part.outputs, part.formulation, part.C, mesh=mesh,
        tolerance=options.tolerance, max_passes=options.max_passes,
        settings=Settings(seed=options.seed), verbose="bar" if options.progress else False,
        checkpoint=options.checkpoint or None, checkpoint_seconds=options.checkpoint_seconds,
        resume=options.resume,
    )  # fmt: skip
    after = _sent()
    sent = None if before is None or after is None else after - before
    return solution, time.perf_counter() - start, sent


def _row(options: Options, n: int, processes: int, devices: int, found: list) -> common.Row:
    solution, seconds, _ = found[0]
    sent, rounds = found[-1][2], solution.statistics.passes
    return {
        "title": TASKS[options.task].title, "task": options.task, "n": n, "processes": processes,
        "devices": devices, "status": str(solution.status), "primal": solution.primal,
        "dual": solution.dual, "gap": solution.gap / abs(solution.primal), "rounds": rounds,
        "first": seconds, "again": found[1][1] if len(found) > 1 else None,
        "megabytes": sent / rounds / 1e6 if processes > 1 and sent is not None else None,
    }  # fmt: skip


def _table(options: Options, rows: Sequence[common.Row]) -> Table:
    kind = "float64" if options.x64 else "float32"
    notes = [
        f"To a relative gap of {options.tolerance:g} in {kind}, default settings. "
        "First: with compiling, or reading compiled programs from the disk. MB: bytes of the "
        "loopback device, of all processes together, in the last training."
    ]
    return rows_table("Processes and devices", COLUMNS, rows, notes)


def _compare(options: Options) -> common.Outcome | int:
    """A row a layout, and by how much the optima differ."""
    read, rows = size_reader("processes x devices", "2x2"), []
    with common.kept_if_stopped(options, {"rows": rows}):
        for layout in options.compare:
            processes, devices = read(layout)
            own = options.replace(devices=devices, repeat=True, checkpoint="", resume=False)
            ended = _start(own, processes)
            if ended.first is not None:
                return _told(own, ended)
            path = Path(options.output) / f"{_name_of(own, processes, devices)}.json"
            rows.extend(json.loads(path.read_text(encoding="utf-8"))["rows"])
    apart = difference(rows)
    table = _table(options, rows)
    table = table._replace(notes=[*table.notes, f"Optima differ by {apart:.1e} at most, relative."])
    numbers = {"rows": rows, "apart": apart}
    return common.save(options, table, numbers, name=f"{NAME}_{options.task}")


def _kill(options: Options) -> common.Outcome:
    """Kill and resume runs of two processes; how many ended as one that nobody killed."""
    rows = common.finished_rows(options, [_killed(options)], name=f"{NAME}_kills")
    notes = [
        "SIGKILL, to one process or to both, at a moment drawn from the time that an undisturbed "
        "run takes from its first checkpoint on; a checkpoint every round. Files of two rounds: "
        "the kill met one process before, the other after its file took its place. The same: the "
        "sha256 of all that both processes end with, but for seconds. The others ended: after a "
        "kill of one."
    ]
    table = rows_table("Processes killed and resumed", KILL_COLUMNS, rows, notes)
    return common.save(options, table, {"rows": rows}, name=f"{NAME}_kills")


def _killed(options: Options) -> Iterator[common.Row]:
    random = np.random.default_rng(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        own = options.replace(
            output=folder, kills=0, checkpoint=f"{folder}/run.npz", checkpoint_seconds=0.0,
            resume=True, parts=f"{folder}/parts",
        )  # fmt: skip
        for _ in range(2):  # the first one compiles
            _forget(Path(folder))
            begun = _Begun(own.checkpoint)
            ended = _start(own, 2, act=begun.look)
            if ended.first is not None:
                raise RuntimeError(f"the undisturbed training failed: {ended.words()}")
            seconds, whole = begun.seconds(), _ends(own)
        row: common.Row = {"title": TASKS[options.task].title, "rounds": whole[0]["rounds"]}
        row |= dict.fromkeys(["0", "1", "both", "apart", "ended", "same"], 0) | {"slowest": 0.0}
        while sum(row[name] for name in ("0", "1", "both")) < options.kills:
            _forget(Path(folder))
            while not _one_part(own, options.kills, seconds, row, random):
                pass
            row["ended"] += 1
            row["same"] += _ends(own) == whole
    yield row


class _Begun:
    """When a run wrote its first checkpoint: its imports and compiling are over."""

    def __init__(self, checkpoint: str) -> None:
        self._path, self._start, self._at = Path(checkpoint), time.time(), None

    def look(self, seconds: float, processes: Sequence[subprocess.Popen]) -> None:
        """Called again and again."""
        if self._at is None:
            files = self._path.parent.glob(f"{self._path.name}.process[01]")
            if any(file.stat().st_mtime > self._start for file in files):
                self._at = time.monotonic()

    def seconds(self) -> float:
        """Since then; below 0 before."""
        return -1.0 if self._at is None else time.monotonic() - self._at


def _are_apart(checkpoint: str) -> bool:
    """Whether the last files of the two processes are of two rounds, as a kill may leave them."""
    found = [Checkpoint(f"{checkpoint}.process{n}").part("found") for n in (0, 1)]
    return found[0].statistics.passes != found[1].statistics.passes


def _forget(folder: Path) -> None:
    """Remove the checkpoints and ends of a run."""
    for path in [*folder.glob("run.npz*"), *folder.glob(f"{NAME}_end.*")]:
        path.unlink()


def _ends(options: Options) -> list[dict[str, Any]]:
    return [json.loads(_end_of(options, process).read_text()) for process in (0, 1)]


def _one_part(
    options: Options, kills: int, seconds: float, row: common.Row, random: np.random.Generator
) -> bool:
    """Go on until a kill or the end; whether it is the end. The row counts the kill."""
    enough = sum(row[name] for name in ("0", "1", "both")) >= kills
    which = ("0", "1", "both")[int(random.integers(3))]
    delay, killed, begun = random.uniform(0, seconds), [], _Begun(options.checkpoint)

    def kill(now: float, processes: Sequence[subprocess.Popen]) -> None:
        begun.look(now, processes)
        if not enough and not killed and begun.seconds() > delay:
            chosen = processes if which == "both" else [processes[int(which)]]
            if all(process.poll() is None for process in processes):
                killed.append(now)
                for process in chosen:
                    process.send_signal(signal.SIGKILL)

    start = time.monotonic()
    ended = _start(options, 2, act=kill)
    if ended.first is None:
        return True
    if not killed:
        raise RuntimeError(f"a resumed training failed: {ended.words()}")
    row[which] += 1
    row["apart"] += _are_apart(options.checkpoint)
    if which != "both":
        row["slowest"] = max(row["slowest"], time.monotonic() - start - killed[0])
    return False
