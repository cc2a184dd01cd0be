"""Runs that go on exactly: what a checkpoint holds of a run, and which run may go on from it.

A run is decided by what it was given, its state, and what was best so far: orders are drawn from
[seed, clock]. So a file holds these beside the solution, and a fingerprint of what was given.
"""

from __future__ import annotations

import hashlib
import numbers
import os
import re
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxstruct.core.archive import DamagedFile
from jaxstruct.core.caller import callers_level
from jaxstruct.core.checks import text_of
from jaxstruct.core.compile_clock import compile_clock
from jaxstruct.core.compiling import programs_traced
from jaxstruct.core.contract import Problem
from jaxstruct.core.types import PyTree
from jaxstruct.solvers.checkpoints.files import (
    Checkpoint,
    File,
    arrays_of,
    key_paths,
    number_text,
    previous_of,
)
from jaxstruct.solvers.loop.host_loop import Best, Rules, RunState, StartCounters, begin
from jaxstruct.solvers.loop.trace import TRACE_DTYPES, Entry, Trace, trace_of
from jaxstruct.solvers.objective.certificate import Certificate
from jaxstruct.solvers.objective.formulations import Formulation
from jaxstruct.solvers.settings import ResolvedSettings
from jaxstruct.solvers.solution import Solution

Fingerprint = dict[str, Any]
"""All that decides the numbers of a run, by name, as JSON has it; arrays by their sha256."""

_ARRAYS = ("problem", "inputs", "outputs", "example_weights", "start")
_RUN_STATE = (
    "best", "roundings", "certificate", "estimate", "seconds", "spent", "planes",
)  # fmt: skip
_SPENT = ("time", "processor", "compiled", "programs")
_LOG = ".run.log"


class Kept(NamedTuple):
    """What a checkpoint holds of a run.

    Fields:
      solution: what it had found; of a training in blocks that goes on, None.
      run, counters: where the run goes on, and what its counts are taken from; None where it
        has ended.
      damaged: whether this is the checkpoint before, since the last one is damaged.
    """

    solution: Any
    run: RunState | None
    counters: StartCounters | None
    damaged: bool = False

    @property
    def round(self) -> tuple[int, bool]:
        """After which round it was written, and whether the run had ended."""
        if self.run is not None:
            return len(self.run.log), False
        return self.solution.statistics.passes, True


def digest_of(*arrays: np.ndarray) -> str:
    """The sha256 of arrays with their dtypes and shapes, in hexadecimal digits."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(f"{array.dtype.str}{array.shape}".encode())
        found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()


def digest_of_tree(tree: PyTree) -> str:
    """The sha256 of a pytree: its structure, without addresses of functions, and its leaves."""
    structure = re.sub(r" at 0x[0-9a-f]+", "", str(jax.tree.structure(tree)))
    leaves = []
    for name, leaf in key_paths("", tree).items():
        array = np.asarray(leaf)
        if array.dtype.hasobject:
            array = np.frombuffer(re.sub(r" at 0x[0-9a-f]+", "", repr(leaf)).encode(), np.uint8)
        leaves += [np.frombuffer(name.encode(), np.uint8), array]
    return digest_of(np.frombuffer(structure.encode(), np.uint8), *leaves)


def digest_of_text(text: str) -> str:
    """The sha256 of a text, in hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def _by_name(name: str, value: Any) -> Fingerprint:
    """{name: value} of a setting, or of every field of a record of settings."""
    if hasattr(value, "_asdict"):
        parts = [_by_name(f"{name}.{key}", part) for key, part in value._asdict().items()]
        return {key: part for each in parts for key, part in each.items()}
    if isinstance(value, (bool, np.bool_)):
        return {name: bool(value)}
    if isinstance(value, numbers.Integral):
        return {name: int(value)}
    return {name: number_text(float(value)) if isinstance(value, numbers.Real) else value}


def _cores() -> int | None:
    """How many cores compiled programs share their sums between, which decides their rounding."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def in_common(
    problem: Problem,
    settings: ResolvedSettings,
    formulation: Formulation,
    rules: Rules,
    min_margin: float,
) -> Fingerprint:
    """The part of a fingerprint that is the same in all processes of a run.

    Args:
      all: of the run.
    """
    from jaxstruct import __version__

    plain = {
        "jaxstruct": __version__,
        "jax": jax.__version__,
        "jaxlib": version("jaxlib"),
        "numpy": np.__version__,
        "formulation": formulation,
        "C": rules.C,
        "tolerance": rules.tolerance,
        "epsilon": rules.epsilon,
        "max_passes": rules.max_passes,
        "min_margin": min_margin,
        "settings": settings,
    }
    own = {key: part for name in plain for key, part in _by_name(name, plain[name]).items()}
    return own | {"problem": digest_of_tree(problem)}


def fingerprint(
    common: Fingerprint,
    devices: Iterable[Any],
    inputs: str,
    outputs: str,
    example_weights: np.ndarray | None,
    start: Solution | None = None,
    blocks: int | None = None,
) -> Fingerprint:
    """What decides the numbers of a run, but for the code of functions.

    Args:
      common: of `in_common`. devices: that it runs on.
      inputs, outputs: the sha256 of the examples of this process.
      start: what it was started from. blocks: of `fit_in_blocks`; None of `fit`.
    """
    every = set(devices)
    processes = sorted({device.process_index for device in every})
    kinds = {f"{device.platform} {device.device_kind}" for device in every}
    plain = {
        "device": ", ".join(sorted(kinds)),
        "devices": len(every),
        "processes": len(processes),
        "process": processes.index(jax.process_index()),
        "cores": _cores() if any(device.platform == "cpu" for device in every) else None,
        "XLA_FLAGS": os.environ.get("XLA_FLAGS"),
        "blocks": blocks,
    }
    weights = None if example_weights is None else np.asarray(example_weights, np.float64)
    rest = [None if tree is None else digest_of_tree(tree) for tree in (
        weights, start and (start.state, start.C)
    )]  # fmt: skip
    return plain | common | dict(zip(_ARRAYS[1:], (inputs, outputs, *rest), strict=True))


def _differences(before: Mapping[str, Any], now: Fingerprint) -> list[str]:
    """What differs between two runs, in words."""
    names = [name for name in {**now, **before} if before.get(name) != now.get(name)]
    return [
        f"other {name}"
        if name in _ARRAYS
        else f"{name} was {text_of(before.get(name))}, is {text_of(now.get(name))}"
        for name in names
    ]


def run_file(file: File, now: RunState, counters: StartCounters, own: Fingerprint) -> File:
    """The checkpoint of a run that goes on.

    Args:
      file: what the next round begins with. now, counters: where it stands, and of `begin`.
      own: its fingerprint.
    """
    header, arrays = file
    best = now.best
    spent = (
        time.perf_counter() - counters.time,
        time.process_time() - counters.processor,
        compile_clock().read().wall - counters.compiled,
        programs_traced() - counters.programs,
    )
    state_now = {
        "best": [number_text(value) for value in (best.primal, best.dual, best.primal_found)],
        "roundings": [number_text(value) for value in best.roundings],
        "certificate": None,
        "estimate": number_text(now.estimate),
        "seconds": now.seconds,
        "spent": dict(zip(_SPENT, spent, strict=True)),
        "planes": counters.planes,
    }
    own_arrays = arrays_of(_LOG, trace_of(now.log)) | arrays_of(".run.weights", best.weights)
    if best.certificate is not None:
        state_now["certificate"] = {
            name: number_text(value) for name, value in best.certificate._asdict().items()
        }
        own_arrays |= arrays_of(".run.slack", best.slack)
    run = {"fingerprint": own, "run_state": state_now}
    return header | {"run": run}, arrays | own_arrays


def end_file(file: File, own: Fingerprint) -> File:
    """The checkpoint of a run that has ended; file: its solution. own: its fingerprint."""
    header, arrays = file
    return header | {"run": {"fingerprint": own, "run_state": None}}, arrays


def _run_state(checkpoint: Checkpoint, problem: Problem, state: Any) -> RunState:
    entries = checkpoint.header["run"]["run_state"]
    primal, dual, primal_found, *roundings = map(float, [*entries["best"], *entries["roundings"]])
    weights = checkpoint.weights(".run.weights", problem)
    best = Best(primal, dual, weights, primal_found, (roundings[0], roundings[1]))
    if entries["certificate"] is not None:
        certificate = {name: float(value) for name, value in entries["certificate"].items()}
        slack = checkpoint.array(".run.slack")
        best = best._replace(certificate=Certificate(**certificate), slack=slack)
    columns = [checkpoint.array(f"{_LOG}.{name}") for name in Trace._fields]
    if [column.dtype for column in columns] != [np.dtype(kind) for kind in TRACE_DTYPES]:
        raise checkpoint.error(f"has a log of other columns than {Trace._fields}")
    rounds = zip(*(column.tolist() for column in columns), strict=True)
    log = [Entry(*row) for row in rounds]
    return RunState(state, best, float(entries["estimate"]), entries["seconds"], log)


def kept_in(
    checkpoint: Checkpoint,
    problem: Problem,
    own: Fingerprint,
    before: Trace | None,
    read: Callable[[Checkpoint, bool], tuple[Any, Any]],
) -> Kept:
    """The run that a file holds.

    Args:
      own: the fingerprint of the run that wants to go on. before: the trace that it continues.
      read: (checkpoint, whether the run has ended) -> (solution, state).

    Raises:
      ValueError: it is of another run, or holds none. Whatever `read` raises.
    """
    if "run" not in checkpoint.header:
        raise checkpoint.error(
            "holds no run to resume, as fit(checkpoint=...) writes it: where it is a solution, "
            "start from it by start=load_solution(path, problem)"
        )
    run = checkpoint.record("run", ("fingerprint", "run_state"))
    differ = _differences(run["fingerprint"], own)
    if differ:
        raise checkpoint.error(
            f"is of another run: {'; '.join(differ)}. Give what it was made with, name another "
            "file, or start from what it has found by start=load_solution(path, problem)"
        )
    ended = run["run_state"] is None
    solution, state = read(checkpoint, ended)
    if ended:
        return Kept(solution, None, None)
    if set(run["run_state"]) != set(_RUN_STATE):
        raise checkpoint.error(f"has a run state of {sorted(run['run_state'])}")
    spent = run["run_state"]["spent"]
    start = begin(run["run_state"]["planes"], before)
    start = start._replace(**{name: getattr(start, name) - spent[name] for name in _SPENT})
    return Kept(solution, _run_state(checkpoint, problem, state), start)


def newest(path: str | os.PathLike, read: Callable[[Path], Kept]) -> Kept | None:
    """The run that a checkpoint holds, or the checkpoint before it; None where neither is there.

    Where the last one is damaged or missing, and the one before is not, a warning says so.

    Args:
      path: of the checkpoint. read: what one of the two holds.

    Raises:
      DamagedFile: no checkpoint is whole. Whatever else `read` raises.
    """
    previous = previous_of(path)
    try:
        return read(Path(path))
    except FileNotFoundError:
        if not previous.exists():
            return None
        reason, damaged = f"checkpoint {os.fspath(path)} is not there", False
    except DamagedFile as error:
        reason, damaged = str(error), True
    try:
        kept = read(previous)
    except FileNotFoundError:
        raise DamagedFile(
            f"{reason}. There is no {previous} to go on from: delete the file to begin anew"
        ) from None
    except DamagedFile as error:
        raise DamagedFile(f"{reason}. {error}. Delete both to begin anew") from None
    warnings.warn(
        f"{reason}. The run goes on from {previous}, after round {kept.round[0]}",
        RuntimeWarning,
        stacklevel=callers_level(),
    )
    return kept._replace(damaged=damaged)
