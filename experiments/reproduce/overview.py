"""What `--list` shows, and how far a run of many experiments has come."""

from __future__ import annotations

import ast
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import experiments
from experiments.lib.report import Table, render

LINE = 100
BY_THEMSELVES = ("reproduce",)


def first_sentence(command: str) -> str:
    """What a command says of itself in its first line; it is read, not imported.

    Args:
      command: a folder under `experiments`.
    """
    path = Path(experiments.__path__[0]) / command / "command.py"
    words = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return words.splitlines()[0].rstrip(".") if words else ""


def commands() -> list[str]:
    """The folders that hold a command."""
    return sorted(path.parent.name for path in Path(experiments.__path__[0]).glob("*/command.py"))


def overview(
    rows: Sequence[Mapping[str, Any]], here: Mapping[str, bool], others: Sequence[str]
) -> Table:
    """All experiments: corpora, time, and what they reproduce.

    Args:
      rows: "name", "corpora", "minutes" (None where nobody has noted them) and "what", each.
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
        "minutes: about, with all compiling, on one or two cores of a machine with other work, or "
        "those of the last run in --output; - where neither is known.",
        "Rows with - for a corpus are commands of their own, python -m experiments.NAME, "
        "which reproduce leaves alone: measurements of speed, and tools for data of your own.",
    ]
    return Table("Experiments", ["experiment", "corpora", "minutes", "what it makes"], body, notes)


def print_overview(table: Table) -> None:
    """The table in lines of at most 100 characters."""
    print(render(table, LINE))


class Course:
    """How far a run has come, and a forecast of the time left from typical minutes."""

    def __init__(self, minutes: Sequence[float | None]) -> None:
        """Start the clock.

        Args:
          minutes: of each experiment of the run, in order; None where they are not known.
        """
        self._minutes = list(minutes)
        self._start, self._ran, self._expected = time.monotonic(), 0.0, 0.0

    def heading(self, place: int, name: str) -> str:
        """The line above an experiment: which one, the time so far, and about how much is left.

        Args:
          place: of the experiment in the run, from 0.
        """
        spent = time.monotonic() - self._start
        left = self._left(place)
        about = "" if left is None else f", about {_minutes(left)} left"
        return f"=== {place + 1}/{len(self._minutes)} {name} ({_minutes(spent)} so far{about})"

    def add(self, place: int, seconds: float) -> None:
        """An experiment that has run to its end in so many seconds."""
        minutes = self._minutes[place]
        if minutes is not None:
            self._ran += seconds / 60
            self._expected += minutes
        self._minutes[place] = seconds / 60

    def _left(self, place: int) -> float | None:
        """Seconds; None where nothing is known. An unknown experiment counts as the median.

        How slow this machine is beside the typical minutes is taken from the experiments that have
        them, and weighs as much as these do: short ones say little of long ones.
        """
        known = sorted(each for each in self._minutes if each is not None)
        if not known:
            return None
        rest = self._minutes[place:]
        typical = sum(each for each in rest if each is not None)
        expected = self._expected + typical
        pace = (self._ran + typical) / expected if expected else 1.0
        return 60 * pace * (typical + rest.count(None) * known[len(known) // 2])


def _minutes(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min"
