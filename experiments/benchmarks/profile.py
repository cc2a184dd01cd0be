"""A warm round by part: the host, oracle calls, sweeps, the certificate; and what a visit costs."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

from experiments.lib.plots import Plot, bar_groups
from experiments.lib.report import Columns, Table, rows_table
from experiments.tasks.benchmarks import Training
from jaxstruct.core.types import Array, PyTree
from jaxstruct.solvers.n_slack.one_device import OneDevice
from jaxstruct.solvers.settings import VisitOptions

PARTS = ("host", "oracle", "sweeps", "certify")
"""host: what is left of the whole."""


def profile_of(training: Training, tolerance: float) -> dict[str, Any]:
    """Processor seconds of the second fit of this process by part, its rounds and its visits.

    `Statistics.seconds` are wall seconds: parts share the processor seconds as they share these.
    """
    training.fit(tolerance)
    start = time.process_time()
    with visits_counted() as visits:
        found = training.fit(tolerance).statistics
    seconds, wall = time.process_time() - start, dict(found.seconds)
    total = wall.pop("total")
    shares = {name: value / total for name, value in wall.items()}
    parts = {name: seconds * shares.get(name, 0.0) for name in PARTS[1:]}
    others = seconds * sum(share for name, share in shares.items() if name not in PARTS)
    parts["host"] = seconds - others - sum(parts.values())
    return {
        "n": training.n, "tolerance": tolerance, "rounds": found.passes, "seconds": seconds,
        "others": others, "visits": sum(visits), **parts,
    }  # fmt: skip


@contextlib.contextmanager
def visits_counted() -> Iterator[list[int]]:
    """Within, every call of sweeps on one device adds its visits of examples to the list."""
    visits: list[int] = []
    sweep = OneDevice.sweep

    def counted(
        self: OneDevice, options: VisitOptions, synchronisations: int, *given: Any
    ) -> tuple[PyTree, Array, Array, Array, list]:
        found = sweep(self, options, synchronisations, *given)
        plan, made = given[3], int(found[3])
        visits.append(made * options.group * sum(int(count) for count in plan.groups))
        return found

    OneDevice.sweep = counted
    try:
        yield visits
    finally:
        OneDevice.sweep = sweep


def profile_table(rows: Sequence[dict[str, Any]]) -> Table:
    """A row a task: milliseconds a round by part, visits a round, microseconds a visit."""

    def a_round(name: str) -> Any:
        return lambda row: 1000 * row[name] / row["rounds"]

    columns: Columns = {
        "task": "task", "n": "n", "gap": "tolerance:g", "rounds": "rounds",
        "s": "seconds", **{("ms a round", name): a_round(name) for name in PARTS},
        "visits a round": lambda row: row["visits"] // row["rounds"],
        "us a visit": lambda row: 1e6 * row["sweeps"] / row["visits"],
    }  # fmt: skip
    notes = [
        "Processor seconds of the second fit of a process, default settings, by the parts of its "
        "wall seconds. host: between programs. A visit is one example in one sweep; what sweeps "
        "take for themselves counts with it."
    ]
    return rows_table("A warm round by part", columns, rows, notes)


def profile_plot(rows: Sequence[dict[str, Any]]) -> Plot:
    """A bar a part, a group a task."""
    series = {name: [1000 * row[name] / row["rounds"] for row in rows] for name in PARTS}
    return bar_groups(
        [row["task"] for row in rows], series, title="A warm round by part", ylabel="ms"
    )
