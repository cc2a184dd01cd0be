"""Oracles and kernels: how many a second, beside other programs where these are installed.

    taskset -c 0 python -m experiments.oracle_speed
    python -m experiments.oracle_speed --families=chains,alignments --sizes=1 --batch=64

Batches of random potentials. Programs of one size take turns, so that their ratios hold on a
machine with other work; compiling is timed apart. Biopython, ufal.chu_liu_edmonds and SciPy are
called once an item, as there is no other way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from experiments.lib import common, fields
from experiments.lib.options import flag
from experiments.lib.record import compile_ahead, in_turns
from experiments.lib.report import rows_table
from experiments.tasks.oracle_cases import FAMILIES

COLUMNS = {
    "family": "family", "size": "size", "program": "program",
    ("us each", "processor"): "processor", ("us each", "wall"): "wall",
    "a second": lambda row: round(1e6 / row["processor"]), "times the first": "ratio",
    "compile s": "compile_seconds", "MiB": "mebibytes",
}  # fmt: skip


class Options(fields.Common):
    """The flags of this command."""

    families: Sequence[str] = flag(tuple(FAMILIES), "Some of these.", FAMILIES, some=True)
    sizes: int = flag(3, "How many sizes of each, from the smallest on.", least=1)
    batch: int = flag(256, "Items in one call.", least=1)
    repeats: int = flag(5, "Timed calls of each program.", least=1)
    compilation_cache: bool = False


def run(options: Options) -> common.Outcome:
    """Time all programs, print the table and write it."""
    dtype = common.prepare(options)
    groups = (
        _measure(options, dtype, family, size)
        for family in options.families
        for size in FAMILIES[family][1][: options.sizes]
    )
    rows = common.finished_rows(options, groups)
    sizes = ", ".join(f"{family} {FAMILIES[family][2]}" for family in options.families)
    notes = [
        f"Sizes: {sizes}. Batch of {options.batch}, {dtype}, {options.repeats} calls, the least "
        "time each, processor seconds in the last columns. MiB: temporary memory of a call.",
        "An item is a chain, a sentence, a pair or a matching; of graphs an update of a message, "
        "of strings a pair of the kernel matrix.",
    ]
    return common.save(options, rows_table("Oracles: speed", COLUMNS, rows, notes), {"rows": rows})


def _measure(
    options: Options, dtype: str, family: str, size: tuple[int, ...]
) -> Iterator[dict[str, Any]]:
    """A row a program of one size."""
    make = FAMILIES[family][0]
    case = make(np.random.default_rng([options.seed, *size]), options.batch, dtype, *size)
    compiled = {name: compile_ahead(call, *case.data) for name, call in case.ours.items()}
    calls: dict[str, tuple[Callable[[], Any], int]] = {
        name: (partial(each.call, *case.data), case.count) for name, each in compiled.items()
    } | dict(case.others)
    seconds = in_turns([call for call, _ in calls.values()], options.repeats).min(axis=0)
    each = 1e6 * seconds / np.array([[count] for _, count in calls.values()])
    for (wall, processor), name in zip(each, calls, strict=True):
        yield {
            "family": family, "size": " x ".join(map(str, size)), "program": name,
            "processor": float(processor), "wall": float(wall),
            "ratio": float(processor / each[0, 1]),
            "compile_seconds": compiled[name].seconds if name in compiled else None,
            "mebibytes": compiled[name].mebibytes if name in compiled else None,
        }  # fmt: skip
