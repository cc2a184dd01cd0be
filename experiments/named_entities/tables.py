"""Tables 2 and 3: every machine on every fold of the first sentences."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from experiments.lib import common
from experiments.lib import kept as lib
from experiments.lib.kept import Store
from experiments.lib.progress import jobs_bar
from experiments.named_entities.options import METHODS, SVMS, Options
from experiments.named_entities.report import Row, error_plot, table_three, table_two
from experiments.tasks.news import (
    Corpus,
    kernel_corpus,
    label_names,
    length_classes,
    sparse_corpus,
)
from experiments.tasks.taggers import (
    Fold,
    Numbers,
    commonest_label,
    fold_of,
    hidden_markov,
    last_and_averaged_perceptron,
    random_field,
    support_vector_machine,
)
from jaxstruct import Status
from jaxstruct.chains.structure import chain
from jaxstruct.core.contract import Problem
from jaxstruct.data.conll import Sentence, load_conll2002
from jaxstruct.data.splits import stratified_folds
from jaxstruct.data.token_features import FeatureOptions, fit_token_index

FOLDER = "named_entities_folds"
"""In the folder of results: a file a training; see `lib.kept`."""
DECIDING = (
    "language", "sentences", "folds", "epsilon", "normalise", "epochs", "affixes", "window", "tags",
    "max_passes", "variant", "working_sets", "capacity", "seed", "solver_seed", "x64",
)  # fmt: skip
"""Options that decide the numbers of a training; its machine and fold are in the file's name."""

Measured = tuple[dict[str, Any], ...]


def store_of(options: Options, sentences: Sequence[Sentence]) -> lib.Store:
    """Where the trainings on these sentences lie."""
    key = lib.store_key(options, DECIDING, sentences)
    return lib.Store(Path(options.output) / FOLDER, key, options.resume)


def kept(store: lib.Store, rows: Sequence[Row], fold: int, train: Callable[[], Any]) -> Measured:
    """The numbers of each of `rows`, the machines of one training, on one fold.

    Args:
      store: where they lie.
      rows: the machines; their names and settings name the file.
      fold: its number.
      train: called where there is no file to go on from.
    """
    return tuple(map(_with_status, lib.kept(store, file_name(rows[0], fold), train)))


def file_name(row: Row, fold: int) -> str:
    """The name of a training's file without its suffix."""
    parts = (row.method, row.variant, row.tokens, row.formulation, row.C and f"C{row.C}")
    words = "_".join(part for part in parts if part)
    return re.sub(r"[^\w.]+", "_", f"{words}_fold{fold}")


def _with_status(numbers: dict[str, Any]) -> dict[str, Any]:
    """Enumeration members are written as their names."""
    status = Status.__members__.get(numbers.get("status", ""))
    return numbers if status is None else numbers | {"status": status}


class Job(NamedTuple):
    """Machines that one training gives, and that training: (fold, problem) -> numbers of each."""

    rows: tuple[Row, ...]
    train: Callable[[Fold, Problem], tuple[Numbers, ...]]


class Run(NamedTuple):
    """What all trainings of the tables share.

    Fields:
      options: of the command. store: where the trainings lie. dtype: to compute in.
      finished: the numbers of each machine on each fold, as soon as they are there.
    """

    options: Options
    store: Store
    dtype: str
    finished: list[dict[str, Any]]


def run_tables(options: Options) -> common.Outcome:
    """Train and test all machines, print both tables and write them.

    Raises:
      ValueError: an unknown method, or another option that does not fit.
      CorpusMissing: the corpus is not on this machine; the message says how to get it.
    """
    dtype = common.prepare(options)
    linear, kernel = _jobs(options)
    news = load_conll2002(options.language, Path(options.path) if options.path else None)
    sentences = news.train[: options.sentences]
    features = FeatureOptions(options.affixes, options.window, options.tags)
    index, names = fit_token_index(sentences, features), label_names(sentences)
    corpus = sparse_corpus(sentences, names, index, features)
    run = Run(options, store_of(options, sentences), dtype, [])
    with common.kept_if_stopped(
        options, {"trainings": run.finished}, "the same command with --resume goes on from there"
    ):
        rows = _measure(run, corpus, linear)
        if kernel:
            tokens = kernel_corpus(sentences, names, index, options.normalise, features)
            rows = _measure(run, tokens, kernel) + rows
            del tokens
    rows = sorted(rows, key=lambda row: not row.compared)
    return _save(options, corpus, rows)


def _jobs(options: Options) -> tuple[list[Job], list[Job]]:
    """The machines on sparse features or words, and those with the kernel."""
    linear, kernel = [], []
    for name in METHODS:
        if name in options.methods:
            own = kernel if name in ("perceptron", *SVMS) else linear
            own += _jobs_of(options, name)
    return linear, kernel


def _jobs_of(options: Options, name: str) -> list[Job]:
    """The machines that a word of --methods stands for."""
    kernel = not name.endswith("linear")
    tokens = "degree 2" if kernel else "linear"
    if name == "commonest":
        return [
            Job((Row("commonest label", "", "none", None, None, False),), (_one(commonest_label)))
        ]
    if name == "hmm":
        return [
            Job((Row("HMM", name, "words", None, None, not name),), _one(hidden_markov, rare=rare))
            for name, rare in (("", "unknown"), ("spelling", "spelling"))
        ]
    if name == "crf":
        return [
            Job((Row("CRF", "", "linear", C, None, True),), _one(random_field, C=C))
            for C in options.C
        ]
    if name.startswith("perceptron"):
        rows = tuple(
            Row("perceptron", variant, tokens, None, None, kernel and not variant)
            for variant in ("", "averaged")
        )
        run = last_and_averaged_perceptron
        return [Job(rows, partial(run, epochs=options.epochs, seed=options.seed))]
    formulation = SVMS.get(name, "svm2")
    return [
        Job(
            (Row("SVM", "", tokens, C, formulation, kernel and formulation == "svm2"),),
            _one(support_vector_machine, options=options, formulation=formulation, C=C),
        )
        for C in (options.kernel_C if kernel else options.C)
    ]


def _one(train: Callable[..., Numbers], **how: Any) -> Callable[[Fold, Problem], tuple]:
    return lambda fold, problem: (train(fold, problem, **how),)


def _measure(run: Run, corpus: Corpus, jobs: Sequence[Job]) -> list[Row]:
    """The rows with their numbers, fold by fold; the data of a fold is freed before the next."""
    options = run.options
    problem = chain(corpus.number_of_features, len(corpus.names), dtype=run.dtype)
    folds = stratified_folds(length_classes(corpus), options.folds, options.seed)
    rows = [row for job in jobs for row in job.rows]
    with jobs_bar(enabled=options.progress, total=len(folds) * len(jobs)) as bar:
        for number, chosen in enumerate(folds):
            fold, numbers = fold_of(corpus, chosen.train, chosen.test), []
            for job in jobs:
                bar.set_description(f"{job.rows[0].name}, {job.rows[0].tokens}")
                found = kept(run.store, job.rows, number, partial(job.train, fold, problem))
                run.finished.extend(map(partial(_finished, number), job.rows, found))
                numbers += found
                bar.update()
            rows = [
                row._replace(folds=(*row.folds, own))
                for row, own in zip(rows, numbers, strict=True)
            ]
            del fold
    return rows


def _finished(fold: int, row: Row, numbers: Numbers) -> dict[str, Any]:
    machine = {"machine": row.name, "tokens": row.tokens, "C": row.C}
    return machine | {"formulation": row.formulation, "fold": fold} | numbers


def _save(options: Options, corpus: Corpus, rows: Sequence[Row]) -> common.Outcome:
    """Both tables on paper; one Outcome with the files of both, those of table 2 first."""
    numbers = {"rows": rows}
    plots = {"named_entities": error_plot(options, rows)}
    table = table_two(options, corpus, rows)
    outcome = common.save(options, table, numbers, plots)
    table = table_three(options, corpus, rows)
    if not table.rows:
        return outcome
    margins = common.save(options, table, numbers, name="named_entities_table_3")
    return outcome._replace(files=(*outcome.files, *margins.files))
