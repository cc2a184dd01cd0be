"""How time grows with n: trainings of several sizes, and the slope of the logarithms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from experiments.lib.plots import Plot, curve_lines
from experiments.lib.report import Table


class Growth(NamedTuple):
    """How a task grew: sizes, seconds of the warm fit, and the slope of the logarithms."""

    task: str
    sizes: list[int]
    seconds: list[float]

    @property
    def slope(self) -> float:
        """Of log seconds over log n, by least squares; nan for fewer than two sizes."""
        if len(self.sizes) < 2:
            return math.nan
        return float(np.polyfit(np.log(self.sizes), np.log(self.seconds), 1)[0])


def curves_of(rows: Sequence[dict[str, Any]]) -> list[Growth]:
    """The growth of each task of the rows."""
    found = []
    for name in dict.fromkeys(row["task"] for row in rows):
        own = [row for row in rows if row["task"] == name]
        found.append(Growth(name, [row["size"] for row in own], [row["again"] for row in own]))
    return found


def growth_table(rows: Sequence[dict[str, Any]]) -> Table:
    """A row a task and size, and the slopes."""
    columns = ["task", "n", "first fit, s", "again, s", "peak MB", "rounds", "slope"]
    body = [
        [row["task"], row["size"], row["seconds"], row["again"], row["peak_memory"] / 2**20,
         row["passes"], None]
        for row in rows
    ]  # fmt: skip
    body += [[each.task, "all", None, None, None, None, each.slope] for each in curves_of(rows)]
    notes = ["slope: of log seconds (again) over log n. Generated to look like real ones."]
    return Table("How a training grows", columns, body, notes)


def growth_plot(rows: Sequence[dict[str, Any]]) -> Plot:
    """Seconds over n, a curve a task."""
    return curve_lines(
        {each.task: (each.sizes, each.seconds) for each in curves_of(rows)},
        title="Growth with the number of examples", xlabel="examples", ylabel="processor s",
        log_x=True,
    )  # fmt: skip
