"""One file a training of tables 2 and 3, so that an interrupted run can go on where it stopped.

They lie in OUTPUT/named_entities_folds. A file is read again only with --resume, and only where
the options that decide its numbers are what they were.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from experiments.files import to_plain, write_results
from experiments.named_entities_report import Row
from jaxstruct import Status

FOLDER = "named_entities_folds"
DECIDING = (
    "path", "language", "sentences", "folds", "epsilon", "normalise", "epochs", "affixes",
    "window", "tags", "buckets", "max_passes", "variant", "working_sets", "capacity", "seed", "x64",
)  # fmt: skip
"""Options that decide the numbers of a training; its machine and fold are in the file's name."""

Measured = tuple[dict[str, Any], ...]


def kept(options: NamedTuple, rows: Sequence[Row], fold: int, train: Callable[[], Any]) -> Measured:
    """The numbers of each of `rows`, the machines of one training, on one fold.

    Args:
      options: as `DECIDING` names them, and `output` and `resume`.
      rows: the machines; their names and settings name the file.
      fold: its number.
      train: called where there is no file to go on from; its numbers are written at once.
    """
    settings = {name: getattr(options, name) for name in DECIDING}
    folder, name = Path(options.output) / FOLDER, file_name(rows[0], fold)
    found = _read(folder / f"{name}.json", settings, len(rows)) if options.resume else None
    if found is None:
        found = tuple(train())
        write_results(folder, name, {"settings": settings, "numbers": found})
    return found


def file_name(row: Row, fold: int) -> str:
    """The name of a training's file without its suffix."""
    parts = (row.method, row.variant, row.tokens, row.formulation, row.C and f"C{row.C}")
    words = "_".join(part for part in parts if part)
    return re.sub(r"[^\w.]+", "_", f"{words}_fold{fold}")


def _read(path: Path, settings: dict[str, Any], count: int) -> Measured | None:
    """What the file holds; None where there is none, or one of other settings."""
    if not path.exists():
        return None
    content = json.loads(path.read_text(encoding="utf-8"))
    if content["settings"] != to_plain(settings) or len(content["numbers"]) != count:
        return None
    return tuple(_with_status(numbers) for numbers in content["numbers"])


def _with_status(numbers: dict[str, Any]) -> dict[str, Any]:
    """Enumeration members are written as their names."""
    status = numbers.get("status")
    return numbers | ({"status": Status[status]} if status in Status.__members__ else {})
