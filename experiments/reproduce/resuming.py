"""Which tables of an earlier run are there already: `--resume` does not make them again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.lib.common import stopped_path
from experiments.lib.files import to_plain
from experiments.lib.kept import source_hash
from experiments.lib.options import AnyOptions

MADE = ("done", "done before")
"""Statuses of a table whose files are there."""


def key_of(command: str, options: AnyOptions) -> str:
    """What decides a table: its options, and the Python files of jaxstruct and of the command.

    Args:
      command: the folder under `experiments`. options: of its run; where they write and what they
        show decides nothing.
    """
    deciding = {
        name: value
        for name, value in options._asdict().items()
        if name not in ("output", "progress", "compilation_cache", "resume")
    }
    text = json.dumps([source_hash(command), to_plain(deciding)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def rows_before(output: str | Path) -> dict[str, Mapping[str, Any]]:
    """Experiment -> its row in the summary of an earlier run, or in that of one cut short.

    A table that the last run has not made is there from one before it. A file that is none of this
    command counts for nothing.
    """
    rows: dict[str, Mapping[str, Any]] = {}
    for path in (Path(output) / "reproduce.json", stopped_path(output, "reproduce")):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            found = [*content["experiments"], *content.get("earlier", ())]
            rows |= {row["name"]: row for row in found}
        except (OSError, ValueError, TypeError, KeyError):
            continue
    return rows


def still_there(
    before: Mapping[str, Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Rows of the tables that earlier runs made, but for those that this one tried to make."""
    tried = {row["name"] for row in rows if row["status"] in (*MADE, "failed")}
    return [row for name, row in before.items() if name not in tried and row.get("status") in MADE]


def is_there(row: Mapping[str, Any] | None, key: str) -> bool:
    """Whether the table of a row is done, of this key, and its file is still there."""
    if row is None or row.get("status") not in MADE or row.get("key") != key:
        return False
    return bool(row.get("file")) and Path(str(row["file"])).exists()
