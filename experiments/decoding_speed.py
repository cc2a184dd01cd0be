"""Chain oracles: sequences a second of Viterbi, and what levels and k-best cost beside it.

    python -m experiments.decoding_speed

One batch of random chains that share their transitions. Programs of one size take turns, so that
their ratios hold on a machine with other work; compiling is timed apart. For one core, pin the
process (on Linux: taskset -c 0).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments.lib import common, fields
from experiments.lib.options import flag, size_reader
from experiments.lib.report import rows_table
from experiments.lib.timing import Compiled, compile_ahead, in_turns
from jaxstruct.chains.oracles.decoding import k_best, viterbi
from jaxstruct.chains.oracles.hamming_levels import best_of_levels
from jaxstruct.chains.potentials import ChainPotentials
from jaxstruct.core.types import Array, PyTree

SHARED = ChainPotentials._make((0, None, None, None, None))  # vmap over emissions alone

COLUMNS = {
    "oracle": "oracle", "labels": "labels", "length": "length", "levels or k": "units",
    ("ms a batch", "least"): "least", ("ms a batch", "median"): "median",
    ("ms a batch", "processor"): "processor",
    "sequences a second": lambda row: round(row["sequences_per_second"]),
    ("times Viterbi", "all"): "ratio",
    ("times Viterbi", "a level"): lambda row: row["ratio"] / row["units"],
    "compile s": "compile_seconds", "MiB": "mebibytes",
}  # fmt: skip
SIZE = size_reader("labels x length", "9x50")


class Options(fields.Common):
    """The flags of this command."""

    sizes: Sequence[str] = flag(
        ("9x50", "26x50", "50x100"),
        "labels x length of chains for Viterbi, two levels (the zero-one oracle) and two best.",
        each=SIZE,
    )
    exact: Sequence[str] = flag(
        ("9x20", "26x14"), "labels x length of chains for all length + 1 levels.", each=SIZE
    )
    batch: int = flag(1024, "Chains in one call.", least=1)
    repeats: int = flag(30, "Timed calls of each program.", least=1)
    compilation_cache: bool = False


class Program(NamedTuple):
    """One compiled oracle for a batch.

    Fields:
      oracle: its name.
      labels, length: S and T.
      units: how many levels, or k.
      compiled: the program.
    """

    oracle: str
    labels: int
    length: int
    units: int
    compiled: Compiled


def run(options: Options) -> common.Outcome:
    """Time all programs, print the table and write it."""
    dtype = common.prepare(options)
    groups = (_measure(options, dtype, *group) for group in _groups(options))
    rows = common.finished_rows(options, groups)
    notes = [
        f"Batch of {options.batch}, {dtype}, {options.repeats} calls; sequences a second from the "
        "least wall time, ratios from the least processor times. MiB: temporary memory of the "
        "compiled program. The levels oracle traces the best level back."
    ]
    table = rows_table("Chain oracles: speed", COLUMNS, rows, notes)
    return common.save(options, table, {"rows": rows})


def _groups(options: Options) -> Iterator[tuple[int, int, tuple[int, ...], tuple[int, ...]]]:
    """(labels, length, numbers of levels, numbers of best) of the programs that take turns."""
    for text in options.sizes:
        labels, length = SIZE(text)
        yield labels, length, (2,), (2,)
    for text in options.exact:
        labels, length = SIZE(text)
        yield labels, length, (length + 1,), ()


def _data(options: Options, labels: int, length: int, dtype: str) -> tuple[PyTree, Array, Array]:
    """Potentials, lengths and true labels of a batch."""
    random = np.random.default_rng([options.seed, labels, length])
    emissions = jnp.asarray(random.normal(size=(options.batch, length, labels)), dtype)
    transitions = jnp.asarray(random.normal(size=(labels, labels)), dtype)
    y_true = jnp.asarray(random.integers(0, labels, (options.batch, length)), jnp.int32)
    lengths = jnp.full(options.batch, length, jnp.int32)
    return ChainPotentials(emissions, transitions), lengths, y_true


def _best_wrong(levels: int, potentials: ChainPotentials, length: Array, y_true: Array) -> PyTree:
    """The most violated output of slack re-scaling at w = 0: slopes are the levels."""
    dtype = potentials.emissions.dtype
    offsets = jnp.where(jnp.arange(levels) > 0, 0.0, -jnp.inf).astype(dtype)
    slopes = jnp.arange(levels).astype(dtype)
    oracle = jax.vmap(best_of_levels, (SHARED, 0, 0, None, None))
    return oracle(potentials, y_true, length, offsets, slopes)


def _viterbi(potentials: ChainPotentials, length: Array, y_true: Array) -> PyTree:
    del y_true
    return jax.vmap(viterbi, (SHARED, 0))(potentials, length)


def _k_best(k: int, potentials: ChainPotentials, length: Array, y_true: Array) -> PyTree:
    del y_true
    return jax.vmap(partial(k_best, k=k), (SHARED, 0))(potentials, length)


def _compile(name: str, units: int, oracle: Callable, data: tuple) -> Program:
    _, length, labels = data[0].emissions.shape
    return Program(name, labels, length, units, compile_ahead(oracle, *data))


def _measure(
    options: Options,
    dtype: str,
    labels: int,
    length: int,
    levels: tuple[int, ...],
    best: tuple[int, ...],
) -> list[dict[str, Any]]:
    data = _data(options, labels, length, dtype)
    programs = [_compile("Viterbi", 1, _viterbi, data)]
    programs += [_compile("Hamming levels", x, partial(_best_wrong, x), data) for x in levels]
    programs += [_compile("k best", k, partial(_k_best, k), data) for k in best]
    times = in_turns([partial(each.compiled.call, *data) for each in programs], options.repeats)
    wall, processor = times[..., 0], times[..., 1]
    fastest = processor.min(axis=0)
    return [
        {
            "oracle": program.oracle, "labels": labels, "length": length, "units": program.units,
            "least": 1e3 * wall[:, i].min(), "median": 1e3 * float(np.median(wall[:, i])),
            "processor": 1e3 * fastest[i], "ratio": fastest[i] / fastest[0],
            "sequences_per_second": options.batch / wall[:, i].min(),
            "compile_seconds": program.compiled.seconds, "mebibytes": program.compiled.mebibytes,
        }
        for i, program in enumerate(programs)
    ]  # fmt: skip
