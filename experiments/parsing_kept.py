"""One file a training of the parsing table, so that an interrupted run can go on where it stopped.

They lie in OUTPUT/parsing_trainings, with the model beside the numbers. A file is read again only
with --resume, and only where the options that decide its numbers are what they were.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from experiments.files import to_plain, write_results
from jaxstruct import Status

FOLDER = "parsing_trainings"
DECIDING = (
    "corpus", "path", "test_part", "train_trees", "test_trees", "shortest", "longest",
    "sentences", "terminals", "rare", "branching", "memory", "buckets", "loss", "measure",
    "smoothing", "epsilon", "max_passes", "oracle_batch", "group", "chunks", "variant",
    "working_sets", "capacity", "seed", "x64",
)  # fmt: skip
"""Options that decide the numbers of a training; its method is in the file's name."""


def kept(
    options: NamedTuple, label: str, train: Callable[[Path], dict[str, Any]]
) -> dict[str, Any]:
    """The numbers of one training, read again where they may be.

    Args:
      options: as `DECIDING` names them, and `output` and `resume`.
      label: of the method; it names the file.
      train: called where there is no file to go on from, with the path that its model may be
        written under; its numbers are written at once.
    """
    settings = to_plain({name: getattr(options, name) for name in DECIDING})
    folder, name = Path(options.output) / FOLDER, re.sub(r"[^\w.]+", "_", label)
    found = _read(folder / f"{name}.json", settings) if options.resume else None
    if found is None:
        found = train(folder / name)
        write_results(folder, name, {"settings": settings, "numbers": found})
        found = to_plain(found)
    return found | ({"status": Status[found["status"]]} if "status" in found else {})


def _read(path: Path, settings: dict[str, Any]) -> dict[str, Any] | None:
    """What the file holds; None where there is none, or one of other settings."""
    if not path.exists():
        return None
    content = json.loads(path.read_text(encoding="utf-8"))
    return content["numbers"] if content["settings"] == settings else None
