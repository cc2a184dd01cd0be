"""Prediction in bulk: records a second of `label_files` on one core and on two devices.

    python -m experiments.bulk_speed

A tagger labels generated sentences, in columns, a classifier of 20 classes generated texts, a line
each. Each run is a process of its own that compiles anew; a quarter of the records and all of them
show whether memory grows. One device is pinned to one core (on Linux), others share all cores; on
CPUs they are virtual ones.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from experiments.bulk_speed import data
from experiments.lib import common, fields
from experiments.lib.options import flag
from experiments.lib.progress import jobs_bar
from experiments.lib.report import rows_table

COLUMNS = {
    "records": "records", "task": "task", "devices": "devices",
    ("seconds", "all"): "seconds", ("seconds", "compiling"): "compiling",
    ("seconds", "processor"): "working",
    ("records a second", "wall"): lambda row: round(row["rate"]),
    ("records a second", "processor"): lambda row: round(row["records"] / row["working"]),
    "peak MB": lambda row: round(row["memory"] / 1e6),
}  # fmt: skip


class Options(fields.Common):
    """The flags of this command."""

    sentences: int = flag(100_000, "Sentences to tag; 0 for none.", least=0)
    texts: int = flag(1_000_000, "Texts to classify; 0 for none.", least=0)
    devices: Sequence[str] = flag(
        ("1", "2"), "Numbers of devices to measure with.", each=int, least=1, some=True
    )


class _Task(NamedTuple):
    name: str
    count: int
    ending: str
    model: Any
    write: Any


def run(options: Options) -> common.Outcome:
    """Write models and files, label them, print the table and write it."""
    common.prepare(options)
    tasks = [
        _Task("sentences", options.sentences, ".conll", data.write_tagger, data.write_sentences),
        _Task("texts", options.texts, ".txt", data.write_classifier, data.write_texts),
    ]
    groups = (_measure(options, task) for task in tasks if task.count)
    rows = common.finished_rows(options, groups)
    notes = [
        "records a second: without compiling; loading the model, reading and writing included. "
        "processor: of all threads of the process, which a busy machine does not slow down."
    ]
    table = rows_table("Prediction in bulk", COLUMNS, rows, notes)
    return common.save(options, table, {"rows": rows})


def _measure(options: Options, task: _Task) -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        model = task.model(Path(folder) / "model", options.seed)
        runs = [(count, int(devices)) for devices in options.devices
                for count in (max(task.count // 4, 1), task.count)]  # fmt: skip
        for count, devices in jobs_bar(runs, task.name, options.progress):
            source = Path(folder) / f"{count}{task.ending}"
            if not source.exists():
                task.write(source, options.seed + 1, count)
            found = _apart(str(model), str(source), folder, devices)
            rate = count / (found["seconds"] - found["compiling"])
            yield {"task": task.name, "devices": devices, "rate": rate, **found}


def _apart(model: str, source: str, folder: str, devices: int) -> dict[str, Any]:
    """One run in a process of its own."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    call = [sys.executable, "-m", "experiments.bulk_speed.part", model, source, folder]
    with _on_one_core() if devices == 1 else contextlib.nullcontext():
        done = subprocess.run(
            [*call, str(devices)], env={**os.environ, "XLA_FLAGS": flags}, check=True,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    return json.loads(done.stdout)


@contextlib.contextmanager
def _on_one_core() -> Iterator[None]:
    """Processes that are started within run on the last core that this one may run on."""
    if not hasattr(os, "sched_setaffinity"):  # of Linux
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
