"""Table 4.4 (JMLR's table 5): parsing with a learned weighted context-free grammar.

    python -m experiments.parsing                                    # GUM
    python -m experiments.parsing --corpus=wsj                       # the sample of the WSJ
    python -m experiments.parsing --corpus=ldc --path=/treebank3/parsed/mrg/wsj
    python -m experiments.parsing --corpus=files --train_trees=a.mrg --test_trees=b.mrg
    python -m experiments.parsing --sweep=0.1,1,10,100
    python -m experiments.parsing --corpus=wsj --folds=10            # cross-validation
    python -m experiments.parsing --features=rules,tags,words        # Psi of more than rules

A probabilistic grammar, SVM2 for the zero-one loss, and both re-scaled SVM2 for 1 - F1, on short
sentences given as part-of-speech tags; --methods has two more.

Source: thesis, section 4.5.4; JMLR 6:1453-1484, section 5.4. Where the text leaves a choice the
flags have it:

  C             printed as 1; --c_over_n has C' = C / n, and 1/n stands for the printed C = 1,
                which learns too little; 0.1 was chosen on GUM's dev documents
  binarisation  not said; to the right. With all siblings remembered the grammar
                makes just the constituents seen; one was chosen on GUM's dev documents
  F1            of what: thesis, table 4.6, has the nodes of the binarised trees over two tokens or
                more, of which every tree has l - 1: node_f1. all_node_f1 adds those over single
                tokens. f1 is that of constituents, which is what is reported
  tests         McNemar's on the F1-scores: here on sentences by their F1, and on whole trees;
                beside it a randomisation test of F1, which swaps the answers to whole sentences
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from experiments.lib import common, fields
from experiments.lib import kept as lib
from experiments.lib.plots import Plot
from experiments.lib.progress import training_progress
from experiments.lib.record import peak_memory_bytes
from experiments.lib.report import LINE, render
from experiments.parsing.report import (
    KINDS,
    Row,
    Sets,
    first_readings,
    make_plots,
    make_tables,
    name_of,
)
from experiments.tasks.parsers import (
    LIKELIHOOD_ITERATIONS,
    Method,
    Trained,
    evaluate,
    is_rescaled,
    pooled,
    problem_of,
    scores_of,
    sentence_errors,
    train_log_linear,
    train_pcfg,
    train_svm,
    trees_of,
)
from experiments.tasks.tree_pictures import chosen_cases, tree_pictures
from experiments.tasks.treebanks import (
    METHODS,
    Prepared,
    Treebank,
    folds_of,
    load_treebank,
    prepare,
    with_span_features,
)
from experiments.tasks.treebanks import Options as ParsingOptions
from jaxstruct import Status
from jaxstruct.data.bracketing import write_line

FOLDER = "parsing_trainings"
"""In the folder of results: a file a training; see `lib.kept`."""
DECIDING = (
    "corpus", "test_part", "longest", "sentences", "epsilon", "max_passes",
    "variant", "working_sets", "capacity", "seed", "solver_seed", "x64",
)  # fmt: skip
"""Options that decide the numbers of a training; its method is in the file's name."""
PARTS = ("train", "test", "dev")


class Options(ParsingOptions):
    """The flags of this command."""


class Fold(NamedTuple):
    """Where the trainings of a fold, or of the only split, are kept, its data and its number."""

    store: lib.Store
    data: Prepared
    place: int


def store_of(options: Options, treebank: Treebank) -> lib.Store:
    """Where the trainings on this treebank lie."""
    trees = {part: list(map(write_line, getattr(treebank, part))) for part in PARTS}
    key = lib.store_key(options, DECIDING, trees)
    return lib.Store(Path(options.output) / FOLDER, key, options.resume)


def kept(store: lib.Store, label: str, train: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The numbers of one training, read again where they may be.

    Args:
      store: where they lie. label: of the method; it names the file.
      train: called where there is no file to go on from.
    """
    found = lib.kept(store, re.sub(r"[^\w.]+", "_", label), train)
    return found | ({"status": Status[found["status"]]} if "status" in found else {})


def run(options: Options) -> common.Outcome:
    """Train and test all methods, print the tables and write them.

    Raises:
      ValueError: an option or a file does not fit.
      CorpusMissing: the corpus is not on this machine; the message says how to get it.
    """
    dtype = common.prepare(options)
    methods_of(options, 1)
    treebanks = folds_of(load_treebank(options), options)
    folds = [
        Fold(store_of(options, each), prepare(each), place) for place, each in enumerate(treebanks)
    ]
    treebank = treebanks[0]._replace(test=tuple(tree for each in treebanks for tree in each.test))
    sets = Sets(treebank, folds[0].data)
    methods, swept = methods_of(options, len(treebank.train))
    rows: list[Row] = []
    found: list[Row] = []
    with common.kept_if_stopped(
        options, {"rows": rows, "sweep": found}, "the same command with --resume goes on from there"
    ):
        for method in methods:
            found_of = [_measure(options, fold, method, dtype) for fold in folds]
            rows.append(Row(method, _joined(found_of)))
        for row in _swept(options, folds[0], swept, dtype):
            found.append(row)
    table, others = make_tables(options, sets, rows, found)
    for other in others:
        print(render(other, LINE))
    numbers = {
        "rows": [row._asdict() for row in rows], "sweep": [row._asdict() for row in found],
        "right": [write_line(tree) for tree in treebank.test],
        "tables": [other._asdict() for other in others],
        "peak_memory_bytes": peak_memory_bytes(),
    }  # fmt: skip
    plots = make_plots(options, sets, rows, found) | _pictures(options, sets, rows)
    return common.save(options, table, numbers, plots)


def methods_of(options: Options, n: int) -> tuple[list[Method], list[Method]]:
    """(rows of the table, trainings of the sweep) for n training sentences.

    Raises:
      ValueError: both a sweep and folds.
    """
    names = [name for name in METHODS if name in options.methods]
    machines = [name for name in names if name != "pcfg"]
    ratios, swept = (
        [fields.ratio(text, n) for text in of] for of in (options.c_over_n, options.sweep)
    )
    if swept and options.folds:
        raise ValueError("sweep, folds: got both, expected a sweep on the parts of the corpus")
    kinds = [
        (name, loss, features)
        for features in options.features
        for name in machines
        for loss in (options.loss if is_rescaled(name) else ("zero_one",))
    ]
    rows = [Method(name, None) for name in names if name == "pcfg"]
    rows += [Method(name, value, *others) for name, *others in kinds for value in ratios]
    return rows, [Method(name, C, *others) for name, *others in kinds for C in sorted(swept)]


def _measure(options: Options, fold: Fold, method: Method, dtype: str) -> dict[str, Any]:
    """Numbers of one method on one fold, read again where --resume allows it."""
    data = with_span_features(fold.data, method.features)

    def train() -> dict[str, Any]:
        return _test(options, data, _train(options, data, method, dtype), dtype)

    return kept(fold.store, method.label + (f", fold {fold.place}" if options.folds else ""), train)


SUMMED = ("passes", "constraints", "support", "oracle_calls")


def _joined(folds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The numbers of one method on all folds: sentences pooled, times and counts added."""
    first = dict(folds[0])
    if len(folds) == 1:
        return first
    joined: dict[str, Any] = {
        part: pooled([one[part] for one in folds]) for part in PARTS if part in first
    }
    for name in ("seconds", "compiling"):
        joined[name] = {kind: sum(one[name][kind] for one in folds) for kind in KINDS}
    joined |= {name: sum(one[name] for one in folds) for name in SUMMED if name in first}
    if "violation" in first:
        joined["violation"] = max(one["violation"] for one in folds)
    statuses = [one["status"] for one in folds if "status" in one]
    unlike = (status for status in statuses if status is not statuses[0])
    return joined | ({"status": next(unlike, statuses[0])} if statuses else {})


def _train(
    options: Options, data: Prepared, method: Method, dtype: str, start: Any = None
) -> Trained:
    if method.name == "pcfg":
        return train_pcfg(data, dtype)
    problem = problem_of(data, method.loss, dtype)
    limit = LIKELIHOOD_ITERATIONS if method.name == "log_linear" else options.max_passes
    with training_progress(limit, method.label, options.progress, None) as update:
        if method.name == "log_linear":
            return train_log_linear(data, problem, method, update, start)
        return train_svm(data, problem, method, options, update, start)


def _test(options: Options, data: Prepared, trained: Trained, dtype: str) -> dict[str, Any]:
    """The numbers of a training with its scores."""
    problem = problem_of(data, "zero_one", dtype)
    scores = {
        part: evaluate(data, problem, trained.weights, part)
        for part in PARTS
        if getattr(data, part) is not None
    }
    return trained.numbers | scores


def _swept(options: Options, fold: Fold, methods: Sequence[Method], dtype: str) -> Iterator[Row]:
    """The sweep, each C' of a machine started from the solution of the one before."""
    last: dict[tuple, Any] = {}
    for method in methods:
        kind, data = method._replace(c_over_n=None), with_span_features(fold.data, method.features)

        def train(
            method: Method = method, kind: Method = kind, data: Prepared = data
        ) -> dict[str, Any]:
            trained = _train(options, data, method, dtype, last.get(kind))
            last[kind] = trained.next_start
            return _test(options, data, trained, dtype)

        yield Row(method, kept(fold.store, f"sweep, {method.label}", train))


def _pictures(options: Options, sets: Sets, rows: Sequence[Row]) -> dict[str, Plot]:
    """The right trees beside those of the first and of the last method."""
    if not options.pictures:
        return {}
    first = first_readings(rows)
    ends = first if len(first) == 1 else [first[0], first[-1]]
    answers = [trees_of(row.numbers["test"]["answers"]) for row in ends]
    errors = [sentence_errors(scores_of(row.numbers["test"])) for row in ends]
    cases = chosen_cases(sets.treebank.test, answers, errors, options.pictures)
    names = [name_of(row) for row in ends]
    title = f"{sets.treebank.name}: trees (* missed by, ? not in the right tree)"
    return {"parsing_trees": tree_pictures(cases, names, title)}
