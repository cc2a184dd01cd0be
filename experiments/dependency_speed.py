"""Best dependency trees a second, projective or not, beside plain C and ufal.chu_liu_edmonds.

    taskset -c 0 python -m experiments.dependency_speed
    python -m experiments.dependency_speed --lengths=10,60 --batch=64

Batches of sentences of one length with random scores of arcs, or with those of a drawn tree raised
by so much that it is the best one, as after training. Programs of one length take turns, so that
their ratios hold on a machine with other work; compiling is timed apart. The plain C
(`experiments/tasks/plain_trees.c`) is compiled when the command starts, and left out where there is
no `cc`; ufal.chu_liu_edmonds, the C++ of TurboParser, is called once a sentence where it is
installed, with arcs from the root lowered so that one word hangs on it. The trees that are found
are compared by their scores in float64.
"""

from __future__ import annotations

import ctypes
import importlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.lib import common, fields
from experiments.lib.options import flag
from experiments.lib.report import rows_table
from experiments.lib.timing import compile_ahead, in_turns
from jaxstruct.core.types import Array
from jaxstruct.dependencies import best_tree

SOURCE = Path(__file__).parent / "tasks" / "plain_trees.c"
ROOT = 1e6
"""What ufal.chu_liu_edmonds pays for an arc from the root."""
COLUMNS = {
    "words": "words", "trees": "trees", "raised by": "raised", "program": "program",
    ("us a sentence", "processor"): "processor", ("us a sentence", "wall"): "wall",
    "sentences a second": lambda row: round(1e6 / row["processor"]),
    "times ours": lambda row: row["ratio"], "compile s": "compile_seconds",
    "below the best": "below",
}  # fmt: skip


class Options(fields.Common):
    """The flags of this command."""

    lengths: Sequence[str] = flag(
        ("10", "20", "40", "60"), "Words of a sentence.", each=int, least=1, some=True
    )
    raised: Sequence[str] = flag(
        ("0", "6"), "What is added to the arcs of a drawn tree.", each=float, least=0, some=True
    )
    batch: int = flag(256, "Sentences in one call.", least=1)
    repeats: int = flag(5, "Timed calls of each program.", least=1)
    compilation_cache: bool = False


def run(options: Options) -> common.Outcome:
    """Time all programs, print the table and write it."""
    dtype = common.prepare(options)
    with tempfile.TemporaryDirectory() as folder:
        plain = _plain_c(folder)
        groups = (
            _measure(options, dtype, plain, int(words), projective)
            for words in options.lengths
            for projective in (True, False)
        )
        rows = common.finished_rows(options, groups)
    notes = [
        f"Batch of {options.batch}, {dtype} (C: float32, sums of circles in float64), "
        f"{options.repeats} calls, the least time each; below the best: the largest difference of "
        "a score to the best one that any program found.",
    ]
    table = rows_table("Best dependency trees: speed", COLUMNS, rows, notes)
    return common.save(options, table, {"rows": rows})


def _plain_c(folder: str) -> ctypes.CDLL | None:
    """The functions of `SOURCE`, or None without a compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    library = str(Path(folder) / "plain_trees.so")
    flags = ["-O3", "-march=native", "-std=c99", "-shared", "-fPIC"]
    subprocess.run([compiler, *flags, str(SOURCE), "-o", library, "-lm"], check=True)
    return ctypes.CDLL(library)


def _of_plain_c(function: Callable[..., int], arcs: np.ndarray) -> np.ndarray:
    batch, _, words = arcs.shape
    arcs, heads = np.ascontiguousarray(arcs, np.float32), np.zeros((batch, words), np.intc)
    if function(batch, words, *(ctypes.c_void_p(each.ctypes.data) for each in (arcs, heads))):
        raise MemoryError("the plain C found no memory")
    return heads


def _of_ufal(decode: Callable, arcs: np.ndarray) -> np.ndarray:
    """Each sentence by itself; scores of [word, head], both counted from the root."""
    batch, heads, words = arcs.shape
    scores = np.zeros((batch, heads, heads))
    scores[:, 1:] = arcs.transpose(0, 2, 1)
    scores[:, 1:, 0] -= ROOT
    return np.array([decode(one)[0][1:] for one in scores]).reshape(batch, words)


def _ours(projective: bool, arcs: Array) -> Array:
    length = jnp.int32(arcs.shape[1])
    return best_tree(arcs[:, :, None], length, projective=projective).heads


def _score(arcs: np.ndarray, heads: np.ndarray) -> np.ndarray:
    own = np.take_along_axis(arcs.astype(np.float64), heads[:, None], axis=1)
    return own[:, 0].sum(axis=1)


def _drawn_tree(random: np.random.Generator, heads: np.ndarray, first: int, head: int) -> None:
    """Fill in heads of the words from `first` on: one hangs on `head`, the others below it."""
    if len(heads):
        at = random.integers(len(heads))
        heads[at], word = head, first + int(at)
        _drawn_tree(random, heads[:at], first, word)
        _drawn_tree(random, heads[at + 1 :], word + 1, word)


def _drawn(options: Options, dtype: str, words: int, raised: float) -> np.ndarray:
    """[batch, words + 1, words] the scores."""
    random = np.random.default_rng([options.seed, words])
    arcs = random.normal(size=(options.batch, words + 1, words))
    heads = np.zeros((options.batch, words), int)
    for own in heads:
        _drawn_tree(random, own, 1, 0)
    return (arcs + raised * (np.arange(words + 1)[:, None] == heads[:, None])).astype(dtype)


def _programs(plain: ctypes.CDLL | None, projective: bool) -> dict[str, Callable]:
    """Those of others, by name."""
    found = {}
    if plain is not None:
        function = plain.eisner if projective else plain.edmonds
        found["plain C"] = partial(_of_plain_c, function)
    if not projective:
        try:
            module = importlib.import_module("ufal.chu_liu_edmonds")
        except ImportError:
            return found
        found["ufal.chu_liu_edmonds"] = partial(_of_ufal, module.chu_liu_edmonds)
    return found


def _measure(
    options: Options, dtype: str, plain: ctypes.CDLL | None, words: int, projective: bool
) -> Iterator[dict[str, Any]]:
    drawn = {text: _drawn(options, dtype, words, float(text)) for text in options.raised}
    compiled = compile_ahead(jax.vmap(partial(_ours, projective)), drawn[options.raised[0]])
    calls: dict[str, Callable] = {"jaxstruct": compiled.call} | _programs(plain, projective)
    for raised, arcs in drawn.items():
        scores = {name: _score(arcs, np.asarray(call(arcs))) for name, call in calls.items()}
        best = np.max(list(scores.values()), axis=0)
        seconds = in_turns([partial(call, arcs) for call in calls.values()], options.repeats)
        least = 1e6 * seconds.min(axis=0) / options.batch
        for (name, own), (wall, processor) in zip(scores.items(), least, strict=True):
            yield {
                "words": words, "trees": "projective" if projective else "any",
                "raised": float(raised), "program": name, "wall": float(wall),
                "processor": float(processor), "ratio": float(processor / least[0, 1]),
                "compile_seconds": compiled.seconds if name == "jaxstruct" else None,
                "below": float(np.max(best - own)),
            }  # fmt: skip
