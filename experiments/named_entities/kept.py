"""One file a training of tables 2 and 3, so that an interrupted run can go on where it stopped.

They lie in OUTPUT/named_entities_folds; see `experiments.lib.kept`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from experiments.lib import kept as lib
from experiments.named_entities.options import Options
from experiments.named_entities.report import Row
from jaxstruct import Status
from jaxstruct.data.conll import Sentence

FOLDER = "named_entities_folds"
DECIDING = (
    "language", "sentences", "folds", "epsilon", "normalise", "epochs", "affixes", "window", "tags",
    "max_passes", "variant", "working_sets", "capacity", "seed", "x64",
)  # fmt: skip
"""Options that decide the numbers of a training; its machine and fold are in the file's name."""

Measured = tuple[dict[str, Any], ...]


def store_of(options: Options, sentences: Sequence[Sentence]) -> lib.Store:
    """Where the trainings on these sentences lie."""
    key = lib.store_key("named_entities", options, DECIDING, sentences)
    return lib.Store(Path(options.output) / FOLDER, key, options.resume)


def kept(store: lib.Store, rows: Sequence[Row], fold: int, train: Callable[[], Any]) -> Measured:
    """The numbers of each of `rows`, the machines of one training, on one fold.

    Args:
      store: where they lie.
      rows: the machines; their names and settings name the file.
      fold: its number.
      train: called where there is no file to go on from.
    """
    return tuple(map(_with_status, lib.kept(store, file_name(rows[0], fold), train)))


def file_name(row: Row, fold: int) -> str:
    """The name of a training's file without its suffix."""
    parts = (row.method, row.variant, row.tokens, row.formulation, row.C and f"C{row.C}")
    words = "_".join(part for part in parts if part)
    return re.sub(r"[^\w.]+", "_", f"{words}_fold{fold}")


def _with_status(numbers: dict[str, Any]) -> dict[str, Any]:
    """Enumeration members are written as their names."""
    status = Status.__members__.get(numbers.get("status", ""))
    return numbers if status is None else numbers | {"status": status}
