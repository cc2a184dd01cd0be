"""The tables and plots of the parsing experiment, beside the paper's figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from experiments.lib.paired_tests import SWAPS, f1_difference
from experiments.lib.plots import Plot, bar_groups, curve_lines
from experiments.lib.report import Table, spread_text
from experiments.tasks.parsers import Method, scores_of, sentence_f1
from experiments.tasks.treebanks import SHORTEST, Options, Prepared, Treebank
from jaxstruct.data.trees import leaves
from jaxstruct.evaluation.metrics import McNemarResult, mcnemar
from jaxstruct.trees.phrases.evaluation import VALID


class Paper(NamedTuple):
    """A row of table 4.4; per cent, processor hours, per cent of them in the QP, counts."""

    train: tuple[float, float, float, float]
    test: tuple[float, float, float, float]
    hours: float
    qp: float | None
    iterations: int | None
    constraints: int | None


PAPER = {
    "pcfg": Paper((61.4, 92.4, 88.5, 90.4), (55.2, 86.8, 85.2, 86.0), 0.0, None, None, None),
    "svm2": Paper((66.3, 92.8, 91.2, 92.0), (58.9, 85.3, 87.2, 86.2), 1.2, 81.6, 17, 7494),
    "svm2_slack": Paper((62.2, 93.9, 90.4, 92.1), (58.9, 88.9, 88.1, 88.5), 3.4, 10.5, 12, 8043),
    "svm2_margin": Paper((63.5, 93.9, 90.8, 92.3), (58.3, 88.7, 88.1, 88.4), 3.5, 18.0, 16, 7117),
}
NAMES = {
    "pcfg": "PCFG", "log_linear": "log-linear", "svm1_margin": "SVM1 Δm", "svm2": "SVM2",
    "svm2_slack": "SVM2 Δs", "svm2_margin": "SVM2 Δm",
}  # fmt: skip
FIGURES = ("Acc", "Prec", "Rec", "F1")
KINDS = ("process", "wall")


PAPER_NOTE = " The paper: 4098 and 163 of at most 10, WSJ sections F2-21 to F22."


def paper_of(options: Options) -> Mapping[str, Paper]:
    """`PAPER` where the sentences are the paper's, nothing elsewhere."""
    task = (options.corpus, options.longest, options.sentences)
    return PAPER if task == ("ldc", 10, 0) else {}


class Row(NamedTuple):
    """A training of the table or of the sweep, and its numbers."""

    method: Method
    numbers: Mapping[str, Any]


class Sets(NamedTuple):
    """What was trained and tested on."""

    treebank: Treebank
    data: Prepared


def make_tables(
    options: Options, sets: Sets, rows: Sequence[Row], swept: Sequence[Row]
) -> tuple[Table, list[Table]]:
    """(table 4.4, the tables beside it)."""
    others = [_coverage_table(sets, rows), _efficiency_table(options, rows)]
    first = first_readings(rows)
    if len(first) > 1:
        others.append(_significance_table(options, first))
    if swept:
        others.append(_sweep_table(swept))
    return _accuracy_table(options, sets, rows), others


def first_readings(rows: Sequence[Row]) -> list[Row]:
    """Of each method, loss and features the row of the first C'."""
    first: dict[Method, Row] = {}
    for row in rows:
        first.setdefault(row.method._replace(c_over_n=None), row)
    return list(first.values())


def figures(numbers: Mapping[str, Any], part: str) -> tuple[float, float, float, float]:
    """Accuracy of whole trees, precision, recall and F1 in per cent.

    The first is of all sentences; the others, as EVALB has them, of those with a parse.
    """
    own = numbers[part]
    summary = own["summary"]
    found = own["same_tree"], summary["precision"], summary["recall"], summary["f1"]
    whole, precision, recall, f1 = (100 * float(value) for value in found)
    return whole, precision, recall, f1


def name_of(row: Row) -> str:
    """Its name in tables and plots, with the loss and the features where they are to be chosen."""
    return NAMES[row.method.name] + row.method.choices


def _ratio(row: Row) -> str | None:
    """C' in the fewest letters."""
    return None if row.method.c_over_n is None else f"{row.method.c_over_n:.3g}"


def _accuracy_table(options: Options, sets: Sets, rows: Sequence[Row]) -> Table:
    lines: list[list[Any]] = []
    for name in dict.fromkeys(row.method.name for row in rows):
        if paper := paper_of(options).get(name):
            further = [None] * len(_further(rows[0]))
            lines.append(
                [NAMES[name], "paper", None, *paper.train, *paper.test, None, None, *further]
            )
        for row in rows:
            if row.method.name == name:
                wrong = row.numbers["test"]["failures_counted"]
                lines.append([
                    name_of(row), "measured", _ratio(row), *figures(row.numbers, "train"),
                    *figures(row.numbers, "test"), 100 * wrong["recall"], 100 * wrong["f1"],
                    *_further(row).values(),
                ])  # fmt: skip
    columns = [
        "method", "", "C'",
        *(("train", figure) for figure in FIGURES), *(("test", figure) for figure in FIGURES),
        ("test, all", "Rec"), ("test, all", "F1"), *_further(rows[0]),
    ]  # fmt: skip
    train, test = len(sets.treebank.train), len(sets.treebank.test)
    notes = [
        f"{sets.treebank.name}: {train} training and {test} test sentences of "
        f"{SHORTEST} to {options.longest} tokens, read as tags."
        f"{PAPER_NOTE if paper_of(options) else ''}",
        "Acc: per cent of all sentences whose whole tree is right. Prec, Rec, F1: of labelled "
        "constituents, micro-averaged over the sentences with a parse, as EVALB does; test, all: "
        "sentences without a parse count as missed.",
        "Zero-one loss for SVM2, the named one for Δs (slack) and Δm (margin re-scaling); "
        f"C' = C / n, n = {train}; epsilon = {options.epsilon:g}.",
        "Source: thesis, table 4.4; JMLR 6:1453-1484, table 5.",
    ]
    if options.folds:
        notes.append("Folds: mean ± standard deviation; test: all held-out sentences together.")
    return Table("Table 4.4: learning a weighted context-free grammar", columns, lines, notes)


def _further(row: Row) -> dict[tuple[str, str], Any]:
    """Columns of accuracy and F1 on the dev sentences, and over folds, where there are such."""
    found: dict[tuple[str, str], Any] = {}
    if "dev" in row.numbers:
        dev = figures(row.numbers, "dev")
        found |= {("dev", "Acc"): dev[0], ("dev", "F1"): dev[3]}
    if folds := row.numbers["test"].get("folds"):
        for name, column in zip(("Acc", "F1"), 100 * np.array(folds).T, strict=True):
            found["folds", name] = spread_text(column, 1)
    return found


def _coverage_table(sets: Sets, rows: Sequence[Row]) -> Table:
    grammar, lines = sets.data.grammar, []
    for part in ("train", "test"):
        trees, found = getattr(sets.treebank, part), rows[0].numbers[part]
        n = len(trees)
        lines.append([
            part, n, sum(map(len, map(leaves, trees))), found["outside"],
            100 * found["outside"] / n, found["no_parse"], 100 * found["no_parse"] / n,
        ])  # fmt: skip
    columns = [
        "part", "sentences", "tokens", ("right tree outside the grammar", "sentences"),
        ("right tree outside the grammar", "%"), ("no parse", "sentences"), ("no parse", "%"),
    ]  # fmt: skip
    binarisation = grammar.binarisation
    memory = "all" if binarisation.memory is None else binarisation.memory
    notes = [
        f"{len(grammar.symbols)} symbols, {len(grammar.binary_rules)} binary and "
        f"{len(grammar.lexical_rules)} lexical rules, {int((grammar.root_counts > 0).sum())} "
        f"roots, {len(grammar.terminals)} terminals; branching to the {binarisation.branching}, "
        f"memory {memory}; at most {sets.data.longest} tokens."
    ]
    return Table("The grammar, read off the training trees", columns, lines, notes)


def _efficiency_table(options: Options, rows: Sequence[Row]) -> Table:
    lines: list[list[Any]] = []
    for name in dict.fromkeys(row.method.name for row in rows):
        if paper := paper_of(options).get(name):
            lines.append([
                NAMES[name], "paper", None, 3600 * paper.hours, *[None] * 3, paper.qp,
                paper.iterations, paper.constraints, *[None] * 4,
            ])  # fmt: skip
        lines += [[name_of(row), *_efficiency(row)] for row in rows if row.method.name == name]
    columns = [
        "method", "", "C'", ("training s", "processor"), ("training s", "wall"),
        ("compiling s", "processor"), ("compiling s", "wall"), "% in QP", "iterations",
        "constraints", "support", "oracle calls", "largest violation", "status",
    ]  # fmt: skip
    notes = [
        "Training is without compiling. % in QP: of the wall seconds of the passes in which "
        "nothing was compiled; the rest is the search for violated constraints.",
        f"A pass calls the oracle once for every sentence. Stopped at epsilon = "
        f"{options.epsilon:g} over the working sets, or after {options.max_passes} passes.",
    ]
    if any(row.method.name == "log_linear" for row in rows):
        notes.append("The log-linear grammar: iterations of L-BFGS, stopped by its gradient.")
    return Table("Table 4.4: training efficiency", columns, lines, notes)


def _efficiency(row: Row) -> list[Any]:
    own = row.numbers
    times = [round(own[part][kind], 1) for part in ("seconds", "compiling") for kind in KINDS]
    share, status = own.get("qp_share"), own.get("status")
    counts = [own.get(name) for name in ("passes", "constraints", "support", "oracle_calls")]
    return [
        "measured", _ratio(row), *times, None if share is None else round(100 * share, 1),
        *counts, own.get("violation"), None if status is None else status.name,
    ]  # fmt: skip


class Comparison(NamedTuple):
    """Two methods on the test sentences; see `compare`.

    Fields:
      trees, sentences: McNemar's test. difference, p_value: F1 of a less that of b, in points, and
        how often one by chance is as large.
    """

    trees: McNemarResult
    sentences: McNemarResult
    difference: float
    p_value: float


def compare(a: Mapping[str, Any], b: Mapping[str, Any], seed: int) -> Comparison:
    """Tests on pairs of answers to the same sentences, two-sided.

    trees: an example is right where the whole tree is. sentences: a has an example right that b
    has not where its F1 of the sentence is higher, one reading of the paper's "McNemar test on the
    F1-scores"; no parse is F1 = 0. p_value: the answers to each sentence are swapped at random,
    and F1 is that of all sentences together; no parse counts nowhere.

    Args:
      a, b: numbers of the test part. seed: of the swaps.
    """
    mine, theirs = (sentence_f1(scores_of(each)) for each in (a, b))
    f1 = f1_difference(_counts(a), _counts(b), seed)
    return Comparison(
        mcnemar(np.array(a["right"]), np.array(b["right"])),
        mcnemar(mine > theirs, theirs > mine), *f1,
    )  # fmt: skip


def _counts(numbers: Mapping[str, Any]) -> np.ndarray:
    """[n, 2] of each sentence m and g + p; 0 where there is no parse."""
    scores = scores_of(numbers)
    valid = scores.status == VALID
    return np.stack([scores.matched * valid, (scores.gold + scores.predicted) * valid], axis=1)


def _significance_table(options: Options, rows: Sequence[Row]) -> Table:
    """Each method beside the PCFG and beside the zero-one loss, or beside the first."""
    bases = [row for row in rows if row.method.name in ("pcfg", "svm2")][:2] or list(rows[:1])
    lines = []
    for place, base in enumerate(bases):
        for row in rows:
            if row in bases[: place + 1]:
                continue
            found = compare(row.numbers["test"], base.numbers["test"], options.seed)
            cells = [(one.only_a, one.only_b, f"{one.p_value:.2g}") for one in found[:2]]
            lines.append([
                name_of(row), name_of(base), *cells[0], *cells[1], f"{found.difference:.2f}",
                f"{found.p_value:.2g}",
            ])  # fmt: skip
    columns = ["a", "b"]
    columns += [("whole trees", name) for name in ("only a right", "only b right", "p")]
    columns += [("sentences by F1", name) for name in ("a better", "b better", "p")]
    columns += [("F1", "a - b"), ("F1", "p")]
    notes = [
        "Two-sided. Whole trees, and sentences by F1 (0 without a parse): McNemar's test. F1 of "
        f"all sentences: {SWAPS} times the answers to sentences are swapped at random."
    ]
    return Table("Methods compared on the test sentences", columns, lines, notes)


def _sweep_table(rows: Sequence[Row]) -> Table:
    lines = [
        [
            name_of(row), _ratio(row), *figures(row.numbers, "train"),
            *figures(row.numbers, "test"), row.numbers["seconds"]["process"],
            row.numbers["passes"], row.numbers.get("constraints"), row.numbers["status"].name,
        ]
        for row in rows
    ]  # fmt: skip
    columns = [
        "method", "C'", *(("train", figure) for figure in FIGURES),
        *(("test", figure) for figure in FIGURES), "processor s", "passes", "constraints",
        "status",
    ]  # fmt: skip
    notes = ["Each C' goes on from the solution of the one before; from zero after a resumption."]
    return Table("The sweep of C", columns, lines, notes)


def make_plots(
    options: Options, sets: Sets, rows: Sequence[Row], swept: Sequence[Row]
) -> dict[str, Plot]:
    """File name -> plot: table 4.4 as bars, the sweep as curves."""
    plots = {"parsing": _bars(options, sets, first_readings(rows))}
    return plots | (_sweep_plots(sets, rows, swept) if swept else {})


def _bars(options: Options, sets: Sets, rows: Sequence[Row]) -> Plot:
    measured = [figures(row.numbers, "test") for row in rows]
    none = math.nan, math.nan, math.nan, math.nan
    missing = Paper(none, none, math.nan, None, None, None)
    known = paper_of(options)
    series: dict[str, list[float]] = {}
    for name, place in (("test accuracy", 0), ("test F1", 3)):
        if known:
            papers = [known.get(row.method.name, missing).test for row in rows]
            series[f"{name}, paper"] = [figure[place] for figure in papers]
        series[name] = [round(figure[place], 1) for figure in measured]
    title = f"Table 4.4: whole trees and F1, {sets.treebank.name}"
    return bar_groups(
        [name_of(row).replace("SVM2 Δ", "Δ") for row in rows],
        series,
        title=title,
        ylabel="per cent",
    )


def _sweep_plots(sets: Sets, rows: Sequence[Row], swept: Sequence[Row]) -> dict[str, Plot]:
    """One plot of F1 and one of accuracy; a method without C' goes straight across."""
    places = sorted({row.method.C(1) for row in swept})
    fixed = [row for row in first_readings(rows) if row.method.c_over_n is None]
    plots = {}
    for figure, which in (("F1", 3), ("accuracy", 0)):
        curves = {
            name_of(row): (places, [figures(row.numbers, "test")[which]] * len(places))
            for row in fixed
        }
        for name in dict.fromkeys(map(name_of, swept)):
            own = [row for row in swept if name_of(row) == name]
            heights = [figures(row.numbers, "test")[which] for row in own]
            curves[name] = ([row.method.C(1) for row in own], heights)
        title = f"{figure} of the test sentences by C' = C / n, {sets.treebank.name}"
        plots[f"parsing_sweep_{figure.lower()}"] = curve_lines(
            curves, title, "C' = C / n", "per cent", log_x=True, log_y=False
        )
    return plots
