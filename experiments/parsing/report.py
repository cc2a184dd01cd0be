"""The tables and plots of the parsing experiment, beside the paper's figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from experiments.lib.plots import Plot, bar_groups, curve_lines
from experiments.lib.report import Table
from experiments.tasks.parsers import Method, scores_of, sentence_f1, trees_of
from experiments.tasks.parsing_options import MEASURES, Options
from experiments.tasks.treebanks import Prepared, Treebank
from jaxstruct.evaluation.significance import McNemarResult, mcnemar
from jaxstruct.trees.phrases.evaluation import VALID, Measure, count_constituents
from jaxstruct.trees.phrases.tree import Tree, leaves


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
    task = (options.corpus, options.longest, options.sentences, options.terminals)
    return PAPER if task == ("ldc", 10, 0, "tags") else {}


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
        others.append(_mcnemar_table(options, sets, first))
    if swept:
        others.append(_sweep_table(swept))
    return _accuracy_table(options, sets, rows), others


def first_readings(rows: Sequence[Row]) -> list[Row]:
    """Of each method the row of the first C'."""
    first: dict[str, Row] = {}
    for row in rows:
        first.setdefault(row.method.name, row)
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


def _name(row: Row) -> str:
    return NAMES[row.method.name]


def _ratio(row: Row) -> str | None:
    """C' in the fewest letters."""
    return None if row.method.c_over_n is None else f"{row.method.c_over_n:.3g}"


def _accuracy_table(options: Options, sets: Sets, rows: Sequence[Row]) -> Table:
    lines: list[list[Any]] = []
    for name in dict.fromkeys(row.method.name for row in rows):
        if paper := paper_of(options).get(name):
            lines.append([NAMES[name], "paper", None, *paper.train, *paper.test, None, None])
        shown = "" if paper else NAMES[name]
        for row in rows:
            if row.method.name == name:
                wrong = row.numbers["test"]["failures_counted"]
                lines.append([
                    shown, "measured", _ratio(row), *figures(row.numbers, "train"),
                    *figures(row.numbers, "test"), 100 * wrong["recall"], 100 * wrong["f1"],
                ])  # fmt: skip
    columns = [
        "method", "", "C'",
        *(("train", figure) for figure in FIGURES), *(("test", figure) for figure in FIGURES),
        ("test, all", "Rec"), ("test, all", "F1"),
    ]  # fmt: skip
    train, test = (len(part) for part in sets.treebank[1:])
    notes = [
        f"{sets.treebank.name}: {train} training and {test} test sentences of "
        f"{options.shortest} to {options.longest} tokens, read as {options.terminals}."
        f"{PAPER_NOTE if paper_of(options) else ''}",
        "Acc: per cent of all sentences whose whole tree is right. Prec, Rec, F1: of labelled "
        "constituents, micro-averaged over the sentences with a parse, as EVALB does; test, all: "
        "sentences without a parse count as missed.",
        f"Zero-one loss for SVM2, {options.loss} for Δs (slack) and Δm (margin re-scaling); "
        f"C' = C / n, n = {train}; epsilon = {options.epsilon:g}; constituents that count: "
        f"{options.measure}.",
        "Source: thesis, table 4.4; JMLR 6:1453-1484, table 5.",
    ]
    return Table("Table 4.4: learning a weighted context-free grammar", columns, lines, notes)


def _coverage_table(sets: Sets, rows: Sequence[Row]) -> Table:
    grammar, lines = sets.data.grammar, []
    for part in ("train", "test"):
        own, found = getattr(sets.data, part), rows[0].numbers[part]
        n = len(own.trees)
        lines.append([
            part, n, sum(len(leaves(tree)) for tree in own.trees), found["outside"],
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
        shown = "" if paper else NAMES[name]
        lines += [[shown, *_efficiency(row)] for row in rows if row.method.name == name]
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
    """Two methods on the test sentences; see `compare`."""

    constituents: McNemarResult
    sentences: McNemarResult


def compare(
    gold: Sequence[Tree], a: Mapping[str, Any], b: Mapping[str, Any], measure: Measure
) -> Comparison:
    """McNemar's test on F1, in two readings, since the paper does not say what it counts.

    constituents: a constituent that is in the right tree or in either prediction is decided
    rightly by a method if it predicts exactly those of the right tree, with multiplicity. The
    errors of a method are then what lowers its F1: predicted and wrong, or right and missed.
    sentences: a has an example right that b has not where its F1 of the sentence is higher.
    No parse counts as no constituent, and as F1 = 0.
    """
    first, second = scores_of(a), scores_of(b)
    decisions = [
        _decisions(right, one, other, measure)
        for right, one, other in zip(
            gold, _valid(a["answers"], first), _valid(b["answers"], second), strict=True
        )
    ]
    right_a, right_b = np.concatenate(decisions, axis=1)
    mine, theirs = sentence_f1(first), sentence_f1(second)
    return Comparison(mcnemar(right_a, right_b), mcnemar(mine > theirs, theirs > mine))


def _valid(answers: Sequence[str | None], scores: Any) -> list[Tree | None]:
    """The answers that count; None where a sentence is not valid."""
    trees = trees_of(answers)
    return [
        tree if status == VALID else None for tree, status in zip(trees, scores.status, strict=True)
    ]


def _decisions(gold: Tree, a: Tree | None, b: Tree | None, measure: Measure) -> np.ndarray:
    """[2, m] bool: whether a and b decide each of m candidates rightly.

    A constituent that occurs up to c times among the three trees is c candidates, of which the
    first so many are in a tree as it has it.
    """
    trees = gold, a, b
    counts = [count_constituents(tree, measure) if tree else {} for tree in trees]
    every = sorted(set().union(*counts))
    right = [
        [(rank < of.get(one, 0)) == (rank < counts[0].get(one, 0)) for of in counts[1:]]
        for one in every
        for rank in range(max(of.get(one, 0) for of in counts))
    ]
    return np.array(right, bool).reshape(len(right), 2).T


def _mcnemar_table(options: Options, sets: Sets, rows: Sequence[Row]) -> Table:
    gold, measure, lines = sets.treebank.test, MEASURES[options.measure], []
    for a, b in combinations(rows, 2):
        found = compare(gold, b.numbers["test"], a.numbers["test"], measure)
        cells = [(one.only_a, one.only_b, f"{one.p_value:.2g}") for one in found]
        lines.append([_name(b), _name(a), *cells[0], *cells[1]])
    columns = ["a", "b"]
    columns += [("constituents decided", name) for name in ("right by a", "right by b", "p")]
    columns += [("sentences by F1", name) for name in ("a better", "b better", "p")]
    notes = [
        "Two-sided. Constituents of the right tree or of either prediction: right where a method "
        "predicts it just if the right tree has it. Only those are counted in which a and b "
        "differ. A sentence without a parse has no constituents and F1 = 0."
    ]
    return Table("McNemar's test on the test sentences", columns, lines, notes)


def _sweep_table(rows: Sequence[Row]) -> Table:
    lines = [
        [
            _name(row), _ratio(row), *figures(row.numbers, "train"),
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
    return bar_groups([_name(row) for row in rows], series, title=title, ylabel="per cent")


def _sweep_plots(sets: Sets, rows: Sequence[Row], swept: Sequence[Row]) -> dict[str, Plot]:
    """One plot of F1 and one of accuracy; a method without C' goes straight across."""
    places = sorted({row.method.C(1) for row in swept})
    fixed = [row for row in first_readings(rows) if row.method.c_over_n is None]
    plots = {}
    for figure, which in (("F1", 3), ("accuracy", 0)):
        curves = {
            _name(row): (places, [figures(row.numbers, "test")[which]] * len(places))
            for row in fixed
        }
        for name in dict.fromkeys(row.method.name for row in swept):
            own = [row for row in swept if row.method.name == name]
            heights = [figures(row.numbers, "test")[which] for row in own]
            curves[NAMES[name]] = ([row.method.C(1) for row in own], heights)
        title = f"{figure} of the test sentences by C' = C / n, {sets.treebank.name}"
        plots[f"parsing_sweep_{figure.lower()}"] = curve_lines(
            curves, title, "C' = C / n", "per cent", log_x=True, log_y=False
        )
    return plots
