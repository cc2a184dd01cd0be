"""What `--list` shows, and how far a run of many experiments has come."""

from __future__ import annotations

import ast
import hashlib
import json
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments import command_file
from experiments.lib.common import stopped_path
from experiments.lib.files import to_plain
from experiments.lib.kept import source_hash
from experiments.lib.options import AnyOptions
from experiments.lib.report import Table, render

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
        for name, value in options.values().items()
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


LINE = 100
BY_THEMSELVES = ("reproduce",)


def first_sentence(command: str) -> str:
    """What a command says of itself in its first line; it is read, not imported."""
    file = command_file(command)
    words = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) if file else None
    return words.splitlines()[0].rstrip(".") if words else ""


def overview(
    rows: Sequence[Mapping[str, Any]], here: Mapping[str, bool], others: Sequence[str]
) -> Table:
    """All experiments: corpora, time, and what they reproduce.

    Args:
      rows: "name", "corpora", "minutes" and "what", each.
      here: corpus -> whether this machine has it.
      others: commands that `reproduce` does not run.
    """
    body = []
    for row in rows:
        corpora = [name if here[name] else f"{name} (not here)" for name in row["corpora"]]
        minutes = None if row["minutes"] is None else f"{row['minutes']:g}"
        body.append([row["name"], ", ".join(corpora) or "none", minutes, row["what"]])
    body += [[name, None, None, first_sentence(name)] for name in others]
    notes = [
        "minutes: of the last run in --output, else about those of a desktop-class core in "
        "November 2026, compiling included; a machine with other work takes longer.",
        "Rows with - for a corpus are commands of their own, python -m experiments.NAME, "
        "which reproduce leaves alone: measurements of speed, and tools for data of your own.",
    ]
    return Table("Experiments", ["experiment", "corpora", "minutes", "what it makes"], body, notes)


def print_overview(table: Table) -> None:
    """The table in lines of at most 100 characters."""
    print(render(table, LINE))


class Course:
    """How far a run has come, and a forecast of the time left from typical minutes."""

    def __init__(self, minutes: Sequence[float]) -> None:
        """Start the clock.

        Args:
          minutes: what each experiment of the run takes elsewhere, in order.
        """
        self._minutes, self._start = list(minutes), time.monotonic()
        self._paces: list[tuple[float, float]] = []

    def heading(self, place: int, name: str) -> str:
        """The line above an experiment: which one, the time so far, and about how much is left.

        Args:
          place: of the experiment in the run, from 0.
        """
        spent = _duration(time.monotonic() - self._start)
        left = _duration(self.left(place))
        return f"=== {place + 1}/{len(self._minutes)} {name} ({spent} so far, about {left} left)"

    def left(self, place: int) -> float:
        """Seconds that the experiments from this one on will take about."""
        return 60 * self._pace() * sum(self._minutes[place:])

    def add(self, minutes: float, seconds: float) -> None:
        """Count an experiment that takes so many minutes elsewhere, and took so many seconds."""
        # how far one experiment is from the machine's pace: compiling, which the disk may keep,
        # decides those of less than a minute
        precision = 1 / (0.05 + 0.02 / minutes)
        self._paces.append((math.log(max(seconds, 1e-3) / 60 / minutes), precision))

    def _pace(self) -> float:
        """How slow this machine is: the mean logarithm of the ratios to typical minutes.

        Before an experiment is done machines are thought to differ by a factor of 4 (one standard
        deviation), which weighs as a ratio of 1.
        """
        weight = math.log(4) ** -2 + sum(precision for _, precision in self._paces)
        return math.exp(sum(ratio * precision for ratio, precision in self._paces) / weight)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min"
