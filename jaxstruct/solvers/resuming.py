"""Runs that go on exactly: what a checkpoint holds of a run, and which run may go on from it.

A run is decided by what it was given, its state, and what was best so far: orders are drawn from
[seed, clock]. So a file holds these beside the solution, and a fingerprint of what was given.
"""

from __future__ import annotations

import numbers
import os
import re
import time
import warnings
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from jaxstruct.core.checks import text_of
from jaxstruct.core.compile_clock import compile_clock
from jaxstruct.core.compiling import programs_traced
from jaxstruct.core.contract import Problem
from jaxstruct.core.origin import callers_level
from jaxstruct.core.types import PyTree
from jaxstruct.solvers.checkpoint_files import (
    Checkpoint,
    DamagedCheckpoint,
    File,
    arrays_of,
    digest_of,
    key_paths,
    number_text,
    previous_of,
)
from jaxstruct.solvers.checkpoints import file_of, solution_of
from jaxstruct.solvers.formulations import Formulation
from jaxstruct.solvers.host_loop import Beginning, Best, Rules, Standing, begin
from jaxstruct.solvers.settings import Settings
from jaxstruct.solvers.solution import Solution
from jaxstruct.solvers.task import Task
from jaxstruct.solvers.trace import TRACE_DTYPES, Entry, Trace, trace_of

Fingerprint = dict[str, Any]
"""All that decides the numbers of a run, by name, as JSON has it; arrays by their sha256."""

_ARRAYS = ("problem", "inputs", "outputs", "example_weights", "start")
_STANDING = ("best", "roundings", "certified", "estimate", "seconds", "spent", "planes")
_SPENT = ("time", "processor", "compiled", "programs")
_LOG = ".run.log"


class Kept(NamedTuple):
    """What a checkpoint holds of a run.

    Fields:
      solution: as `load_solution` reads it.
      standing, beginning: where the run goes on, and what its counts are taken from; None where it
        has ended.
      damaged: whether this is the checkpoint before, since the last one is damaged.
    """

    solution: Solution
    standing: Standing | None
    beginning: Beginning | None
    damaged: bool = False

    @property
    def round(self) -> tuple[int, bool]:
        """After which round it was written, and whether the run had ended."""
        return self.solution.statistics.passes, self.standing is None


def _digest(tree: PyTree) -> str:
    """The sha256 of a pytree: its structure, without addresses of functions, and its leaves."""
    structure = re.sub(r" at 0x[0-9a-f]+", "", str(jax.tree.structure(tree)))
    leaves = []
    for name, leaf in key_paths("", tree).items():
        array = np.asarray(leaf)
        if array.dtype.hasobject:
            array = np.frombuffer(re.sub(r" at 0x[0-9a-f]+", "", repr(leaf)).encode(), np.uint8)
        leaves += [np.frombuffer(name.encode(), np.uint8), array]
    return digest_of(np.frombuffer(structure.encode(), np.uint8), *leaves)


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
    settings: Settings,
    formulation: Formulation,
    rules: Rules,
    min_margin: float,
) -> Fingerprint:
    """The part of a fingerprint that is the same in all processes of a run.

    Args:
      settings: resolved. others: of the run.
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
    return own | {"problem": _digest(problem)}


def fingerprint(
    common: Fingerprint,
    task: Task,
    mesh: Mesh | None,
    example_weights: np.ndarray | None,
    start: Solution | None,
) -> Fingerprint:
    """What decides the numbers of a run of `fit`, but for the code of functions.

    Args:
      common: of `in_common`. task: with the examples of this process.
      mesh: None for the one device that the task is on. start: what the run was started from.
    """
    if mesh is None:
        devices = {found for leaf in jax.tree.leaves(task.outputs) for found in leaf.devices()}
    else:
        devices = set(mesh.devices.flat)
    processes = sorted({device.process_index for device in devices})
    kinds = {f"{device.platform} {device.device_kind}" for device in devices}
    weights = None if example_weights is None else np.asarray(example_weights, np.float64)
    plain = {
        "device": ", ".join(sorted(kinds)),
        "devices": len(devices),
        "processes": len(processes),
        "process": processes.index(jax.process_index()),
        "cores": _cores() if any(device.platform == "cpu" for device in devices) else None,
        "XLA_FLAGS": os.environ.get("XLA_FLAGS"),
    }
    arrays = (task.inputs, task.outputs, weights, start and (start.state, start.C))
    digests = [None if tree is None else _digest(tree) for tree in arrays]
    return plain | common | dict(zip(_ARRAYS[1:], digests, strict=True))


def _differences(before: Mapping[str, Any], now: Fingerprint) -> list[str]:
    """What differs between two runs, in words."""
    names = [name for name in {**now, **before} if before.get(name) != now.get(name)]
    return [
        f"other {name}"
        if name in _ARRAYS
        else f"{name} was {text_of(before.get(name))}, is {text_of(now.get(name))}"
        for name in names
    ]


def run_file(
    solution: Solution, now: Standing, beginning: Beginning, own: Fingerprint, state: Any
) -> File:
    """The checkpoint of a run that goes on.

    Args:
      solution: what it has so far. now, beginning: where it stands, and of `begin`.
      own: its fingerprint. state: what the next round begins with.
    """
    header, arrays = file_of(solution._replace(state=state))
    best, certified = now.best, now.best.certificate is not None
    spent = (
        time.perf_counter() - beginning.time,
        time.process_time() - beginning.processor,
        compile_clock().read().wall - beginning.compiled,
        programs_traced() - beginning.programs,
    )
    header["run"] = {
        "fingerprint": own,
        "standing": {
            "best": [number_text(value) for value in (best.primal, best.dual, best.primal_found)],
            "roundings": [number_text(value) for value in best.roundings],
            "certified": certified,
            "estimate": number_text(now.estimate),
            "seconds": now.seconds,
            "spent": dict(zip(_SPENT, spent, strict=True)),
            "planes": beginning.planes,
        },
    }
    arrays |= arrays_of(_LOG, trace_of(now.log))
    if certified:
        arrays |= arrays_of(".run.slack", best.slack)
    else:
        arrays |= arrays_of(".run.weights", best.weights)
    return header, arrays


def end_file(solution: Solution, own: Fingerprint) -> File:
    """The checkpoint of a run that has ended."""
    header, arrays = file_of(solution)
    return header | {"run": {"fingerprint": own, "standing": None}}, arrays


def _standing(checkpoint: Checkpoint, problem: Problem, solution: Solution) -> Standing:
    entries = checkpoint.header["run"]["standing"]
    primal, dual, primal_found, *roundings = map(float, [*entries["best"], *entries["roundings"]])
    best = Best(primal, dual, solution.weights, primal_found, (roundings[0], roundings[1]))
    if entries["certified"]:
        slack = checkpoint.array(".run.slack")
        best = best._replace(certificate=solution.certificate, slack=slack)
    else:
        best = best._replace(weights=checkpoint.weights(".run.weights", problem))
    columns = [checkpoint.array(f"{_LOG}.{name}") for name in Trace._fields]
    if [column.dtype for column in columns] != [np.dtype(kind) for kind in TRACE_DTYPES]:
        raise checkpoint.error(f"has a log of other columns than {Trace._fields}")
    rounds = zip(*(column.tolist() for column in columns), strict=True)
    log = [Entry(*row) for row in rounds]
    return Standing(solution.state, best, float(entries["estimate"]), entries["seconds"], log)


def _kept(
    checkpoint: Checkpoint, problem: Problem, outputs: PyTree, own: Fingerprint, before: Any
) -> Kept:
    if "run" not in checkpoint.header:
        raise checkpoint.error(
            "holds no run to resume, as fit(checkpoint=...) writes it: where it is a solution, "
            "start from it by start=load_solution(path, problem)"
        )
    run = checkpoint.record("run", ("fingerprint", "standing"))
    differ = _differences(run["fingerprint"], own)
    if differ:
        raise checkpoint.error(
            f"is of another run: {'; '.join(differ)}. Give what it was made with, name another "
            "file, or start from what it has found by start=load_solution(path, problem)"
        )
    solution = solution_of(checkpoint, problem, outputs)
    if run["standing"] is None:
        return Kept(solution, None, None)
    if set(run["standing"]) != set(_STANDING):
        raise checkpoint.error(f"has a standing of {sorted(run['standing'])}")
    spent = run["standing"]["spent"]
    start = begin(run["standing"]["planes"], before)
    start = start._replace(**{name: getattr(start, name) - spent[name] for name in _SPENT})
    return Kept(solution, _standing(checkpoint, problem, solution), start)


def kept_of(
    path: str | os.PathLike, problem: Problem, outputs: PyTree, own: Fingerprint, before: Any
) -> Kept:
    """The run that one file holds; arguments as in `read_kept`.

    Raises:
      FileNotFoundError: it is not there. Others: as `read_kept`.
    """
    return _kept(Checkpoint(path), problem, outputs, own, before)


def read_kept(
    path: str | os.PathLike, problem: Problem, outputs: PyTree, own: Fingerprint, before: Any
) -> Kept | None:
    """The run that a checkpoint holds, or the checkpoint before it; None where neither is there.

    Where the last one is damaged or missing, and the one before is not, a warning says so.

    Args:
      path: of the checkpoint. outputs: of one bucket, for their structure.
      own: the fingerprint of the run that wants to go on. before: the trace that it continues.

    Raises:
      DamagedCheckpoint: no checkpoint is whole.
      ValueError: it is of another run, or holds none.
    """
    previous = previous_of(path)
    try:
        return _kept(Checkpoint(path), problem, outputs, own, before)
    except FileNotFoundError:
        if not previous.exists():
            return None
        reason, damaged = f"checkpoint {os.fspath(path)} is not there", False
    except DamagedCheckpoint as error:
        reason, damaged = str(error), True
    try:
        kept = _kept(Checkpoint(previous), problem, outputs, own, before)
    except FileNotFoundError:
        raise DamagedCheckpoint(
            f"{reason}. There is no {previous} to go on from: delete the file to begin anew"
        ) from None
    except DamagedCheckpoint as error:
        raise DamagedCheckpoint(f"{reason}. {error}. Delete both to begin anew") from None
    rounds = kept.solution.statistics.passes
    warnings.warn(
        f"{reason}. The run goes on from {previous}, after round {rounds}",
        RuntimeWarning,
        stacklevel=callers_level(),
    )
    return kept._replace(damaged=damaged)
