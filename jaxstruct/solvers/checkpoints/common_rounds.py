"""Checkpoints of several processes: a file each, and the last round that all of them hold.

Each process keeps the part of its own examples, beside what is the same in all. A kill may meet one
before and another after its file took its place. Two files of each are kept, and each takes its
place when all are whole; so some round is in one file of every process.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from jaxstruct.core.archive import DamagedFile
from jaxstruct.core.caller import callers_level
from jaxstruct.core.processes import Processes
from jaxstruct.solvers.checkpoints.files import previous_of


class OfARound(Protocol):
    """What a file holds: the `resuming.Kept` of a run."""

    @property
    def round(self) -> tuple[int, bool]:
        """After which round it was written, and whether the run had ended."""
        ...


Kept = TypeVar("Kept", bound=OfARound)


class Found(NamedTuple):
    """The part of this process of the last round that all hold; newer: whether its last file holds
    another one, or is damaged."""

    kept: Any
    newer: bool


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


def read_together(processes: Processes, path: Path, read: Callable[[Path], Kept]) -> Found | None:
    """The part of this process of the last round that all of them hold; None where nobody has one.

    Args:
      path: of `path_of`. read: a file; its errors are of `resuming.kept_of`.

    Raises:
      ValueError: a file of one process does not fit the run, or no round is in all of them.
    """
    held = processes.agree(lambda: _held(path, read))
    rounds = processes.gather([list(kept.round) for kept in held.values()])
    common = set.intersection(*({tuple(each) for each in of_one} for of_one in rounds))
    if common:
        last = max(common)
        place = next(place for place, kept in held.items() if kept.round == last)
        if place != path:
            _warn(f"the last round that all processes hold is round {last[0]}")
        return Found(held[place], place != path)
    if not any(rounds):
        return None
    said = "; ".join(
        f"process {number} {_words(each)}"
        for number, each in zip(processes.numbers, rounds, strict=True)
    )
    if max(map(len, rounds)) > 1:
        raise ValueError(
            f"the checkpoints {path.with_suffix('')}.process* hold no round in common: {said}. "
            "Bring the missing ones, or name another file to begin anew"
        )
    _warn(f"the first checkpoint was not whole in all processes: {said}. The run begins anew")
    return None


def _held(path: Path, read: Callable[[Path], Kept]) -> dict[Path, Kept]:
    """What the files of this process hold, the newest first; of damaged ones it warns."""
    found = {}
    for each in (path, previous_of(path)):
        try:
            found[each] = read(each)
        except FileNotFoundError:
            continue
        except DamagedFile as error:
            _warn(str(error))
    return found


def _words(rounds: list) -> str:
    numbers = " and ".join(str(each[0]) for each in rounds)
    return f"holds round {numbers}" if rounds else "holds none"


def _warn(words: str) -> None:
    warnings.warn(words, RuntimeWarning, stacklevel=callers_level())
