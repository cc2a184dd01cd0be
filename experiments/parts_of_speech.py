"""Parts of speech: the slides' first sequence task, by a hidden Markov model, a CRF and the SVM.

    python -m experiments.parts_of_speech                       # the sample of the WSJ
    python -m experiments.parts_of_speech --corpus=gum
    python -m experiments.parts_of_speech --sentences=200 --methods=word,hmm

Source: T. Scheffer, Structured Prediction (slides), "Sequence Models": a hidden Markov model
counted without stop probabilities and with the Laplace correction, conditional random fields, the
hidden Markov SVM. The slides have no figures, so there is none to compare with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.corpora.treebanks import TreebankFile, load_gum, load_treebank_sample
from experiments.lib import common, fields
from experiments.lib.options import flag
from experiments.lib.plots import Plot, bar_groups
from experiments.lib.progress import fitted, jobs_bar
from experiments.lib.record import SECONDS, Stopwatch
from experiments.lib.report import Table
from experiments.tasks.news import Corpus, label_names, label_strings, sparse_corpus
from experiments.tasks.taggers import (
    Fold,
    Numbers,
    evaluate,
    fold_of,
    hidden_markov,
    last_and_averaged_perceptron,
    random_field,
)
from experiments.tasks.token_features import FeatureOptions, fit_token_index
from jaxstruct import predict
from jaxstruct.chains.structure import chain
from jaxstruct.core.contract import Problem
from jaxstruct.data.bracketing import clean, read_trees
from jaxstruct.data.conll import Sentence
from jaxstruct.data.trees import tags, words
from jaxstruct.solvers.objective.formulations import FORMULATIONS

METHODS = ("word", "hmm", "crf", "perceptron", "svm")
PARTS = {"wsj": ("01", "00"), "gum": ("train", "test")}
"""Corpus -> (part to train on, part to test on): sections of the WSJ, documents of GUM."""
SHORT = {
    "commonest tag of the word": "word", "HMM, the slides' count": "HMM",
    "HMM, with stop probabilities": "HMM stop", "HMM, classes of rare words": "HMM rare",
    "perceptron": "perc.", "perceptron, averaged": "perc. av.",
}  # fmt: skip
"""Names of rows in the picture, where they are not their first part."""
NAMES = {"wsj": "WSJ sample, section 01 to 00", "gum": "GUM, document split"}


class Options(fields.Training):
    """The flags of this command."""

    corpus: str = flag("wsj", "The 5 % sample of the Wall Street Journal, or GUM.", PARTS)
    path: str | None = flag(None, "The archive; default: see third_party_data.")
    sentences: int = flag(1000, "The first so many training sentences; 0: all.", least=0)
    test_sentences: int = flag(1000, "The first so many test sentences; 0: all.", least=0)
    methods: Sequence[str] = flag(
        METHODS,
        "Some of word (each word's commonest tag), hmm (as the slides count it, with stop "
        "probabilities, and with classes of rare words), crf, perceptron, svm.",
        METHODS,
        some=True,
    )
    c_over_n: float = flag(0.1, "C' = C / n of the SVM.", above=0)
    tolerance: float = 1e-2
    epochs: int = flag(10, "Passes of the perceptron at most.", least=1)
    affixes: int = flag(4, "Letters of prefixes and suffixes.", least=0)
    max_passes: int = flag(200, "Rounds of the SVM at most.", least=1)


class Machine(NamedTuple):
    """A row: its name, what a token is to it, and its training, which gives one numbers or more."""

    names: tuple[str, ...]
    tokens: str
    train: Callable[[Fold, Problem], Any]


def run(options: Options) -> common.Outcome:
    """Train and test all machines, print the table and write it.

    Raises:
      ValueError: an option that does not fit.
      CorpusMissing: the corpus is not on this machine; the message says how to get it.
    """
    dtype = common.prepare(options)
    train, test = load_sentences(options)
    features = FeatureOptions(options.affixes)
    index, names = fit_token_index(train, features), label_names((*train, *test))
    corpus = sparse_corpus((*train, *test), names, index, features)
    fold = fold_of(corpus, np.arange(len(train)), np.arange(len(train), len(train) + len(test)))
    problem = chain(corpus.number_of_features, len(names), dtype=dtype)
    name, rows = f"parts_of_speech_{options.corpus}", []
    with (
        common.kept_if_stopped(options, {"rows": rows}, name=name),
        jobs_bar(list(machines(options)), "parts of speech", options.progress) as bar,
    ):
        for machine in bar:
            found = machine.train(fold, problem)
            every = found if isinstance(found, tuple) else (found,)
            for label, numbers in zip(machine.names, every, strict=True):
                rows.append({"method": label, "tokens": machine.tokens} | numbers)
    table = _table(options, fold, rows)
    numbers = {"rows": rows, "tags": list(names)}
    return common.save(options, table, numbers, _plots(options, rows), name=name)


def load_sentences(options: Options) -> tuple[tuple[Sentence, ...], tuple[Sentence, ...]]:
    """(training, test) sentences with their tags, traces left out."""
    path = Path(options.path) if options.path else None
    files = (load_gum if options.corpus == "gum" else load_treebank_sample)(path)
    counts = options.sentences, options.test_sentences
    found = [
        _sentences(files, part)[: count or None]
        for part, count in zip(PARTS[options.corpus], counts, strict=True)
    ]
    for part, of_part in zip(PARTS[options.corpus], found, strict=True):
        if not of_part:
            raise ValueError(f"path: the treebank has no sentence of part {part!r}")
    return found[0], found[1]


def _sentences(files: Sequence[TreebankFile], part: str) -> tuple[Sentence, ...]:
    cleaned = (
        clean(tree) for file in files if file.part == part
        for tree in read_trees(file.text, file.name)
    )  # fmt: skip
    return tuple(Sentence(words(tree), (), tags(tree)) for tree in cleaned if tree is not None)


def machines(options: Options) -> list[Machine]:
    """The rows that the options ask for."""
    every = {
        "word": [Machine(("commonest tag of the word",), "words", commonest_tag)],
        "hmm": [
            Machine(("HMM, the slides' count",), "words", _markov("unknown", False)),
            Machine(("HMM, with stop probabilities",), "words", _markov("unknown", True)),
            Machine(("HMM, classes of rare words",), "words", _markov("spelling", False)),
        ],
        "crf": [Machine(("CRF, C' = 1",), "features", partial(random_field, C="1"))],
        "perceptron": [
            Machine(
                ("perceptron", "perceptron, averaged"), "features",
                partial(last_and_averaged_perceptron, epochs=options.epochs, seed=options.seed),
            )
        ],
        "svm": [
            Machine(
                (f"svm1_margin, C' = {options.c_over_n:g}",), "features",
                partial(support_vector_machine, options=options),
            )
        ],
    }  # fmt: skip
    return [machine for name in METHODS if name in options.methods for machine in every[name]]


def _markov(rare: str, stop: bool) -> Callable[[Fold, Problem], Numbers]:
    return partial(hidden_markov, rare=rare, stop=stop)


def commonest_tag(fold: Fold, problem: Problem) -> Numbers:
    """The yardstick: each word has the tag that it has most often, an unknown one the commonest."""
    del problem
    watch = Stopwatch()
    seen: dict[str, Counter[str]] = {}
    every: Counter[str] = Counter()
    for sentence in fold.train.sentences:
        for word, tag in zip(sentence.words, sentence.labels, strict=True):
            seen.setdefault(word, Counter())[tag] += 1
            every[tag] += 1
    best = {word: counts.most_common(1)[0][0] for word, counts in seen.items()}
    (default, _), *_ = every.most_common(1)

    def decoded(part: Corpus) -> list[list[str]]:
        return [[best.get(word, default) for word in each.words] for each in part.sentences]

    return evaluate(fold, decoded) | watch.numbers()


def support_vector_machine(fold: Fold, problem: Problem, *, options: Options) -> Numbers:
    """The structural SVM to the gap that the options ask for."""
    watch, train, name = Stopwatch(), fold.train, "svm1_margin"
    solution, _ = fitted(
        options, name, (problem, train.inputs, train.outputs), name,
        options.c_over_n * len(train.sentences), max_passes=options.max_passes,
    )  # fmt: skip

    def decoded(part: Corpus) -> Any:
        return label_strings(predict(problem, solution, part.inputs), part.names)

    return evaluate(fold, decoded) | {
        "status": solution.status, "primal": solution.primal, "dual": solution.dual,
        **watch.numbers(),
    }  # fmt: skip


def _table(options: Options, fold: Fold, rows: Sequence[Numbers]) -> Table:
    lines = [
        [
            row["method"], row["tokens"], row["train"]["token_error"], row["test"]["token_error"],
            row["seconds"], row.get("compile_seconds"), str(row.get("status", "")),
        ]
        for row in rows
    ]  # fmt: skip
    columns = ["method", "a token is", ("error %", "train"), ("error %", "test"), *SECONDS,
               "status"]  # fmt: skip
    known = {word for sentence in fold.train.sentences for word in sentence.words}
    test = [fold.whole.sentences[int(i)] for i in fold.parts["test"]]
    tested = [word for sentence in test for word in sentence.words]
    unknown = 100 * sum(word not in known for word in tested) / len(tested)
    notes = [
        f"{NAMES[options.corpus]}: {len(fold.train.sentences)} sentences to train, {len(test)} of "
        f"{len(tested)} tokens to test, {unknown:.1f} % of these with a word not seen in training; "
        f"{len(fold.whole.names)} tags.",
        "HMM: slides, \"HMM Learning\": no stop probability, Laplace correction 1.",
        f"Features: words, affixes of {options.affixes} letters, 1 neighbour on each side.",
    ]  # fmt: skip
    return Table("Parts of speech: tokens with a wrong tag", columns, lines, notes)


def _plots(options: Options, rows: Sequence[Numbers]) -> dict[str, Plot]:
    errors = {"test": [round(row["test"]["token_error"], 2) for row in rows]}
    title = f"Parts of speech, {NAMES[options.corpus]}"
    names = [str(SHORT.get(row["method"], row["method"].partition(",")[0])) for row in rows]
    names = ["SVM" if name in FORMULATIONS else name for name in names]
    bars = bar_groups(names, errors, {}, title, "test error, per cent")
    return {f"parts_of_speech_{options.corpus}": bars}
