"""Runs that go on exactly: what a checkpoint holds of a run, and which run may go on from it.

A run is decided by what it was given, its state, and what was best so far: orders are drawn from
[seed, clock]. So a file holds these beside the solution, and a fingerprint of what was given.

Of several processes each keeps a file of its own examples, beside what is the same in all. A kill
may meet one before and another after its file took its place. Two files of each are kept, and each
takes its place when all are whole; so some round is in one file of every process.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxstruct.core.archive import DamagedFile
from jaxstruct.core.checks import text_of, warn
from jaxstruct.core.contract import Problem
from jaxstruct.core.processes import Processes
from jaxstruct.solvers.checkpoints.run_state import Checkpoint, digest_of_tree, previous_of
from jaxstruct.solvers.loop.host_loop import Rules, RunState, StartCounters, begin
from jaxstruct.solvers.loop.trace import Trace
from jaxstruct.solvers.objective.formulations import Formulation
from jaxstruct.solvers.settings import ResolvedSettings
from jaxstruct.solvers.solution import Solution

Fingerprint = dict[str, Any]
"""All that decides the numbers of a run, by name, as JSON has it; arrays by their sha256."""

_ARRAYS = ("problem", "inputs", "outputs", "example_weights", "start")
_SPENT = ("time", "processor", "compiled", "programs")


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


def _by_name(name: str, value: Any) -> Fingerprint:
    """{name: value} of a setting, or of every field of a record of settings."""
    if hasattr(value, "_asdict"):
        parts = [_by_name(f"{name}.{key}", part) for key, part in value._asdict().items()]
        return {key: part for each in parts for key, part in each.items()}
    return {name: value.item() if hasattr(value, "item") else value}


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


def run_differences(before: Mapping[str, Any], now: Fingerprint) -> list[str]:
    """What differs between two runs, in words."""
    names = [name for name in {**now, **before} if before.get(name) != now.get(name)]
    return [
        f"other {name}"
        if name in _ARRAYS
        else f"{name} was {text_of(before.get(name))}, is {text_of(now.get(name))}"
        for name in names
    ]


def since(start: StartCounters, now: StartCounters) -> StartCounters:
    """By how much the clocks and counts of a run have moved."""
    moved = {name: getattr(now, name) - getattr(start, name) for name in _SPENT}
    return start._replace(**moved, trace=None)


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
    before_now = checkpoint.part("fingerprint")
    if before_now is None:
        raise checkpoint.error(
            "holds no run to resume, as fit(checkpoint=...) writes it: where it is a solution, "
            "start from it by start=load_solution(path, problem)"
        )
    differ = run_differences(before_now, own)
    if differ:
        raise checkpoint.error(
            f"is of another run: {'; '.join(differ)}. Give what it was made with, name another "
            "file, or start from what it has found by start=load_solution(path, problem)"
        )
    run = checkpoint.part("run", problem.initial_weights)
    solution, state = read(checkpoint, run is None)
    if run is None:
        return Kept(solution, None, None)
    spent: StartCounters = checkpoint.part("counters")
    start = since(spent, begin(spent.planes, before))._replace(trace=before)
    return Kept(solution, run._replace(state=state), start)


def path_of(checkpoint: str | os.PathLike, processes: Processes) -> Path:
    """The file of this process: of several, the name ends with the number of the process."""
    path = Path(checkpoint)
    return path.with_name(f"{path.name}.process{processes.here}") if processes.several else path


def check_number(checkpoint: str | os.PathLike, processes: Processes) -> None:
    """Raise ValueError where there are files of another number of processes."""
    checkpoint, count = Path(checkpoint), len(processes)
    ours = re.compile(rf"{re.escape(checkpoint.name)}\.process(\d+)(\.previous)?")
    folder = checkpoint.parent
    found = [match for each in folder.iterdir() if (match := ours.fullmatch(each.name))]
    more = [match[0] for match in found if int(match[1]) >= count or count == 1]
    if count > 1 and checkpoint.exists():
        more.append(checkpoint.name)
    if more:
        raise ValueError(
            f"checkpoint {checkpoint} was written by another number of processes than {count}: "
            f"there is {folder / sorted(more)[0]}. Resume with as many as then, or name another "
            "file"
        )


def last_whole(processes: Processes, path: Path, read: Callable[[Path], Any]) -> Any:
    """The part of this process of the last round that all of them hold; None where nobody has one.

    Where that is not the newest, a warning says why.

    Args:
      path: of `path_of`. read: a file -> its `resuming.Kept`, or an error of `resuming.kept_in`.

    Returns:
      The `Kept`, `damaged` where the file in `path` is not worth to be kept.

    Raises:
      DamagedFile: there are files, none of them whole. ValueError: a file of one process does not
        fit the run, or no round is in all of them.
    """
    held, faults = processes.agree(lambda: _held(path, read, processes.several))
    every = processes.gather([[list(kept.round) for kept in held.values()], faults])
    rounds = [{tuple(each) for each in own} for own, _ in every]
    if last := max(set.intersection(*rounds), default=None):
        place = next(place for place, kept in held.items() if kept.round == last)
        if place != path:
            reason = ". ".join(faults) or f"checkpoint {path} is not there"
            if path in held:
                reason = "the processes hold different rounds"
            warn(f"{reason}. The run goes on from {place}, after round {last[0]}", RuntimeWarning)
        return held[place]._replace(damaged=place != path and (path in held or bool(faults)))
    if not any(rounds) and any(wrong for _, wrong in every):
        words = ". ".join(fault for _, wrong in every for fault in wrong)
        raise DamagedFile(f"{words}. None is whole: delete them to begin anew")
    said = "; ".join(
        f"process {number} {_words(own)}"
        for number, (own, _) in zip(processes.numbers, every, strict=True)
    )
    if max(map(len, rounds)) > 1:
        raise ValueError(
            f"the checkpoints {path.with_suffix('')}.process* hold no round in common: {said}. "
            "Bring the missing ones, or name another file to begin anew"
        )
    if any(rounds):
        words = f"the first checkpoint was not whole in all processes: {said}"
        warn(f"{words}. The run begins anew", RuntimeWarning)
    return None


def _held(path: Path, read: Callable[[Path], Any], both: bool) -> tuple[dict[Path, Any], list[str]]:
    """What the files of this process hold, the newest first, and the faults of damaged ones; both:
    whether the one before is read where the newest is whole."""
    found, faults = {}, []
    for each in (path, previous_of(path)):
        try:
            found[each] = read(each)
        except FileNotFoundError:
            continue
        except DamagedFile as error:
            faults.append(str(error))
        if found and not both:
            break
    return found, faults


def _words(rounds: list) -> str:
    numbers = " and ".join(str(each[0]) for each in rounds)
    return f"holds round {numbers}" if rounds else "holds none"
