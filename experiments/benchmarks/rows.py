"""The rows of the table: every task that is measured, in the order of the table; its lines."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from experiments.lib.plots import Plot, bar_groups
from experiments.lib.report import Columns, Table, rows_table
from experiments.tasks.benchmarks import TASKS
from experiments.tasks.users import USER_ROWS

ROWS = {name: task.row() for name, task in TASKS.items()} | USER_ROWS
PREDICTED = "+predict"
"""What is added to the name of a task in the line of training and prediction."""


def peer_key(place: int) -> str:
    """How the names of the numbers of a task's peer begin: peer, peer2, ..."""
    return f"peer{place + 1}" if place else "peer"


def table_of(rows: Sequence[Mapping[str, Any]]) -> Table:
    """A line a task, one more for each further peer, and one with prediction where it counts."""
    columns: Columns = {
        "task": "task", "gap": "tolerance", ("first, s", "whole"): "first",
        ("first, s", "compiling"): "compiling", ("first, s", "programs on disk"): "cached",
        "again, s": "again", "programs": "programs", "peak MB": "peak", "rounds": "rounds",
        "status": "status", "score": "score", ("beside it", "tool"): "tool",
        ("beside it", "s"): "peer", ("beside it", "peak MB"): "peer_peak",
        ("beside it", "score"): "peer_score", "n": "n", "in words": "title",
    }  # fmt: skip
    notes = [
        "Processor seconds, without imports and reading, with default settings, to this relative "
        "gap. first: in a new process; again: once more in it.",
        f"{PREDICTED}: with the prediction of held-out data; score: the share right (trees: F1). "
        ".2: beside a second tool.",
        "Others minimise other objectives (CRFsuite) or stop by other rules; peaks are of "
        "processes that have imported jax.",
    ]
    lines = [line for row in rows for line in _lines(row)]
    return rows_table("What a person waits for", columns, lines, notes)


_BLANK = {"title": ""} | dict.fromkeys((
    "tolerance", "first", "compiling", "cached", "again", "programs", "peak", "rounds", "status",
    "score", "tool", "peer", "peer_peak", "peer_score", "n",
))  # fmt: skip


def _lines(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    scored = row["first_score"] is not None
    for place, theirs in enumerate([*_peers(row)] or [({}, {})]):
        ours = ({}, {}) if place else (_trained(row), _predicted(row))
        names = row["task"], row["task"] + PREDICTED
        for name, mine, other in [*zip(names, ours, theirs, strict=True)][: 1 + scored]:
            yield _BLANK | {"task": f"{name}.{place + 1}" if place else name} | mine | other


def _trained(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "title": row["title"], "n": row["first_n"], "tolerance": f"{row['tolerance']:g}",
        "first": row["first_seconds"], "compiling": row["first_compiling"],
        "cached": row["cached_seconds"], "again": row["first_again"],
        "programs": row["first_programs"], "peak": row["first_peak_memory"] / 2**20,
        "rounds": row["first_passes"], "status": row["first_status"] and str(row["first_status"]),
    }  # fmt: skip


def _predicted(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "first": row["first_everything"], "cached": row["cached_everything"],
        "again": row["first_again_everything"], "score": row["first_score"],
    }  # fmt: skip


def _peers(row: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """(training, training and prediction) of each peer."""
    for key in map(peer_key, itertools.count()):
        if f"{key}_name" not in row:
            return
        memory = row[f"{key}_peak_memory"]
        trained = {
            "tool": row[f"{key}_name"], "peer": row[f"{key}_seconds"],
            "peer_peak": memory and memory / 2**20,
        }  # fmt: skip
        predicted = {"peer": row[f"{key}_everything"], "peer_score": row[f"{key}_score"]}
        yield trained, predicted


def plot_of(rows: Sequence[Mapping[str, Any]]) -> Plot:
    """A bar each for the first peer and our fits, a group a task."""
    series = {
        "peer": [row.get("peer_seconds") or math.nan for row in rows],
        "first fit": [row["first_seconds"] for row in rows],
        "first fit, programs on disk": [row["cached_seconds"] for row in rows],
        "again": [row["first_again"] for row in rows],
    }
    title = "First and later fits, beside other tools"
    return bar_groups([row["task"] for row in rows], series, title=title, ylabel="processor s")
