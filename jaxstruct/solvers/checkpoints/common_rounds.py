"""Which of its files a run goes on from: the last one that is whole, in all of its processes.

Each process keeps a file of its own examples, beside what is the same in all. A kill may meet one
before and another after its file took its place. Two files of each are kept, and each takes its
place when all are whole; so some round is in one file of every process.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jaxstruct.core.archive import DamagedFile
from jaxstruct.core.caller import warn
from jaxstruct.core.processes import Processes
from jaxstruct.solvers.checkpoints.files import previous_of


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
