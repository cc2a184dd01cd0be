"""Table 4.4 (JMLR's table 5): parsing with a learned weighted context-free grammar.

    python -m experiments.parsing                                    # GUM
    python -m experiments.parsing --corpus=wsj                       # the sample of the WSJ
    python -m experiments.parsing --corpus=ldc --path=/treebank3/parsed/mrg/wsj
    python -m experiments.parsing --corpus=files --train_trees=a.mrg --test_trees=b.mrg
    python -m experiments.parsing --sweep=0.1,1,10,100

A probabilistic grammar, SVM2 for the zero-one loss, and both re-scaled SVM2 for 1 - F1, on short
sentences given as part-of-speech tags; --methods has two more. Every trained model is written to
OUTPUT/parsing_trainings; `experiments.parse_sentences` parses with it.

Source: thesis, section 4.5.4; JMLR 6:1453-1484, section 5.4. Where the text leaves a choice the
flags have it:

  C             printed as 1; --c_over_n has C' = C / n, and 1/n stands for the printed C = 1,
                which learns too little; 0.1 was chosen on GUM's dev documents
  binarisation  not said; --branching and --memory. With all siblings remembered the grammar
                makes just the constituents seen; one was chosen on GUM's dev documents
  F1            of what: thesis, table 4.6, has the nodes of the binarised trees over two tokens or
                more, of which every tree has l - 1: --loss=node_f1. --loss=all_node_f1 adds those
                over single tokens. --loss=f1 trains for the constituents, which takes far longer.
                Constituents are what is reported
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from experiments.lib import common
from experiments.lib import kept as lib
from experiments.lib.kept import Store
from experiments.lib.plots import Plot
from experiments.lib.progress import training_progress
from experiments.lib.record import peak_memory_bytes
from experiments.lib.report import LINE, render
from experiments.parsing.report import NAMES, Row, Sets, first_readings, make_plots, make_tables
from experiments.tasks import parsing_options
from experiments.tasks.parser_model import Model, save_model
from experiments.tasks.parsers import (
    LIKELIHOOD_ITERATIONS,
    Method,
    Trained,
    evaluate,
    loss_of,
    problem_of,
    scores_of,
    sentence_errors,
    train_log_linear,
    train_pcfg,
    train_svm,
    trees_of,
)
from experiments.tasks.parsing_options import METHODS, ratio
from experiments.tasks.tree_pictures import chosen_cases, tree_pictures
from experiments.tasks.treebanks import Prepared, Treebank, load_treebank, prepare
from jaxstruct import Status
from jaxstruct.trees.phrases.bracketing import write_line

FOLDER = "parsing_trainings"
"""In the folder of results: a file a training, and the model beside it; see `lib.kept`."""
DECIDING = (
    "corpus", "test_part", "shortest", "longest", "sentences", "terminals", "rare", "branching",
    "memory", "loss", "measure", "smoothing", "epsilon", "max_passes", "oracle_batch",
    "group", "chunks", "variant", "working_sets", "capacity", "seed", "solver_seed", "x64",
)  # fmt: skip
"""Options that decide the numbers of a training; its method is in the file's name."""


class Options(parsing_options.Options):
    """The flags of this command."""


def store_of(options: Options, treebank: Treebank) -> lib.Store:
    """Where the trainings on this treebank lie."""
    trees = {part: list(map(write_line, getattr(treebank, part))) for part in ("train", "test")}
    key = lib.store_key(options, DECIDING, trees)
    return lib.Store(Path(options.output) / FOLDER, key, options.resume)


def kept(store: lib.Store, label: str, train: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
    """The numbers of one training, read again where they may be.

    Args:
      store: where they lie. label: of the method; it names the file.
      train: called where there is no file to go on from, with the path that its model may be
        written under.
    """
    name = re.sub(r"[^\w.]+", "_", label)
    found = lib.kept(store, name, lambda: train(store.folder / name))
    return found | ({"status": Status[found["status"]]} if "status" in found else {})


def run(options: Options) -> common.Outcome:
    """Train and test all methods, print the tables and write them with the models.

    Raises:
      ValueError: an option or a file does not fit.
      CorpusMissing: the corpus is not on this machine; the message says how to get it.
    """
    dtype = common.prepare(options)
    methods_of(options, 1)
    treebank = load_treebank(options)
    sets = Sets(treebank, prepare(treebank, options))
    methods, swept = methods_of(options, len(treebank.train))
    store = store_of(options, treebank)
    rows: list[Row] = []
    found: list[Row] = []
    with common.kept_if_stopped(
        options, {"rows": rows, "sweep": found}, "the same command with --resume goes on from there"
    ):
        for method in methods:
            rows.append(Row(method, _measure(options, store, sets.data, method, dtype)))
        for row in _swept(options, store, sets.data, swept, dtype):
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
      ValueError: a C' is missing or not positive.
    """
    names = [name for name in METHODS if name in options.methods]
    machines = [name for name in names if name != "pcfg"]
    ratios, swept = ([ratio(text, n) for text in of] for of in (options.c_over_n, options.sweep))
    if machines and not ratios:
        raise ValueError("c_over_n: got none, expected at least one value such as 1 or 1/n")
    rows = [Method(name, None) for name in names if name == "pcfg"]
    rows += [Method(name, value) for name in machines for value in ratios]
    return rows, [Method(name, value) for name in machines for value in sorted(swept)]


def _measure(
    options: Options, store: Store, data: Prepared, method: Method, dtype: str
) -> dict[str, Any]:
    """Numbers of one method, read again where --resume allows it."""

    def train(path: Path) -> dict[str, Any]:
        return _test(options, data, method, _train(options, data, method, dtype), path, dtype)

    return kept(store, method.label, train)


def _train(
    options: Options, data: Prepared, method: Method, dtype: str, start: Any = None
) -> Trained:
    if method.name == "pcfg":
        return train_pcfg(data, options, dtype)
    problem = problem_of(data, loss_of(method, options), dtype)
    limit = LIKELIHOOD_ITERATIONS if method.name == "log_linear" else options.max_passes
    with training_progress(limit, method.label, options.progress, None) as update:
        if method.name == "log_linear":
            return train_log_linear(data, problem, method, update, start)
        return train_svm(data, problem, method, options, update, start)


def _test(
    options: Options, data: Prepared, method: Method, trained: Trained, path: Path, dtype: str
) -> dict[str, Any]:
    """The numbers of a training with its scores; its model is written."""
    files = save_model(path, Model(data.grammar, trained.weights))
    problem = problem_of(data, "zero_one", dtype)
    scores = {
        part: evaluate(data, problem, trained.weights, options.measure, part)
        for part in ("train", "test")
    }
    return trained.numbers | scores | {"model": files}


def _swept(
    options: Options, store: Store, data: Prepared, methods: Sequence[Method], dtype: str
) -> Iterator[Row]:
    """The sweep, each C' of a machine started from the solution of the one before."""
    last: dict[str, Any] = {}
    for method in methods:

        def train(path: Path, method: Method = method) -> dict[str, Any]:
            trained = _train(options, data, method, dtype, last.get(method.name))
            last[method.name] = trained.next_start
            return _test(options, data, method, trained, path, dtype)

        yield Row(method, kept(store, f"sweep, {method.label}", train))


def _pictures(options: Options, sets: Sets, rows: Sequence[Row]) -> dict[str, Plot]:
    """The right trees beside those of the first and of the last method."""
    if not options.pictures:
        return {}
    first = first_readings(rows)
    ends = first if len(first) == 1 else [first[0], first[-1]]
    answers = [trees_of(row.numbers["test"]["answers"]) for row in ends]
    errors = [sentence_errors(scores_of(row.numbers["test"])) for row in ends]
    cases = chosen_cases(sets.treebank.test, answers, errors, options.pictures)
    names = [NAMES[row.method.name] for row in ends]
    title = f"{sets.treebank.name}: trees (* missed by, ? not in the right tree)"
    return {"parsing_trees": tree_pictures(cases, names, title)}
