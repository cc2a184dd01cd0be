"""What a result needs to be repeated: flags, seed, versions, machine, commit, command, cost.

Programs are compiled ahead and timed in turns, so that ratios hold on a machine with other work.
"""

from __future__ import annotations

import csv
import datetime
import enum
import importlib.metadata
import io
import os
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.compiling import Elapsed, compile_clock
from jaxstruct.core.types import PyTree
from jaxstruct.evaluation import mean_and_deviation

ROOT = Path(__file__).resolve().parents[2]
SECONDS = {("seconds", "in all"): "seconds", ("seconds", "compiling"): "compile_seconds"}
"""Columns of what `Stopwatch.numbers` has."""
PACKAGES = ("jaxstruct", "jax", "jaxlib", "numpy", "scikit-learn")
ENVIRONMENT = (
    "JAX_DEFAULT_MATMUL_PRECISION", "JAX_ENABLE_X64", "JAX_PLATFORMS", "OMP_NUM_THREADS",
    "XLA_FLAGS",
)  # fmt: skip


def run_record(flag_values: Mapping[str, Any], seed: int | None) -> dict[str, Any]:
    """Everything that a reader needs to repeat a run, ready for `report.write_results`.

    Args:
      flag_values: the options of the command.
      seed: the seed of the run, None where nothing is random.

    Returns:
      flags, seed, command, versions (None for a package that is not installed), platform, python,
      cpus, backend, device, dtype (of a Python float in jax), environment (settings of jax and its
      threads), time (UTC, ISO 8601) and commit (None outside a git checkout; ends in "-dirty"
      where files differ from the commit).

    Raises:
      ValueError: `flag_values` holds another seed than `seed`.
    """
    if "seed" in flag_values and flag_values["seed"] != seed:
        raise ValueError(
            f"seed: got {seed}, but flag_values['seed'] is {flag_values['seed']}; pass the seed "
            "that the run used."
        )
    device = jax.devices()[0]
    return {
        "flags": dict(flag_values),
        "seed": seed,
        "command": command_line(flag_values, seed),
        "versions": {name: _version(name) for name in PACKAGES},
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "backend": device.platform,
        "device": device.device_kind,
        "dtype": str(jnp.result_type(float)),
        "environment": _environment(),
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
    }


def command_line(flag_values: Mapping[str, Any], seed: int | None) -> str:
    """The shell command, from the root of the checkout, that repeats this run.

    Every flag is spelt out, so that a later change of a default does not change the run. None is
    left out, lists become comma-separated, enumeration members their names.
    """
    values = dict(flag_values) | ({} if seed is None else {"seed": seed})
    settings = [f"{name}={shlex.quote(value)}" for name, value in _environment().items()]
    arguments = map(_quote, flag_arguments(values))
    return " ".join([*settings, "python", *_program(), *arguments])


def flag_arguments(values: Mapping[str, Any]) -> list[str]:
    """The arguments that give flags these values, not quoted for a shell; None is left out."""
    return [_argument(name, value) for name, value in values.items() if value is not None]


def _quote(argument: str) -> str:
    name, equals, value = argument.partition("=")
    return name + equals + shlex.quote(value) if equals else name


def peak_memory_bytes() -> int:
    """The largest resident memory that this process has held, in bytes.

    Host memory only. Linux says it of this program; elsewhere the `resource` module (macOS) may
    count what the process held before it started this program.
    """
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
        return 1024 * int(peak)
    except (OSError, ValueError):
        import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


class Stopwatch:
    """Wall and processor seconds since it was made, or since the last lap.

    jax returns before its results are ready: hand them in, and the watch waits for them.
    """

    def __init__(self) -> None:
        """Start."""
        self._start, self._compiled = _now(), compile_clock().read()

    def elapsed(self, result: Any = None) -> Elapsed:
        """Wait for the arrays in the pytree `result`, then read the watch, which runs on."""
        jax.block_until_ready(result)
        now = _now()
        return Elapsed(now.wall - self._start.wall, now.process - self._start.process)

    def lap(self, result: Any = None) -> Elapsed:
        """`elapsed`, then start again from zero."""
        seconds = self.elapsed(result)
        self._start, self._compiled = _now(), compile_clock().read()
        return seconds

    def numbers(self, result: Any = None) -> dict[str, float]:
        """Wall seconds as a row has them: "seconds", and "compile_seconds" among these.

        The latter to a thousandth: what is below that is no compiling of ours.
        """
        wall = self.elapsed(result).wall
        return {"seconds": wall, "compile_seconds": round(self.compiling().wall, 3)}

    def compiling(self) -> Elapsed:
        """What of it jax has spent on compiling so far; read it before a lap."""
        now = compile_clock().read()
        return Elapsed(now.wall - self._compiled.wall, now.process - self._compiled.process)


def _now() -> Elapsed:
    return Elapsed(time.perf_counter(), time.process_time())


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _environment() -> dict[str, str]:
    return {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}


def _program() -> list[str]:
    """["-m", module] for a script of this checkout, else its file name."""
    script = Path(sys.argv[0]).resolve()
    if script.is_relative_to(ROOT):
        parts = script.relative_to(ROOT).with_suffix("").parts
        return ["-m", ".".join(parts[:-1] if parts[-1] == "__main__" else parts)]
    return [shlex.quote(script.name)]


def _argument(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return f"--{name}" if value else f"--no{name}"
    if isinstance(value, list | tuple):
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow([_text(item) for item in value])
        value = line.getvalue()
    return f"--{name}={_text(value)}"


def _text(value: Any) -> str:
    return value.name if isinstance(value, enum.Enum) else str(value)


def _commit() -> str | None:
    command = ["git", "--no-optional-locks", "-C", str(ROOT), "describe", "--always", "--dirty",
               "--abbrev=40", "--exclude=*"]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None


def spent(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What some trainings of one method took, as a line of a table.

    Args:
      rows: each with "seconds", "compile_seconds", "status" (of `fit`, its name, or None) and
        "peak_memory", the bytes of the process of all.

    Returns:
      The median of the seconds, the most that one has compiled, MB, and the kinds of status.
    """
    ends = [row["status"] for row in rows if row["status"] is not None]
    return {
        "seconds": float(np.median([row["seconds"] for row in rows])),
        "compile_seconds": max(row["compile_seconds"] for row in rows),
        "memory": round(rows[0]["peak_memory"] / 2**20),
        "status": ", ".join(dict.fromkeys(str(getattr(end, "name", end)) for end in ends)) or None,
    }


def spread(values: Sequence[float]) -> tuple[float, float | None]:
    """(the mean, the standard deviation of a sample; None of one value, which says none)."""
    mean, deviation = mean_and_deviation(values)
    return mean, deviation if len(values) > 1 else None


class Compiled(NamedTuple):
    """A program for arguments of given shapes.

    Fields:
      call: (*arguments) -> results. seconds: what tracing and compiling it took.
      mebibytes: temporary memory of a call.
    """

    call: Callable[..., PyTree]
    seconds: float
    mebibytes: float


def compile_ahead(function: Callable, *arguments: Any) -> Compiled:
    """`function` compiled for these arguments."""
    start = time.perf_counter()
    program = jax.jit(function).lower(*arguments).compile()
    seconds = time.perf_counter() - start
    memory = program.memory_analysis()
    assert memory is not None, "this backend does not report its memory"
    return Compiled(program, seconds, memory.temp_size_in_bytes / 2**20)


def in_turns(calls: Sequence[Callable[[], PyTree]], repeats: int) -> np.ndarray:
    """[repeats, programs, 2] wall and processor seconds of one call each, turn by turn.

    Every timed call follows one that is not timed; so does the first turn the whole.
    """
    turns = [[_seconds(call) for call in calls] for _ in range(repeats + 1)]
    return np.asarray(turns)[1:]


def _seconds(call: Callable[[], PyTree]) -> tuple[float, float]:
    jax.block_until_ready(call())
    wall, processor = time.perf_counter(), time.process_time()
    jax.block_until_ready(call())
    return time.perf_counter() - wall, time.process_time() - processor
