"""Checkpoints of several processes: a file each, and the last round that all of them hold.

Each process keeps the part of its own examples, beside what is the same in all. A kill may meet one
before and another after its file took its place. Two files of each are kept, and each takes its
place when all are whole; so some round is in one file of every process.
"""

from __future__ import annotations

import os
import re
import warnings
from pathlib import Path
from typing import Any

from jaxstruct.core.contract import Problem
from jaxstruct.core.origin import callers_level
from jaxstruct.core.types import PyTree
from jaxstruct.solvers.checkpoint_files import DamagedCheckpoint, previous_of
from jaxstruct.solvers.processes import Processes
from jaxstruct.solvers.resuming import Fingerprint, Kept, kept_of, read_kept


def path_of(checkpoint: str | os.PathLike, processes: Processes) -> Path:
    """The file of this process: of several, the name ends with the number of the process."""
    path = Path(checkpoint)
    return path.with_name(f"{path.name}.process{processes.here}") if processes.several else path


def read_together(
    processes: Processes,
    checkpoint: str | os.PathLike,
    problem: Problem,
    outputs: PyTree,
    own: Fingerprint,
    before: Any,
) -> Kept | None:
    """The part of this process of the last round that all of them hold; None where nobody has one.

    Args:
      checkpoint: as the caller names it. others: of `resuming.read_kept`.

    Raises:
      ValueError: as `read_kept` in one process; or there are files, but of another number of
        processes, or no round is in all of them.
    """
    processes.agree(lambda: _check_number(Path(checkpoint), len(processes)))
    path = path_of(checkpoint, processes)
    if not processes.several:
        return read_kept(path, problem, outputs, own, before)
    held = processes.agree(lambda: _held(path, problem, outputs, own, before))
    rounds = processes.gather([list(_round_of(kept)) for kept in held])
    common = set.intersection(*({tuple(each) for each in own_rounds} for own_rounds in rounds))
    if common:
        last = max(common)
        kept = next(kept for kept in held if _round_of(kept) == last)
        if kept is not held[0]:
            _warn(f"the last round that all processes hold is round {last[0]}")
        return kept._replace(damaged=kept is not held[0])
    if not any(rounds):
        return None
    said = "; ".join(
        f"process {number} {_words(each)}"
        for number, each in zip(processes.numbers, rounds, strict=True)
    )
    if max(map(len, rounds)) > 1:
        raise ValueError(
            f"the checkpoints {path_of(checkpoint, processes).parent / Path(checkpoint).name}"
            f".process* hold no round in common: {said}. Bring the missing ones, or name another "
            "file to begin anew"
        )
    _warn(f"the first checkpoint was not whole in all processes: {said}. The run begins anew")
    return None


def _check_number(checkpoint: Path, count: int) -> None:
    """Raise ValueError where there are files of another number of processes."""
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


def _held(
    path: Path, problem: Problem, outputs: PyTree, own: Fingerprint, before: Any
) -> list[Kept]:
    """What the files of this process hold, the newest first; damaged ones are told of."""
    found = []
    for each in (path, previous_of(path)):
        try:
            found.append(kept_of(each, problem, outputs, own, before))
        except FileNotFoundError:
            continue
        except DamagedCheckpoint as error:
            _warn(str(error))
    return found


def _round_of(kept: Kept) -> tuple[int, bool]:
    """After which round, and whether the run had ended."""
    return kept.solution.statistics.passes, kept.standing is None


def _words(rounds: list) -> str:
    numbers = " and ".join(str(each[0]) for each in rounds)
    return f"holds round {numbers}" if rounds else "holds none"


def _warn(words: str) -> None:
    warnings.warn(words, RuntimeWarning, stacklevel=callers_level())
