"""Every oracle and five trainings on this machine's accelerator, beside its CPU.

    python -m experiments.gpu
    python -m experiments.gpu --families=chains --sizes=1 --batch=65536

The cases of `experiments.oracle_speed`. The accelerator, the CPU and the truth (the CPU in float64)
have a process each, the CPU's with JAX_PLATFORMS=cpu; wall seconds, the least of all calls. Answers
of the accelerator are held against the truth: the largest error of a score relative to 1 + its
size, and the share of whole numbers (labels, heads) that differ, as those of ties may. Trainings
run where `fit` chooses, which is the CPU for small inputs, and on the accelerator itself.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from experiments.lib import common, fields
from experiments.lib.apart import run_apart, write_part
from experiments.lib.options import flag
from experiments.lib.plots import Plot, factors_across
from experiments.lib.record import compile_ahead, in_turns
from experiments.lib.report import Table, rows_table
from experiments.tasks.benchmarks import TASKS
from experiments.tasks.oracle_cases import FAMILIES

PARTS = ("accelerator", "cpu", "truth")
FITS = ("digits", "digits_large_C", "texts", "sentences", "points")
"""Trainings of `experiments.benchmarks` without a corpus."""
COLUMNS = {
    "family": "family", "size": "size", "program": "program",
    ("a second", "CPU"): "cpu", ("a second", "accelerator"): "accelerator",
    "times the CPU": "times", "error": "error", "differ": "differ",
}  # fmt: skip


class Options(fields.Common):
    """The flags of this command."""

    families: Sequence[str] = flag(tuple(FAMILIES), "Some of these.", FAMILIES, some=True)
    sizes: int = flag(2, "How many sizes of each, from the smallest on.", least=1)
    batch: int = flag(1024, "Items in one call.", least=1)
    repeats: int = flag(2, "Timed calls of each program.", least=1)
    fits: Sequence[str] = flag(FITS, "Trainings: some of these, or none.", FITS)
    tolerance: float = flag(1e-3, "Relative duality gap of trainings.", above=0)
    part: str = flag("", "Measure this here, for another run.", ["", *PARTS])
    compilation_cache: bool = False


def run(options: Options) -> common.Outcome | None:
    """Measure the parts, print the table and write it."""
    if options.part:
        return write_part(options, _name(options.part), partial(_rows, options.part))
    common.prepare(options)
    found = {part: run_apart(*_apart(options, part)) for part in PARTS}
    rows = [_beside(*each) for each in zip(*(found[part] for part in PARTS), strict=True)]
    device = found["accelerator"][0]["device"]
    table = _table(options, rows, device)
    return common.save(options, table, {"device": device, "rows": rows}, {"gpu": _plot(rows)})


def _name(part: str) -> str:
    return f"gpu_{part}"


def _apart(options: Options, part: str) -> tuple[Options, str, dict[str, str]]:
    """The options, the file and the environment of the process that measures a part."""
    own = options.replace(part=part, x64=options.x64 or part == "truth")
    return own, _name(part), {} if part == "accelerator" else {"JAX_PLATFORMS": "cpu"}


def _rows(part: str, options: Options) -> list[dict[str, Any]]:
    """What one process measures; of the truth the answers alone.

    Raises:
      ValueError: there is no accelerator.
    """
    device = jax.devices()[0]
    if part == "accelerator" and device.platform == "cpu":
        raise ValueError(
            "jax sees no accelerator here, jax.devices() are CPUs: install the jax of your card"
        )
    repeats = 0 if part == "truth" else options.repeats
    cases = [(family, size) for family in options.families
             for size in FAMILIES[family][1][: options.sizes]]  # fmt: skip
    rows = [row for case in cases for row in _oracles(options, repeats, *case)]
    rows += [row for name in options.fits for row in _trainings(options, repeats, name)]
    for number, row in enumerate(rows):
        path = Path(options.output) / f"{_name(part)}_{number}.npz"
        np.savez(path, *row.pop("answer"))
        row |= {"device": device.device_kind, "answer": str(path)}
    return rows


def _oracles(
    options: Options, repeats: int, family: str, size: tuple[int, ...]
) -> Iterator[dict[str, Any]]:
    dtype = "float64" if options.x64 else "float32"
    case = FAMILIES[family][0](
        np.random.default_rng([options.seed, *size]), options.batch, dtype, *size
    )
    for name, call in case.ours.items():
        program = partial(compile_ahead(call, *case.data).call, *case.data)
        seconds = in_turns([program], repeats)[:, 0, 0].min() if repeats else np.nan
        yield {
            "family": family, "size": " x ".join(map(str, size)), "program": name,
            "rate": float(case.count / seconds),
            "answer": jax.tree.leaves(jax.device_get(program())),
        }  # fmt: skip


def _trainings(options: Options, repeats: int, name: str) -> Iterator[dict[str, Any]]:
    """First and warm trainings, where `fit` chooses the device and on the first device itself."""
    task = TASKS[name]
    training = task.prepare(task.size, "float64" if options.x64 else "float32")
    itself = jax.default_device(jax.devices()[0])
    for where, device in (("", contextlib.nullcontext()), (" on the device itself", itself)):
        with device:
            for program in ("first fit", "warm fit"):
                start = time.perf_counter()
                solution = training.fit(options.tolerance)
                rate = 1 / (time.perf_counter() - start) if repeats else np.nan
                yield {
                    "family": "fit", "size": name, "program": program + where, "rate": rate,
                    "answer": [np.array([solution.primal, solution.dual])],
                }  # fmt: skip


def _beside(accelerator: dict, cpu: dict, truth: dict) -> dict[str, Any]:
    """A row of the table of the rows of the three processes."""
    error, differ = 0.0, 0.0
    with np.load(accelerator["answer"]) as found, np.load(truth["answer"]) as right:
        for name in right.files:
            a, b = found[name], right[name]
            if np.issubdtype(b.dtype, np.floating):
                same = a == b  # infinities
                off = np.where(same, 0, a - b) / (1 + np.abs(np.where(same, 0, b)))
                error = max(error, float(np.abs(off).max(initial=0)))
            else:
                differ = max(differ, float(np.mean(a != b)) if a.size else 0.0)
    for one in (accelerator, cpu, truth):
        Path(one["answer"]).unlink()
    return {
        **{name: cpu[name] for name in ("family", "size", "program")},
        "cpu": cpu["rate"], "accelerator": accelerator["rate"],
        "times": accelerator["rate"] / cpu["rate"], "error": error, "differ": differ,
    }  # fmt: skip


def _table(options: Options, rows: list[dict[str, Any]], device: str) -> Table:
    kind = "float64" if options.x64 else "float32"
    notes = [
        f"Accelerator: {device}. Batch of {options.batch}, {kind}; trainings to a relative gap of "
        f"{options.tolerance:g}, and their primal and dual are off by no more.",
        "An item is a chain, a sentence, a pair, a matching or a training; of graphs an update of "
        "a message, of strings a pair of the kernel matrix.",
    ]
    return rows_table("Accelerator beside CPU", COLUMNS, rows, notes)


def _plot(rows: list[dict[str, Any]]) -> Plot:
    names = [f"{row['family']} {row['size']}: {row['program']}" for row in rows]
    times = [row["times"] for row in rows]
    return factors_across(names, times, "Accelerator beside CPU", "times as many a second")
