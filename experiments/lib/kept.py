"""Trainings kept on disk, so that --resume goes on where an interrupted run stopped.

A file holds the numbers of one training beside a key: all that decides these numbers. With another
key, such as that of an older version of the code, it is not read again.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jax

import jaxstruct
from experiments.lib.files import to_plain, write_results
from experiments.lib.options import AnyOptions
from experiments.lib.record import ROOT

SHARED = ("lib", "tasks")
"""Folders of `experiments` that are no commands."""


class Store(NamedTuple):
    """Where the trainings of a run lie.

    Fields:
      folder: of the files, one a training. key: see `store_key`.
      resume: whether what is there may be read again.
    """

    folder: Path
    key: Mapping[str, Any]
    resume: bool


def store_key(options: AnyOptions, deciding: Sequence[str], data: Any) -> dict[str, Any]:
    """What decides the numbers of all trainings of a run.

    Args:
      options: of the run. deciding: those fields of it that decide.
      data: what is trained and tested on, of types that JSON can hold.

    Returns:
      versions (of jaxstruct and jax), device, source and data (sha256 in hexadecimal digits), and
      options.
    """
    text = json.dumps(to_plain(data), ensure_ascii=True, sort_keys=True)
    return {
        "versions": {"jaxstruct": jaxstruct.__version__, "jax": jax.__version__},
        "device": jax.devices()[0].device_kind,
        "source": source_hash(options.command),
        "data": hashlib.sha256(text.encode()).hexdigest(),
        "options": to_plain({name: getattr(options, name) for name in deciding}),
    }


@cache
def source_hash(command: str) -> str:
    """sha256 of the Python files of jaxstruct, of what commands share, and of the command."""
    room, found = ROOT / "experiments", hashlib.sha256()
    shared = [Path(jaxstruct.__file__).parent, *(room / each for each in SHARED)]
    for place in (*shared, room / command, room / f"{command}.py"):
        for path in [place] if place.is_file() else sorted(place.rglob("*.py")):
            name = f"{place.name}/{path.relative_to(place).as_posix()}"
            found.update(f"{name}\n{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return found.hexdigest()


def kept(store: Store, name: str, train: Callable[[], Any]) -> Any:
    """The numbers of one training, as JSON has them, read again where they may be.

    Args:
      store: where they lie. name: of the file, without its suffix.
      train: called where there is nothing to go on from; its numbers are written at once.
    """
    path = store.folder / f"{name}.json"
    if store.resume and path.exists():
        content = _content(path)
        if content is None:
            reason = "it is no file of this program"
        elif changed := _changed(content["key"], store.key):
            reason = f"other {', '.join(changed)}"
        else:
            return content["numbers"]
        print(f"{path}: trained anew: {reason}", file=sys.stderr)
    numbers = to_plain(train())
    write_results(store.folder, name, {"key": store.key, "numbers": numbers})
    return numbers


def _content(path: Path) -> dict[str, Any] | None:
    """The file's content; None where it has no key or no numbers."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return None
    fits = isinstance(content, dict) and {"key", "numbers"} <= set(content)
    return content if fits and isinstance(content["key"], dict) else None


def _changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The parts in which two keys differ; of the options those that do."""
    parts = [name for name in now if before.get(name) != now[name]]
    if "options" in parts:
        then = before.get("options") or {}
        names = [name for name in now["options"] if then.get(name) != now["options"][name]]
        place = parts.index("options")
        parts[place : place + 1] = [f"--{name}" for name in names] or ["options"]
    return parts
