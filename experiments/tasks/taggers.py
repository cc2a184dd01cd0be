"""The machines of tables 2 and 3, trained on one fold and tested on the other sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from experiments.corpora.splits import stratified_folds
from experiments.lib.fields import ratio
from experiments.lib.options import AnyOptions
from experiments.lib.record import Stopwatch
from experiments.machines.hidden_markov import HiddenMarkov, decode, fit_hidden_markov
from experiments.tasks.news import (
    Corpus,
    Labels,
    as_numbers,
    chosen,
    label_strings,
    length_classes,
    score,
    true_labels,
)
from jaxstruct import Ragged, Settings, fit, predict, support_outputs
from jaxstruct.baselines.conditional_random_field import fit_random_field
from jaxstruct.baselines.perceptron import perceptron
from jaxstruct.chains.token_features import KernelTokens
from jaxstruct.core.contract import Problem
from jaxstruct.core.types import PyTree

INNER_EPSILON = 0.1
"""Violation at which SVMs of inner folds stop, which choose C alone."""
Numbers = dict[str, Any]


class Fold(NamedTuple):
    """One fold of a corpus over sparse features or kernel values.

    Fields:
      whole: all sentences. train: those that are trained on.
      parts: "train" and "test" -> their places in `whole`.
      used: [n] of an inner fold: 1 for the sentences of `train` that are trained on, 0 for those
        that are held out, which are its "test"; None: all are trained on.
    """

    whole: Corpus
    train: Corpus
    parts: dict[str, np.ndarray]
    used: np.ndarray | None = None


def fold_of(corpus: Corpus, train: np.ndarray, test: np.ndarray) -> Fold:
    """The fold with the training sentences `train` and the test sentences `test`."""
    return Fold(corpus, chosen(corpus, train), {"train": train, "test": test})


def inner_folds(fold: Fold, folds: int, seed: int) -> Iterator[Fold]:
    """The training sentences of a fold, some of them held out in turn.

    Machines that take example weights train on all of them with those of `used`, so that they
    share the compiled programs of the fold itself; the others on `seen`.
    """
    own = fold.parts["train"]
    for part in stratified_folds(length_classes(fold.train), folds, seed):
        used = np.isin(np.arange(len(own)), part.train).astype(np.float64)
        yield fold._replace(parts={"train": own[part.train], "test": own[part.test]}, used=used)


def seen(fold: Fold) -> Corpus:
    """The sentences of a fold that are trained on, without those held out."""
    return fold.train if fold.used is None else chosen(fold.train, np.flatnonzero(fold.used))


def evaluate(fold: Fold, decoded: Callable[[Corpus], Labels]) -> Numbers:
    """Scores of the predictions for both parts, in %: {"train": .., "test": .., "wrong": ..}.

    All sentences are decoded together, so that all folds share the compiled programs. wrong: of
    each test sentence the tokens labelled wrong.
    """
    true, predicted = true_labels(fold.whole), decoded(fold.whole)
    scores: Numbers = {
        name: as_numbers(score([true[int(i)] for i in part], [predicted[int(i)] for i in part]))
        for name, part in fold.parts.items()
    }
    pairs = ((true[int(i)], predicted[int(i)]) for i in fold.parts["test"])
    wrong = [sum(a != b for a, b in zip(x, y, strict=True)) for x, y in pairs]
    return scores | {"wrong": wrong}


def commonest_label(fold: Fold, problem: Problem) -> Numbers:
    """The yardstick: a machine that gives every token the commonest label of the training part."""
    del problem
    watch = Stopwatch()
    label, _ = Counter(y for labels in true_labels(seen(fold)) for y in labels).most_common(1)[0]
    scores = evaluate(fold, lambda part: [[label] * length for length in part.lengths])
    return scores | {**watch.numbers(), "label": label}


def spelling(word: str) -> str:
    """A rough class of a word by its letters, the symbol of a rare word."""
    if any(map(str.isdigit, word)):
        return "digits"
    if not any(map(str.isalpha, word)):
        return "signs"
    if word.isupper() and len(word) > 1:
        return "capitals"
    return "initial" if word[0].isupper() else "small"


def hidden_markov(
    fold: Fold, problem: Problem, *, rare: str, stop: bool = True, smoothing: float = 1.0
) -> Numbers:
    """An HMM whose symbols are words.

    Args:
      smoothing: the Laplace correction.
      rare: "unknown": what the training sentences do not hold is the unknown symbol; "spelling": a
        word that they hold less than twice is the symbol of its `spelling`.
      stop: whether sentences have a probability to end, which the slides' count leaves out.
    """
    del problem  # of a chain over features, which an HMM has none of
    watch, train = Stopwatch(), seen(fold)
    counts = Counter(word for sentence in train.sentences for word in sentence.words)

    def symbol(word: str) -> str:
        plain = rare == "unknown" or counts[word] > 1
        return f"word {word}" if plain else f"spelling {spelling(word)}"

    known = sorted({symbol(word) for word in counts})
    number = {name: place for place, name in enumerate(known)}

    def symbols(part: Corpus) -> Ragged:
        words = [symbol(word) for sentence in part.sentences for word in sentence.words]
        numbers = np.array([number.get(word, len(known)) for word in words], np.int32)
        return Ragged(numbers, part.outputs.offsets)

    sizes = len(known), len(train.names)
    model = fit_hidden_markov(symbols(train), train.outputs, *sizes, stop=stop, smoothing=smoothing)
    model = _widen(model, 1 << len(known).bit_length())

    def decoded(part: Corpus) -> Labels:
        labels = decode(model, symbols(part))
        assert isinstance(labels, Ragged), "as the symbols are"
        return label_strings(labels, part.names)

    scores = evaluate(fold, decoded)
    return scores | {**watch.numbers(), "symbols": len(known)}


def _widen(model: HiddenMarkov, columns: int) -> HiddenMarkov:
    """The model with symbols that never occur, so that folds share a compiled program.

    Unknown symbols keep their own column, since they are given its number and not a higher one.
    """
    short = columns - model.emissions.shape[1]
    wide = np.pad(model.emissions, ((0, 0), (0, short)), constant_values=-np.inf)
    return model._replace(emissions=wide)


def random_field(fold: Fold, problem: Problem, *, C: str) -> Numbers:
    """A conditional random field, trained by L-BFGS until the gradient is small."""
    watch, train = Stopwatch(), fold.train
    machine = fit_random_field(
        problem, train.inputs, train.outputs, ratio_of(C, fold) * len(train.sentences),
        example_weights=fold.used,
    )  # fmt: skip
    return evaluate(fold, _decoder(problem, machine.weights)) | {
        **watch.numbers(), "status": machine.status,
        "iterations": machine.iterations, "gradient_norm": machine.gradient_norm,
    }  # fmt: skip


def last_and_averaged_perceptron(
    fold: Fold, problem: Problem, *, epochs: int, seed: int
) -> tuple[Numbers, ...]:
    """One run of the perceptron, judged by its last and by its averaged weights.

    With kernel tokens the weights are coefficients of tokens: algorithm 1, in the dual.
    """
    watch, train = Stopwatch(), seen(fold)
    machine = perceptron(problem, train.inputs, train.outputs, max_epochs=epochs, seed=seed)
    shared = {
        **watch.numbers(), "status": machine.status,
        "mistakes": machine.mistakes,
    }  # fmt: skip
    return tuple(
        evaluate(fold, _decoder(problem, weights)) | shared
        for weights in (machine.weights, machine.averaged)
    )


def _decoder(problem: Problem, weights: PyTree) -> Callable[[Corpus], Labels]:
    return lambda part: label_strings(predict(problem, weights, part.inputs), part.names)


def settings_of(options: AnyOptions, corpus: Corpus) -> Settings:
    """The settings of `fit`; small groups and few sweeps where tokens are kernel rows.

    A visit of kernel tokens reads their rows, thousands of numbers each: sixteen sentences of them
    do not fit a processor's cache, and a call of the oracle costs no more than a visit.
    """
    settings = options.settings()
    if isinstance(corpus.inputs.features, KernelTokens):
        settings = settings._replace(group=8, oracle_batch=8, cached_sweeps=1)
    return settings


def support_vector_machine(
    fold: Fold, problem: Problem, *, options: AnyOptions, formulation: str, C: str
) -> Numbers:
    """A structural SVM by the paper's rule: no constraint is violated by more than epsilon.

    In inner folds, which only choose C, by more than `INNER_EPSILON`.

    Beside the scores: `constraints`, the cutting planes that were added; `average_loss`, the mean
    Hamming loss of the label sequences with a positive dual variable, each counting once.
    """
    watch, train = Stopwatch(), fold.train
    solution = fit(
        problem, train.inputs, train.outputs, formulation,
        ratio_of(C, fold) * len(train.sentences), tolerance=None,
        epsilon=options.epsilon if fold.used is None else INNER_EPSILON,
        settings=settings_of(options, train), max_passes=options.max_passes,
        example_weights=fold.used,
    )  # fmt: skip
    support, statistics = support_outputs(solution), solution.statistics
    return evaluate(fold, _decoder(problem, solution.weights)) | {
        **watch.numbers(), "status": solution.status, "C": solution.C,
        "constraints": statistics.planes_added, "support": len(support.loss),
        "average_loss": float(np.mean(support.loss)) if len(support.loss) else None,
        "primal": solution.primal, "dual": solution.dual, "passes": statistics.passes,
        "violation": solution.certificate.violation, "oracle_calls": statistics.oracle_calls,
        "compilations": statistics.compilations, "parts": statistics.seconds,
    }  # fmt: skip


def ratio_of(C: str, fold: Fold) -> float:
    """C' = C / n of a word such as 0.1, or 1/n with the n training sentences of the outer fold."""
    return ratio(C, len(fold.train.sentences))
