"""Best matchings a second, beside SciPy's assignment in C++ and the Hungarian algorithm of optax.

    taskset -c 0 python -m experiments.matching_speed
    python -m experiments.matching_speed --sizes=10x10,200x300 --batch=64

Batches of random potentials, whole and complete. Programs of one size take turns, so that their
ratios hold on a machine with other work; compiling is timed apart. SciPy is called once a matching,
as there is no other way. What each finds is compared in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from experiments.lib import common, fields
from experiments.lib.options import flag, size_reader
from experiments.lib.report import rows_table
from experiments.lib.timing import compile_ahead, in_turns
from jaxstruct.assignments import best_matching
from jaxstruct.core.types import Array

COLUMNS = {
    "rows": "rows", "columns": "columns", "program": "program",
    ("us a matching", "processor"): "processor", ("us a matching", "wall"): "wall",
    "matchings a second": lambda row: round(1e6 / row["wall"]),
    "times ours": lambda row: row["ratio"], "compile s": "compile_seconds",
    "below the best": "below",
}  # fmt: skip
SIZE = size_reader("rows x columns", "10x10")


class Options(fields.Common):
    """The flags of this command."""

    sizes: Sequence[str] = flag(
        ("10x10", "20x20", "20x30", "50x50", "100x100"), "rows x columns.", each=SIZE
    )
    batch: int = flag(256, "Matchings in one call.", least=1)
    repeats: int = flag(5, "Timed calls of each program.", least=1)
    compilation_cache: bool = False


def run(options: Options) -> common.Outcome:
    """Time all programs, print the table and write it."""
    dtype = common.prepare(options)
    rows = common.finished_rows(
        options, (_measure(options, dtype, *SIZE(s)) for s in options.sizes)
    )
    notes = [
        f"Batch of {options.batch} (a tenth from 50 rows on), {dtype}, {options.repeats} calls, "
        "the least time each; below the best: the largest difference of a score to SciPy's.",
    ]
    table = rows_table("Best matchings: speed", COLUMNS, rows, notes)
    return common.save(options, table, {"rows": rows})


def _ours(sizes: Array, pairs: Array) -> Array:
    return best_matching(pairs, sizes, complete=True).columns


def _optax(pairs: Array) -> Array:
    """[R] the column of each row, -1 for none."""
    rows, columns = optax.assignment.hungarian_algorithm(-pairs)
    return jnp.full(pairs.shape[0], -1, jnp.int32).at[rows].set(columns.astype(jnp.int32))


def _scipy(pairs: np.ndarray) -> np.ndarray:
    from scipy.optimize import linear_sum_assignment

    found = np.full(pairs.shape[:2], -1)
    for own, one in zip(found, pairs, strict=True):
        rows, columns = linear_sum_assignment(one, maximize=True)
        own[rows] = columns
    return found


def _score(pairs: np.ndarray, columns: np.ndarray) -> np.ndarray:
    own = np.take_along_axis(pairs, np.maximum(columns, 0)[:, :, None], axis=2)[:, :, 0]
    return np.where(columns >= 0, own, 0).sum(axis=1)


def _measure(options: Options, dtype: str, R: int, C: int) -> Iterator[dict[str, Any]]:
    random = np.random.default_rng([options.seed, R, C])
    batch = options.batch if R < 50 else max(options.batch // 10, 1)
    pairs = random.normal(size=(batch, R, C)).astype(dtype)
    sizes = jnp.array([R, C], jnp.int32)
    compiled = {
        "jaxstruct": compile_ahead(jax.vmap(partial(_ours, sizes)), pairs),
        "optax": compile_ahead(jax.vmap(_optax), pairs),
    }
    calls: dict[str, Callable] = {name: one.call for name, one in compiled.items()}
    calls["SciPy"] = _scipy
    found = {name: np.asarray(call(pairs)) for name, call in calls.items()}
    best = _score(pairs.astype(np.float64), found["SciPy"])
    seconds = in_turns([partial(call, pairs) for call in calls.values()], options.repeats)
    least = 1e6 * seconds.min(axis=0) / batch
    for (name, columns), (wall, processor) in zip(found.items(), least, strict=True):
        yield {
            "rows": R, "columns": C, "program": name, "wall": float(wall),
            "processor": float(processor), "ratio": float(processor / least[0, 1]),
            "compile_seconds": compiled[name].seconds if name in compiled else None,
            "below": float(np.max(best - _score(pairs.astype(np.float64), columns))),
        }  # fmt: skip
