"""Tables 2 and 3: every machine on every fold of the first sentences."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.corpora.conll2002 import load_conll2002
from experiments.corpora.splits import stratified_folds
from experiments.lib import common
from experiments.lib import kept as lib
from experiments.lib.kept import Store
from experiments.lib.progress import jobs_bar
from experiments.lib.record import Stopwatch
from experiments.named_entities.report import (
    CHOSEN,
    METHODS,
    SVMS,
    Options,
    Row,
    differences,
    error_plot,
    table_three,
    table_two,
)
from experiments.tasks.news import Corpus, kernel_corpus, label_names, length_classes, sparse_corpus
from experiments.tasks.taggers import (
    Fold,
    Numbers,
    commonest_label,
    fold_of,
    hidden_markov,
    inner_folds,
    last_and_averaged_perceptron,
    random_field,
    support_vector_machine,
)
from experiments.tasks.token_features import FeatureOptions, fit_token_index
from jaxstruct import Status
from jaxstruct.chains.structure import chain
from jaxstruct.core.contract import Problem
from jaxstruct.data.conll import Sentence

FOLDER = "named_entities_folds"
"""In the folder of results: a file a training; see `lib.kept`."""
DECIDING = (
    "sentences", "folds", "inner_folds", "C", "smoothing", "epochs", "epsilon", "affixes", "window",
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
    parts = (row.method, row.variant, row.tokens, row.formulation, row.setting)
    words = "_".join(part for part in parts if part)
    return re.sub(r"[^\w.]+", "_", f"{words}_fold{fold}")


def _with_status(numbers: dict[str, Any]) -> dict[str, Any]:
    """Enumeration members are written as their names."""
    status = Status.__members__.get(numbers.get("status", ""))
    return numbers if status is None else numbers | {"status": status}


class Job(NamedTuple):
    """Machines that one training gives, its settings, and that training.

    Fields:
      rows: the machines. settings: to choose from, in the order in which ties are broken.
      train: (fold, problem, setting) -> numbers of each machine.
    """

    rows: tuple[Row, ...]
    settings: tuple[str, ...]
    train: Callable[[Fold, Problem, str], tuple[Numbers, ...]]


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
    jobs = _jobs(options)
    news = load_conll2002("esp", Path(options.path) if options.path else None)
    sentences = news.train[: options.sentences]
    features = FeatureOptions(options.affixes, options.window)
    index, names = fit_token_index(sentences, features), label_names(sentences)
    corpus = sparse_corpus(sentences, names, index, features)
    run = Run(options, store_of(options, sentences), dtype, [])
    with common.kept_if_stopped(
        options, {"trainings": run.finished}, "the same command with --resume goes on from there"
    ):
        rows = _measure(run, corpus, jobs["linear"])
        if jobs["kernel"]:
            tokens = kernel_corpus(sentences, names, index, False, features)
            rows = _measure(run, tokens, jobs["kernel"]) + rows
            del tokens
    rows = sorted(rows, key=lambda row: not row.compared)
    return _save(options, corpus, rows)


def _jobs(options: Options) -> dict[str, list[Job]]:
    """The machines on sparse features or words, and those with the kernel."""
    jobs: dict[str, list[Job]] = {"linear": [], "kernel": []}
    for name in METHODS:
        if name in options.methods:
            own = jobs["kernel" if name in ("perceptron", *SVMS) else "linear"]
            own += _jobs_of_table_two(options, name)
            if name in SVMS:
                known = {job.rows[0] for job in own}
                own += [
                    job for job in _jobs_of_table_three(options, name) if job.rows[0] not in known
                ]
    return jobs


def _jobs_of_table_two(options: Options, name: str) -> list[Job]:
    """The machines that a word of --methods stands for: at the chosen, or at every setting."""
    kernel = not name.endswith("linear")
    tokens, C = "degree 2" if kernel else "linear", tuple(options.C)
    if name == "commonest":
        row = Row("commonest label", "", "none", None, None, False)
        return [Job((row,), ("",), lambda fold, problem, _: (commonest_label(fold, problem),))]
    if name == "hmm":
        return [
            job
            for variant, rare in (("", "unknown"), ("spelling", "spelling"))
            for job in _each(
                options, (Row("HMM", variant, "words", None, None, not variant),),
                tuple(options.smoothing), partial(_hidden_markov, rare=rare),
            )
        ]  # fmt: skip
    if name == "crf":
        return _each(options, (Row("CRF", "", "linear", None, None, True),), C, _random_field)
    if name.startswith("perceptron"):
        rows = tuple(
            Row("perceptron", variant, tokens, None, None, kernel and not variant)
            for variant in ("", "averaged")
        )
        return _each(options, rows, tuple(options.epochs), partial(_perceptron, options))
    if name not in ("svm", "svm_linear"):
        return []
    row = Row("SVM", "", tokens, None, "svm2", kernel)
    return _each(options, (row,), C, partial(_svm, options, "svm2"))


def _jobs_of_table_three(options: Options, name: str) -> list[Job]:
    """A formulation with the kernel at the values of --table_3_C."""
    formulation = SVMS[name]
    return [
        Job(
            (Row("SVM", "", "degree 2", C, formulation, formulation == "svm2"),), (C,),
            partial(_svm, options, formulation),
        )
        for C in options.table_3_C
    ]  # fmt: skip


def _each(
    options: Options, rows: tuple[Row, ...], settings: tuple[str, ...], train: Callable[..., Any]
) -> list[Job]:
    """One job at the chosen setting, or one for every setting."""
    if options.inner_folds:
        return [Job(tuple(row._replace(setting=CHOSEN) for row in rows), settings, train)]
    return [
        Job(tuple(row._replace(setting=setting) for row in rows), (setting,), train)
        for setting in settings
    ]


def _hidden_markov(fold: Fold, problem: Problem, setting: str, *, rare: str) -> tuple[Numbers]:
    return (hidden_markov(fold, problem, rare=rare, smoothing=float(setting)),)


def _random_field(fold: Fold, problem: Problem, setting: str) -> tuple[Numbers]:
    return (random_field(fold, problem, C=setting),)


def _perceptron(
    options: Options, fold: Fold, problem: Problem, setting: str
) -> tuple[Numbers, ...]:
    return last_and_averaged_perceptron(fold, problem, epochs=int(setting), seed=options.seed)


def _svm(
    options: Options, formulation: str, fold: Fold, problem: Problem, setting: str
) -> tuple[Numbers]:
    how = {"options": options, "formulation": formulation, "C": setting}
    return (support_vector_machine(fold, problem, **how),)


def train_at_best(job: Job, fold: Fold, problem: Problem, folds: int, seed: int) -> Measured:
    """Each machine of a job, trained at its setting of least mean token error in inner folds.

    Returns:
      Its numbers, setting: the word that was chosen and, where there was a choice, inner_errors:
      setting -> mean token error in %; choosing_seconds: for all of it.
    """
    if len(job.settings) == 1:
        (only,) = job.settings
        return tuple(numbers | {"setting": only} for numbers in job.train(fold, problem, only))
    watch = Stopwatch()
    errors = np.mean(
        [
            [
                [numbers["test"]["token_error"] for numbers in job.train(inner, problem, setting)]
                for setting in job.settings
            ]
            for inner in inner_folds(fold, folds, seed)
        ],
        axis=0,
    )
    best, spent = errors.argmin(axis=0), watch.numbers()["seconds"]
    found = {place: job.train(fold, problem, job.settings[place]) for place in {*best.tolist()}}
    return tuple(
        found[place][row] | {
            "setting": job.settings[place], "choosing_seconds": spent,
            "inner_errors": dict(zip(job.settings, errors[:, row].tolist(), strict=True)),
        }
        for row, place in enumerate(best.tolist())
    )  # fmt: skip


def _measure(run: Run, corpus: Corpus, jobs: Sequence[Job]) -> list[Row]:
    """The rows with their numbers, fold by fold; the data of a fold is freed before the next."""
    if not jobs:
        return []
    options = run.options
    problem = chain(corpus.number_of_features, len(corpus.names), dtype=run.dtype)
    folds = stratified_folds(length_classes(corpus), options.folds, options.seed)
    rows = [row for job in jobs for row in job.rows]
    how = options.inner_folds, options.seed
    with jobs_bar(enabled=options.progress, total=len(folds) * len(jobs)) as bar:
        for number, chosen in enumerate(folds):
            fold, numbers = fold_of(corpus, chosen.train, chosen.test), []
            for job in jobs:
                bar.set_description(f"{job.rows[0].name}, {job.rows[0].tokens}")
                train = partial(train_at_best, job, fold, problem, *how)
                found = kept(run.store, job.rows, number, train)
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
    machine = {"machine": row.name, "tokens": row.tokens, "setting": row.setting}
    return machine | {"formulation": row.formulation, "fold": fold} | numbers


def _save(options: Options, corpus: Corpus, rows: Sequence[Row]) -> common.Outcome:
    """All tables on paper; one Outcome with the files of all, those of table 2 first."""
    numbers = {"rows": rows}
    plots = {"named_entities": error_plot(options, rows)}
    found = [
        table_two(options, corpus, rows),
        differences(options, rows),
        table_three(options, corpus, rows),
    ]
    names = ("", "named_entities_differences", "named_entities_table_3")
    outcomes = [
        common.save(options, table, numbers, {} if name else plots, name=name)
        for table, name in zip(found, names, strict=True) if table.rows
    ]  # fmt: skip
    files = tuple(path for outcome in outcomes for path in outcome.files)
    return outcomes[0]._replace(files=files)
