"""How time and memory of a training in blocks grow with the number of examples.

    python -m experiments.large_data
    python -m experiments.large_data --sentences=1000,10000 --texts=1000,10000,100000 --passes=5
    python -m experiments.large_data --sentences=2000 --texts=2000 --whole

Sentences (9 labels, 20,000 features, 8 a token) and texts (20 classes, 5,000 words) are generated
to look like real ones, written to a store, and trained on from there by `fit_in_blocks`, each size
in a process of its own: a store, then `--passes` rounds, the last of them certified. What a round
takes is the second one's processor seconds, since the first compiles. Memory is the process's peak
over what it held before the training began; what was foretold is printed beside it. `--whole`
trains to the tolerance instead, and by `fit` on all data at once for comparison.
"""

from __future__ import annotations

import math
import resource
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from experiments.lib import common, fields
from experiments.lib.apart import run_apart
from experiments.lib.options import flag
from experiments.lib.plots import Plot, curve_lines
from experiments.lib.record import peak_memory_bytes
from experiments.lib.report import Columns, Table, rows_table, write_results
from jaxstruct import Ragged, SparseFeatures, fit, fit_in_blocks, open_store
from jaxstruct.chains import ChainEncoding, chain_inputs
from jaxstruct.core.feature_encoding import FeatureEncoding
from jaxstruct.core.labels import LabelCodec
from jaxstruct.core.types import PyTree
from jaxstruct.models import write_arrays
from jaxstruct.multiclass import ClassEncoding
from jaxstruct.solvers.memory import BLOCK_BYTES

# Texts and sentences of any number, generated some at a time to look like real ones.
#
# As those of `experiments.tasks.generated`: words follow Zipf's law, a class or label prefers
# some of them, lengths have a long tail. Here all pieces share what classes and labels prefer.

WORDS, CLASSES, FEATURES, LABELS = 5_000, 20, 20_000, 9
KINDS = 8
"""Features of a token, each of a kind of its own."""
PIECE = 10_000
"""Examples that are made together."""


def _drawn(random: np.random.Generator, size: int, count: int) -> np.ndarray:
    """Numbers below `size` by Zipf's law."""
    ends = np.cumsum(1 / np.arange(1, size + 1))
    return np.searchsorted(ends, random.random(count) * ends[-1]).clip(max=size - 1)


def texts(random: np.random.Generator, fixed: np.random.Generator, n: int) -> tuple:
    """n texts and their classes; `fixed` is the same for all pieces."""
    ranks = np.stack([fixed.permutation(WORDS) for _ in range(CLASSES)])
    classes = random.integers(0, CLASSES, n).astype(np.int32)
    counts = np.clip(random.lognormal(4.0, 0.5, n), 8, 400).astype(int)
    text = np.repeat(np.arange(n), counts)
    drawn = _drawn(random, WORDS, len(text))
    topical = random.random(len(text)) < 0.3
    words = np.where(topical, ranks[classes[text], drawn], drawn)
    keys, times = np.unique(text * WORDS + words, return_counts=True)
    text, words = keys // WORDS, keys % WORDS
    offsets = np.concatenate([[0], np.cumsum(np.bincount(text, minlength=n))])
    values = (1 + np.log(times)) * np.log(2 + words)  # frequent words weigh less
    lengths = np.sqrt(np.add.reduceat(values**2, offsets[:-1]))
    values = (values / lengths[text]).astype(np.float32)
    stores = Ragged(words.astype(np.int32), offsets, WORDS), Ragged(values, offsets)
    return SparseFeatures(*stores), classes


def sentences(random: np.random.Generator, fixed: np.random.Generator, n: int) -> tuple:
    """n sentences and their labels; `fixed` is the same for all pieces."""
    each = FEATURES // KINDS
    table = fixed.integers(0, each, (LABELS, KINDS))
    offsets = np.concatenate([[0], np.cumsum(_lengths(random, n))])
    total = int(offsets[-1])
    rare = random.random(total) >= 0.85
    labels = np.where(rare, random.integers(1, LABELS, total), 0).astype(np.int32)
    again = np.flatnonzero((random.random(total) < 0.4) & (np.arange(total) > 0))
    labels[again] = labels[again - 1]
    drawn = _drawn(random, each, total * KINDS).reshape(total, KINDS)
    preferred = (drawn + table[labels]) % each
    found = np.where(random.random(drawn.shape) < 0.3, preferred, drawn) + each * np.arange(KINDS)
    stores = (
        Ragged(found.astype(np.int32), offsets, FEATURES),
        Ragged(np.ones(found.shape, np.float32), offsets),
    )
    return chain_inputs(SparseFeatures(*stores)), Ragged(labels, offsets, -1)


def _lengths(random: np.random.Generator, n: int) -> np.ndarray:
    return np.clip(random.lognormal(3.1, 0.7, n), 1, 200).astype(int)


class Kind(NamedTuple):
    """A kind of examples.

    Fields:
      make: (random, fixed, n) -> (inputs, outputs). encoding: of its class.
      sizes: features and labels. C: divided by n.
    """

    make: Callable[[np.random.Generator, np.random.Generator, int], tuple[PyTree, PyTree]]
    encoding: type
    sizes: tuple[int, int]
    C: float


TASKS = {
    "sentences": Kind(sentences, ChainEncoding, (FEATURES, LABELS), 0.1),
    "texts": Kind(texts, ClassEncoding, (WORDS, CLASSES), 1.0),
}


def make_store(folder: Path, name: str, n: int, seed: int) -> Path:
    """The store of n examples of a kind, in a folder that is not there yet."""
    kind = TASKS[name]
    features, labels = kind.sizes
    encoding = kind.encoding(
        FeatureEncoding("sparse", None, features, 0.0), LabelCodec(tuple(range(labels)))
    )

    def pieces() -> Iterator[tuple[PyTree, PyTree]]:
        for number, first in enumerate(range(0, n, PIECE)):
            random = np.random.default_rng([seed, number])
            yield kind.make(random, np.random.default_rng(seed), min(PIECE, n - first))

    return write_arrays(folder, encoding, pieces()).folder


class Options(fields.Tolerance, fields.Common):
    """The flags of this command."""

    sentences: Sequence[str] = flag(
        ("1000", "10000", "50000", "200000"), "Numbers of sentences, rising.", each=int, least=1
    )
    texts: Sequence[str] = flag(
        ("1000", "10000", "100000", "1000000"), "Numbers of texts, rising.", each=int, least=1
    )
    passes: int = flag(3, "Rounds of a training.", least=2)
    whole: bool = flag(False, "Train to the tolerance, and by fit on all data, too.")
    blocks: int = flag(0, "Number of blocks; 0: as many as --block_bytes asks for.", least=0)
    block_bytes: int = flag(BLOCK_BYTES, "Bytes of the arrays of a block.", least=1)
    part: str = flag(
        "all",
        "Train on the one size named here; 'all' does it in processes.",
        ["all", "blocks", "fit"],
    )
    compilation_cache: bool = False


def main(options: Options) -> int | None:
    """One size in this process, or all of them in processes of their own."""
    if options.part == "all":
        run(options)
    else:
        run_part(options)


def run(options: Options) -> common.Outcome:
    """Train on every size, print the table and write it.

    Raises:
      ValueError: an option does not fit.
      subprocess.CalledProcessError: a part failed; its messages are on standard error.
    """
    common.prepare(options)
    rows: list[dict[str, Any]] = []
    name = "large_data_whole" if options.whole else "large_data"
    with common.kept_if_stopped(options, {"rows": rows}, name=name):
        for task in TASKS:
            for size in getattr(options, task):
                for part in ("blocks", "fit") if options.whole else ("blocks",):
                    rows.append(_apart(options, task, size, part))
    table, plots = _table(options, rows), {name: _plot(rows)}
    return common.save(options, table, {"rows": rows}, plots, name=name)


def _apart(options: Options, task: str, size: str, part: str) -> dict[str, Any]:
    empty = dict.fromkeys(TASKS, ())
    own = options.replace(**{**empty, task: (size,)}, part=part)
    (found,) = run_apart(own, f"large_data_{part}_{task}_{size}")
    return found


def run_part(options: Options) -> None:
    """Train on the one size named; its numbers go to a JSON file of their own."""
    common.prepare(options)
    named = [(task, int(size)) for task in TASKS for size in getattr(options, task)]
    if len(named) != 1:
        raise ValueError("part needs one size of one task, such as --sentences=1000 --texts=")
    ((task, n),) = named
    folder = Path(options.output) / f"large_data_{task}_{n}.store"
    shutil.rmtree(folder, ignore_errors=True)
    start = time.process_time()
    make_store(folder, task, n, options.seed)
    writing = time.process_time() - start
    try:
        row = _trained(options, task, folder) | {"writing_seconds": writing}
        row["store_bytes"] = sum(path.stat().st_size for path in folder.iterdir())
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    write_results(options.output, f"large_data_{options.part}_{task}_{n}", {"rows": [row]})


def resident_bytes() -> int:
    """What this process holds now; its peak where the system gives that alone."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return peak_memory_bytes()
    return pages * resource.getpagesize()


def _trained(options: Options, task: str, folder: Path) -> dict[str, Any]:
    store = open_store(folder)
    n, problem = len(store), store.encoding.problem()
    jax.block_until_ready(jax.numpy.zeros(1))  # the backend's own start is no part of a training
    before, least = resident_bytes(), peak_memory_bytes()
    start, wall = time.process_time(), time.perf_counter()
    given = problem, store.inputs, store.outputs, "svm1_margin", TASKS[task].C * n
    limits = {"max_passes": 500 if options.whole else options.passes,
              "tolerance": options.tolerance if options.whole else 1e-5}  # fmt: skip
    row: dict[str, Any] = {"task": task, "n": n, "way": options.part}
    if options.part == "fit":
        solution = fit(*given, **limits)
    else:
        solution = fit_in_blocks(
            *given, blocks=options.blocks or None, block_bytes=options.block_bytes,
            verbose=sys.stderr.isatty(), **limits,
        )  # fmt: skip
        row |= {"blocks": solution.details.blocks, "foretold": solution.details.memory.total}
    trace = solution.trace
    running = np.asarray(trace.processor_seconds) - np.asarray(trace.compile_seconds)
    return row | {
        "rounds": solution.statistics.passes, "status": str(solution.status),
        "primal": solution.primal, "dual": solution.dual,
        "planes": solution.statistics.planes_kept, "oracle_calls": solution.statistics.oracle_calls,
        "seconds": time.process_time() - start, "wall": time.perf_counter() - wall,
        "round_seconds": float(running[1] - running[0]) if len(running) > 1 else math.nan,
        "parts": solution.statistics.seconds, "before": before, "least": least,
        "peak": peak_memory_bytes(),
    }  # fmt: skip


def slope(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Of the logarithms, by least squares; nan for fewer than two sizes."""
    if len(sizes) < 2:
        return math.nan
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def _table(options: Options, rows: Sequence[dict[str, Any]]) -> Table:
    columns: Columns = {
        "examples": "task", "n": "n", "way": "way", "blocks": lambda row: row.get("blocks"),
        "rounds": "rounds", "gap": lambda row: (row["primal"] - row["dual"]) / abs(row["primal"]),
        ("seconds", "a round"): "round_seconds", ("seconds", "in all"): "seconds",
        ("MB", "store"): lambda row: row["store_bytes"] / 1e6,
        ("MB", "foretold"): lambda row: row["foretold"] / 1e6 if "foretold" in row else None,
        ("MB", "taken"): lambda row: (row["peak"] - row["before"]) / 1e6,
        ("MB", "peak"): lambda row: row["peak"] / 1e6, "planes": "planes",
    }  # fmt: skip
    notes = [
        "processor seconds; a round: the second, whose programs are compiled. taken: the peak less "
        "what the process held before."
    ]
    for task in TASKS:
        own = [row for row in rows if row["task"] == task and row["way"] == "blocks"]
        if len(own) > 1:
            sizes = [row["n"] for row in own]
            of_time = slope(sizes, [row["round_seconds"] for row in own])
            of_memory = slope(sizes, [row["peak"] for row in own])
            notes.append(f"{task}: slope of a round's seconds {of_time:.2f}, of the peak "
                         f"{of_memory:.2f}")  # fmt: skip
    title = "Trained in blocks, and whole" if options.whole else "Rounds in blocks"
    return rows_table(title, columns, rows, notes)


def _plot(rows: Sequence[dict[str, Any]]) -> Plot:
    """Seconds of a round by the number of examples."""
    curves = {}
    for task in TASKS:
        own = [row for row in rows if row["task"] == task and row["way"] == "blocks"]
        sizes = [row["n"] for row in own]
        curves[f"{task}: s a round"] = sizes, [row["round_seconds"] for row in own]
        curves[f"{task}: peak, GB"] = sizes, [row["peak"] / 1e9 for row in own]
    return curve_lines(
        {name: curve for name, curve in curves.items() if curve[0]},
        title="Growth with the number of examples", xlabel="examples",
        ylabel="processor s, GB", log_x=True,
    )  # fmt: skip
