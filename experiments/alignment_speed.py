"""Alignment oracles: pairs of sequences a second, with and without the alignment itself.

    python -m experiments.alignment_speed

One batch of random sequences under one random matrix of real scores. Programs of one size take
turns, so that their ratios hold on a machine with other work; compiling is timed apart. Beside
them, where it is installed (the test extra has it), Biopython's PairwiseAligner, one pair after the
other. For one core, pin the process (on Linux: taskset -c 0).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.lib import common, fields
from experiments.lib.options import flag, size_reader
from experiments.lib.report import rows_table
from experiments.lib.timing import compile_ahead, in_turns
from jaxstruct.alignments.costs import AlignmentCosts, alignment_potentials
from jaxstruct.alignments.oracles.pairwise import (
    global_alignment,
    global_score,
    local_alignment,
    local_score,
)
from jaxstruct.core.types import Array, PyTree

ORACLES = {
    "local score": local_score, "local alignment": local_alignment,
    "global score": global_score, "global alignment": global_alignment,
}  # fmt: skip
LETTERS = 20
COLUMNS = {
    "oracle": "oracle", "M": "M", "N": "N", "pairs": "pairs", ("ms a call", "least"): "least",
    ("ms a call", "median"): "median",
    "pairs a second": lambda row: round(row["pairs_per_second"]),
    "compile s": "compile_seconds", "MiB": "mebibytes",
}  # fmt: skip
SIZE = size_reader("M x N", "50x50")


class Options(fields.Common):
    """The flags of this command."""

    sizes: Sequence[str] = flag(
        ("50x50", "200x200"), "Lengths of the two sequences, M x N.", each=SIZE, some=True
    )
    batch: int = flag(1024, "Pairs in one call.", least=1)
    peer_pairs: int = flag(200, "Pairs that Biopython is timed on; 0: not at all.", least=0)
    repeats: int = flag(10, "Timed calls of each program.", least=1)
    compilation_cache: bool = False


def run(options: Options) -> common.Outcome:
    """Time all programs, print the table and write it."""
    dtype = common.prepare(options)
    groups = (_measure(options, dtype, *SIZE(text)) for text in options.sizes)
    rows = common.finished_rows(options, groups)
    notes = [
        f"Affine gaps, {dtype}, {options.repeats} calls; pairs a second from the least wall time. "
        "MiB: temporary memory of the compiled program."
    ]
    table = rows_table("Alignment oracles: speed", COLUMNS, rows, notes)
    return common.save(options, table, {"rows": rows})


def _data(options: Options, M: int, N: int, dtype: str) -> tuple[AlignmentCosts, Array, Array]:
    """Costs and a batch of both sequences."""
    random = np.random.default_rng([options.seed, M, N])
    matrix = jnp.asarray(random.normal(-0.5, 1.5, (LETTERS, LETTERS)), dtype)
    first, second = (random.integers(0, LETTERS, (options.batch, size)) for size in (M, N))
    costs = AlignmentCosts(matrix, jnp.asarray(1.3, dtype), jnp.asarray(0.4, dtype))
    return costs, jnp.asarray(first, jnp.int32), jnp.asarray(second, jnp.int32)


def _align(oracle: Callable, costs: AlignmentCosts, first: Array, second: Array) -> PyTree:
    def of_one(first: Array, second: Array) -> PyTree:
        lengths = jnp.asarray([first.shape[0], second.shape[0]])
        return oracle(alignment_potentials(costs, first, second), lengths)

    return jax.vmap(of_one)(first, second)


def _measure(options: Options, dtype: str, M: int, N: int) -> list[dict[str, Any]]:
    data = _data(options, M, N, dtype)
    programs = {
        name: compile_ahead(partial(_align, oracle), *data) for name, oracle in ORACLES.items()
    }
    calls = {name: (partial(each.call, *data), options.batch) for name, each in programs.items()}
    if options.peer_pairs and importlib.util.find_spec("Bio"):
        calls |= _peer_calls(data, options.peer_pairs)
    wall = in_turns([call for call, _ in calls.values()], options.repeats)[..., 0]
    return [
        {
            "oracle": name, "M": M, "N": N, "pairs": pairs, "least": 1e3 * wall[:, i].min(),
            "median": 1e3 * float(np.median(wall[:, i])),
            "pairs_per_second": pairs / wall[:, i].min(),
            "compile_seconds": programs[name].seconds if name in programs else None,
            "mebibytes": programs[name].mebibytes if name in programs else None,
        }
        for i, (name, (_, pairs)) in enumerate(calls.items())
    ]  # fmt: skip


def _peer_calls(data: tuple, pairs: int) -> dict[str, tuple[Callable, int]]:
    """Biopython's scores and alignments of the first pairs, and how many these are."""
    from Bio.Align import PairwiseAligner, substitution_matrices

    costs, first, second = (np.asarray(each) for each in (data[0].substitution, *data[1:]))
    letters = "ARNDCQEGHILKMFPSTWYV"
    aligner = PairwiseAligner(mode="local")
    aligner.substitution_matrix = substitution_matrices.Array(
        alphabet=letters, dims=2, data=costs.astype(float)
    )
    aligner.open_gap_score = -float(data[0].gap_open)
    aligner.extend_gap_score = -float(data[0].gap_extend)
    texts = [
        ["".join(letters[letter] for letter in row) for row in rows[:pairs]]
        for rows in (first, second)
    ]

    def scores() -> list[float]:
        return [aligner.score(a, b) for a, b in zip(*texts, strict=True)]

    def alignments() -> list[Any]:
        return [next(iter(aligner.align(a, b))) for a, b in zip(*texts, strict=True)]

    count = len(texts[0])
    return {
        "Biopython, local score": (scores, count),
        "Biopython, local alignment": (alignments, count),
    }
