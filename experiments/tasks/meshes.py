"""Trainings on several devices: rounds, seconds and optima as the number of shards grows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import jax

from experiments.lib.plots import Plot, curve_lines
from experiments.lib.report import Columns, Table, rows_table
from experiments.tasks.benchmarks import Training
from jaxstruct import Solution, fit


def have_devices(count: int) -> None:
    """Let the processor stand for so many devices; before anything else of jax runs.

    Raises:
      RuntimeError: jax has begun already.
    """
    jax.config.update("jax_num_cpu_devices", count)


def mesh_row(training: Training, shards: int, tolerance: float) -> dict[str, Any]:
    """Rounds, primal and dual of a training on so many devices, seconds of the first and the next.

    Raises:
      ValueError: there are fewer devices.
    """
    if jax.device_count() < shards:
        raise ValueError(f"shards is {shards}, but there are {jax.device_count()} devices")
    mesh = jax.make_mesh((shards,), ("shards",), devices=jax.devices()[:shards])
    first, first_wall, _ = _solve(training, mesh, tolerance)
    again, wall, processor = _solve(training, mesh, tolerance)
    return {
        "shards": shards, "n": training.n, "tolerance": tolerance,
        "rounds": first.statistics.passes,
        "primal": first.primal, "dual": first.dual, "status": str(first.status),
        "first_wall": first_wall, "again_wall": wall, "again_seconds": processor,
        "again_programs": again.statistics.compilations,
    }  # fmt: skip


def _solve(
    training: Training, mesh: jax.sharding.Mesh, tolerance: float
) -> tuple[Solution, float, float]:
    wall, processor = time.perf_counter(), time.process_time()
    solution = fit(
        training.problem, training.inputs, training.outputs, training.formulation, training.C,
        tolerance=tolerance, mesh=mesh,
    )  # fmt: skip
    jax.block_until_ready(solution.weights)
    return solution, time.perf_counter() - wall, time.process_time() - processor


def mesh_table(rows: Sequence[dict[str, Any]]) -> Table:
    """A row a task and number of shards."""
    columns: Columns = {
        "task": "task", "n": "n", "gap": "tolerance:g",
        **{name: name for name in ("shards", "rounds", "primal", "dual", "status")},
        ("wall s", "first"): "first_wall", ("wall s", "again"): "again_wall",
        ("processor s", "again"): "again_seconds",
    }  # fmt: skip
    notes = [
        "To this relative gap, default settings. Devices are threads of this processor: more of "
        "them than cores say how rounds grow, not how fast they are."
    ]
    for task in dict.fromkeys(row["task"] for row in rows):
        own = [row for row in rows if row["task"] == task]
        if len(own) > 1:
            notes.append(f"{task}: optima differ by {difference(own):.1e} at most, relative.")
    return rows_table("Shards", columns, rows, notes)


def difference(rows: Sequence[dict[str, Any]]) -> float:
    """The largest relative difference of two certified optima: of primals or of duals."""
    found = []
    for name in ("primal", "dual"):
        values = [row[name] for row in rows]
        found.append((max(values) - min(values)) / abs(max(values)))
    return max(found)


def mesh_plot(rows: Sequence[dict[str, Any]]) -> Plot:
    """Rounds by the number of shards."""
    curves = {}
    for name in dict.fromkeys(row["task"] for row in rows):
        own = [row for row in rows if row["task"] == name]
        curves[name] = [row["shards"] for row in own], [row["rounds"] for row in own]
    return curve_lines(
        curves, title="Rounds by the number of shards", xlabel="shards", ylabel="rounds",
        log_x=True, log_y=False, ticks=sorted({row["shards"] for row in rows}),
    )  # fmt: skip
