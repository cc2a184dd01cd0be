"""Named entities of Spanish news as labels of tokens and as segments, with the same features.

    python -m experiments.segments
    python -m experiments.segments --sentences=1000 --c_over_n=1

The chain labels tokens in IOB2; segments have the features of their tokens, and beside them their
first and last token, their length, and the words and shapes of the whole segment. A second table
says whether the machines differ: how often a difference in F1 is as large where the two answers to
each sentence are swapped by chance (Yeh, COLING 2000).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from experiments.corpora.conll2002 import load_conll2002
from experiments.lib import common, fields
from experiments.lib.options import flag
from experiments.lib.paired_tests import SWAPS, f1_difference
from experiments.lib.plots import Plot
from experiments.lib.progress import fitted
from experiments.lib.record import SECONDS, Stopwatch, peak_memory_bytes
from experiments.lib.report import LINE, Table, render, rows_table
from experiments.tasks.token_features import PHRASES, token_mappings
from jaxstruct import Prepared, chains, segments, trained
from jaxstruct.chains import entity_f1, iob2_spans
from jaxstruct.data.conll import Sentence

METHODS = ("chain", "segments", "phrases")
PARTS = ("testa", "testb")
COLUMNS = {
    "method": "method",
    **{(f"{part}, entities %", head): f"{part}_{name}" for part in PARTS
       for head, name in (("precision", "precision"), ("recall", "recall"), ("F1", "f1"))},
    **SECONDS, "peak MB": "peak_megabytes", "status": "status",
}  # fmt: skip
LONGEST_SHOWN = 18


class Options(fields.Training):
    """The flags of this command."""

    path: str | None = flag(None, "conll2002.zip; default: see third_party_data.")
    sentences: int = flag(0, "The first so many training sentences; 0: all.", least=0)
    test_sentences: int = flag(0, "The first so many sentences of each test part; 0: all.", least=0)
    methods: Sequence[str] = flag(
        METHODS, "Some of these; phrases: segments with words and shapes of whole ones.", METHODS,
        some=True,
    )  # fmt: skip
    c_over_n: float = flag(0.1, "C' = C / n.", above=0)
    max_passes: int = flag(100, "Rounds of a training at most.", least=1)
    tolerance: float = 1e-2


def run(options: Options) -> common.Outcome:
    """Train and test all machines, print the table and write it.

    Raises:
      CorpusMissing: the corpus is not on this machine; the message says how to get it.
    """
    dtype = common.prepare(options)
    corpus = load_conll2002("esp", Path(options.path) if options.path else None)
    train = corpus.train[: options.sentences or None]
    tests = {part: getattr(corpus, part)[: options.test_sentences or None] for part in PARTS}
    found: dict[str, list[list[str]]] = {}
    rows = common.finished_rows(
        options, ([row] for row in _rows(options, dtype, train, tests, found))
    )
    sizes = " and ".join(f"{len(test)} ({part})" for part, test in tests.items())
    notes = [
        f"CoNLL-2002, Spanish: {len(train)} sentences to train, {sizes} to test, margin re-scaling "
        f"of the Hamming loss, C' = {options.c_over_n:g}. Peak memory is that of the process so "
        "far: run one method alone to compare it."
    ]
    table, pairs = rows_table("Segments", COLUMNS, rows, notes), _pairs_table(options, rows)
    print(render(pairs, LINE) + "\n")
    plots = {"segments": _picture(tests["testa"], found)} if found else {}
    return common.save(options, table, {"rows": rows, "pairs": pairs._asdict()}, plots)


def _prepared(method: str, X: Any, Y: Any, dtype: str) -> Prepared:
    if method == "chain":
        return chains.prepare(X, Y, dtype=dtype)
    phrases = PHRASES if method == "phrases" else ()
    return segments.prepare(X, Y, phrases=phrases, dtype=dtype)


def _rows(
    options: Options, dtype: str, train: Sequence[Sentence],
    tests: Mapping[str, Sequence[Sentence]], shown: dict[str, list[list[str]]],
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """A row a machine. What it finds in testa is put into `shown`, for the picture."""
    X, Y = token_mappings(train), [list(each.labels) for each in train]
    X_test = {part: token_mappings(test) for part, test in tests.items()}
    for method in options.methods:
        watch = Stopwatch()
        data = _prepared(method, X, Y, dtype)
        solution, _ = fitted(
            options, method, data, "svm1_margin", options.c_over_n * len(train),
            max_passes=options.max_passes,
        )  # fmt: skip
        numbers = watch.numbers(solution.weights)
        model, scores = trained(data, solution), {}
        for part, test in tests.items():
            found = model.predict(X_test[part])
            true = [list(each.labels) for each in test]
            of_part = entity_f1(true, found)._asdict()
            scores |= {f"{part}_{name}": 100 * value for name, value in of_part.items()}
            scores[f"{part}_counts"] = _counts(true, found)
            shown.setdefault(method, found)
        yield {
            "method": method, "status": solution.status, **numbers, **scores,
            "peak_megabytes": peak_memory_bytes() / 1e6,
            "primal": solution.primal, "dual": solution.dual,
        }  # fmt: skip


def _counts(true: Sequence[list[str]], found: Sequence[list[str]]) -> list[list[int]]:
    """Of each sentence the entities that are right, and those found or true."""
    spans = [(iob2_spans(a), iob2_spans(b)) for a, b in zip(true, found, strict=True)]
    return [[len(a & b), len(a) + len(b)] for a, b in spans]


def _pairs_table(options: Options, rows: Sequence[Mapping[str, Any]]) -> Table:
    """Differences in F1 of each part, and how often one by chance is as large."""
    lines = []
    for part in PARTS:
        for a, b in combinations(rows, 2):
            of_a, of_b = (np.array(row[f"{part}_counts"]) for row in (a, b))
            found = f1_difference(of_a, of_b, options.seed)
            names = a["method"], b["method"]
            lines.append([part, *names, f"{found.points:.2f}", f"{found.p_value:.2g}"])
    notes = [f"{SWAPS} swaps at random, two-sided."]
    return Table("Segments, pair by pair", ["part", "a", "b", "F1 a - b", "p"], lines, notes)


def _picture(test: Sequence[Sentence], found: dict[str, list[list[str]]]) -> Plot:
    """The entities of one short sentence: true ones, and those of each machine."""
    from matplotlib.figure import Figure

    def interest(i: int) -> tuple[bool, int, int]:
        spans = [iob2_spans(labels[i]) for labels in found.values()]
        return spans[0] != spans[-1], len(iob2_spans(test[i].labels)), len(test[i].words)

    short = [i for i, each in enumerate(test) if len(each.words) <= LONGEST_SHOWN] or [0]
    i = max(short, key=interest)
    words = list(test[i].words)
    rows = {"true": list(test[i].labels)} | {name: labels[i] for name, labels in found.items()}
    figure = Figure(figsize=(0.8 * len(words) + 2, 0.6 * len(rows) + 1), layout="constrained")
    axes = figure.add_subplot()
    kinds = sorted({kind for labels in rows.values() for kind, _, _ in iob2_spans(labels)})
    for line, labels in enumerate(rows.values()):
        for kind, start, end in iob2_spans(labels):
            colour = f"C{kinds.index(kind)}"
            axes.barh(-line, end - start - 0.1, 0.7, start + 0.05, color=colour, alpha=0.6)
            axes.text((start + end) / 2, -line, kind, ha="center", va="center")
    axes.set(xlim=(0, len(words)), yticks=[-line for line in range(len(rows))])
    axes.set_yticklabels([*rows])
    axes.set_xticks([t + 0.5 for t in range(len(words))], words, rotation=45, ha="right")
    return Plot(figure, {"words": words, "labels": rows})
