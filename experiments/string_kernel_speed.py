"""Kernel matrices of strings: time and memory of each kernel, beside plain Python.

    python -m experiments.string_kernel_speed

Random strings of one length. Programs take turns, so that their ratios hold on a machine with
other work; compiling is timed apart. Plain Python computes some pairs, and its time for the
matrix is theirs times the pairs of its upper half.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from experiments.lib import common, fields
from experiments.lib.options import flag
from experiments.lib.report import rows_table
from experiments.lib.timing import compile_ahead, in_turns
from jaxstruct.core.types import Array
from jaxstruct.kernels import (
    Strings,
    encode_strings,
    gram_matrix,
    linear,
    mismatch,
    mismatch_features,
    spectrum,
    spectrum_features,
    subsequence_features,
    subsequences,
    substrings,
)

# The gapped-subsequence kernel in plain Python: what a matrix would cost without arrays.


def plain_subsequences(x: str, z: str, length: int, decay: float) -> float:
    """K(x, x') of Lodhi et al. (2002), their efficient recursion, O(length |x| |x'|).

    Args:
      x, z: strings. length: letters of a subsequence. decay: lambda.
    """
    begun = [[1.0] * (len(z) + 1) for _ in range(len(x) + 1)]  # K'_0 of all pairs of prefixes
    for _ in range(length - 1):
        longer = [[0.0] * (len(z) + 1) for _ in range(len(x) + 1)]  # K'_i
        for i, letter in enumerate(x):
            row = 0.0  # K''_i
            for j, other in enumerate(z):
                row *= decay
                if letter == other:
                    row += decay * decay * begun[i][j]
                longer[i + 1][j + 1] = decay * longer[i][j + 1] + row
        begun = longer
    pairs = (begun[i][j] for i, a in enumerate(x) for j, b in enumerate(z) if a == b)
    return decay * decay * sum(pairs)


ALPHABET = "abcdefghijklmnopqrstuvwxyz"


def digits(value: float | None) -> str | None:
    """Three significant digits: a column holds seconds of Python and of one matrix product."""
    return (
        None if value is None else np.format_float_positional(value, 3, fractional=False, trim="-")
    )


COLUMNS = {
    "kernel": "kernel",
    ("seconds a matrix", "processor"): lambda row: digits(row["processor"]),
    ("seconds a matrix", "wall"): lambda row: digits(row["wall"]),
    "us a pair": lambda row: digits(row["microseconds"]),
    "times faster than plain Python": lambda row: digits(row["ratio"]),
    "compile s": "compile_seconds",
    "temporary MiB": lambda row: row["mebibytes"] and round(row["mebibytes"], 2),
    "off by": lambda row: None if row["error"] is None else f"{row['error']:.0e}",
}  # fmt: skip


class Options(fields.Common):
    """The flags of this command."""

    strings: int = flag(2000, "Number of strings; the matrix is strings x strings.", least=2)
    letters: int = flag(50, "Letters of a string.", least=1)
    alphabet: int = flag(4, "Letters of the alphabet.", least=2, most=26)
    length: int = flag(3, "Letters of a subsequence, a substring or a window.", least=2)
    decay: float = flag(0.5, "lambda of gapped subsequences.", above=0, most=1)
    plain_pairs: int = flag(200, "Pairs that plain Python computes.", least=1)
    repeats: int = flag(3, "Timed calls of each program.", least=1)
    compilation_cache: bool = False


def run(options: Options) -> common.Outcome:
    """Time all, print the table and write it.

    Raises:
      ValueError: an option that does not fit.
    """
    dtype = common.prepare(options)
    rows = common.finished_rows(options, [_measure(options)])
    notes = [
        f"{options.strings} strings of {options.letters} letters of {options.alphabet}, length "
        f"{options.length}, {dtype}, {options.repeats} calls, the least time each; the matrix "
        f"itself takes {4 * options.strings**2 / 2**20:.0f} MiB in float32. Plain Python: "
        f"{options.plain_pairs} pairs, times the pairs of the upper half; compared with gapped "
        "subsequences alone, of which off by is the largest relative difference.",
        "Kernels by pairs compute the upper half; explicit features are one matrix product.",
    ]
    return common.save(
        options, rows_table("String kernels: speed", COLUMNS, rows, notes), {"rows": rows}
    )


def _programs(options: Options) -> dict[str, Callable[[Strings], Array]]:
    """Name -> the kernel matrix of a set."""
    k, size, decay = options.length, options.alphabet, options.decay

    def counted(X: Strings) -> Array:
        return gram_matrix(linear(), spectrum_features(X, k, size), num_features=size**k)

    return {
        "gapped subsequences": lambda X: gram_matrix(subsequences(k, decay), X),
        "gapped subsequences, explicit features": lambda X: gram_matrix(
            linear(), subsequence_features(X, k, decay, size)
        ),
        "substrings of all lengths": lambda X: gram_matrix(substrings(decay), X),
        "spectrum": lambda X: gram_matrix(spectrum(k), X),
        "spectrum, sparse features": counted,
        "mismatch, 1": lambda X: gram_matrix(mismatch(k, 1, size), X),
        "mismatch, 1, explicit features": lambda X: gram_matrix(
            linear(), mismatch_features(X, k, 1, size)
        ),
    }


def _measure(options: Options) -> Iterator[dict[str, Any]]:
    rng = np.random.default_rng(options.seed)
    letters = list(ALPHABET[: options.alphabet])
    texts = ["".join(rng.choice(letters, options.letters)) for _ in range(options.strings)]
    strings = encode_strings(texts, ALPHABET[: options.alphabet], options.letters)
    pairs = options.strings * (options.strings + 1) / 2
    places = rng.integers(options.strings, size=(options.plain_pairs, 2))
    start = time.process_time()
    plain = [
        plain_subsequences(texts[i], texts[j], options.length, options.decay) for i, j in places
    ]
    seconds = (time.process_time() - start) / options.plain_pairs * pairs
    yield {
        "kernel": "gapped subsequences, plain Python", "processor": seconds, "wall": None,
        "microseconds": 1e6 * seconds / pairs, "ratio": 1.0, "compile_seconds": None,
        "mebibytes": None, "error": None,
    }  # fmt: skip
    programs = _programs(options)
    compiled = {name: compile_ahead(program, strings) for name, program in programs.items()}
    calls = [lambda each=each: each.call(strings) for each in compiled.values()]
    least = in_turns(calls, options.repeats).min(axis=0)
    for (name, each), (wall, processor) in zip(compiled.items(), least, strict=True):
        gapped = name.startswith("gapped")
        found = np.asarray(each.call(strings))[tuple(places.T)]
        yield {
            "kernel": name, "processor": float(processor), "wall": float(wall),
            "microseconds": 1e6 * float(processor) / pairs,
            "ratio": seconds / float(processor) if gapped else None,
            "compile_seconds": each.seconds, "mebibytes": each.mebibytes,
            "error": float(np.max(np.abs(found / plain - 1))) if gapped else None,
        }  # fmt: skip
